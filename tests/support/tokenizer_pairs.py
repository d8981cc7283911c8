"""Compares the Python tokenizer with the one in TensorFlow operations."""

import tensorflow as tf

from bert_tf.export.text_ops import bert_tokenizer, word_splitter


def decode_words(words):
  """Returns (text index, word) of each word in a `word_splitter.Words`."""
  codes = tf.RaggedTensor.from_row_splits(words.codes, words.splits)
  strings = tf.strings.unicode_encode(codes, "UTF-8").numpy()
  return list(zip(words.texts.numpy().tolist(), map(bytes.decode, strings)))


def differing(texts, full, ops, batch_size=5000):
  """Returns the texts, escaped to ASCII, whose ids or words differ.

  Args:
    texts: list of str.
    full: FullTokenizer.
    ops: BertTokenizer with the same vocabulary and settings.
    batch_size: number of texts per call.
  """
  basic = full.basic_tokenizer
  splitter = word_splitter.WordSplitter(
    basic.do_lower_case, basic.strip_accents
  )
  split = tf.function(splitter.words, input_signature=[bert_tokenizer._TEXTS])
  differing_texts = []
  for start in range(0, len(texts), batch_size):
    batch = texts[start : start + batch_size]
    ids = ops.tokenize(tf.constant(batch)).to_list()
    words = [[] for _ in batch]
    for row, word in decode_words(split(tf.constant(batch))):
      words[row].append(word)
    differing_texts += [
      ascii(text)
      for text, text_ids, text_words in zip(batch, ids, words)
      if text_ids != full.tokenize_to_ids(text)
      or text_words != basic.tokenize(text)
    ]
  return differing_texts
