"""The tokenizer in Python beside the same one as TensorFlow operations."""

import tensorflow as tf

from bert_tf.export.text_ops import bert_tokenizer, word_splitter


def words_of(words):
  """The words of each text of a `word_splitter.Words`, as tuples of str."""
  codes = tf.RaggedTensor.from_row_splits(words.codes, words.splits)
  strings = tf.strings.unicode_encode(codes, "UTF-8").numpy()
  return list(zip(words.texts.numpy().tolist(), map(bytes.decode, strings)))


def differing(texts, full, ops, batch_size=5000):
  """The texts that have other ids or other words, in ASCII.

  Args:
    texts: list of str.
    full: FullTokenizer.
    ops: BertTokenizer of the same vocabulary and settings.
    batch_size: how many texts are tokenized together.
  """
  basic = full.basic_tokenizer
  splitter = word_splitter.WordSplitter(
    basic.do_lower_case, basic.strip_accents
  )
  split = tf.function(splitter.words, input_signature=[bert_tokenizer._TEXTS])
  found = []
  for start in range(0, len(texts), batch_size):
    batch = texts[start : start + batch_size]
    ids = ops.tokenize(tf.constant(batch)).to_list()
    words = [[] for _ in batch]
    for row, word in words_of(split(tf.constant(batch))):
      words[row].append(word)
    found += [
      ascii(text)
      for text, text_ids, text_words in zip(batch, ids, words)
      if text_ids != full.tokenize_to_ids(text)
      or text_words != basic.tokenize(text)
    ]
  return found
