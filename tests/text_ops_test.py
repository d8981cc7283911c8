import gzip
import json
import random
import subprocess
import sys
import textwrap
import unicodedata

import keras
import numpy as np
import pytest
import random_texts
import tensorflow as tf

from bert_tf import features, text_ops, tokenization, word_ops

# Made by hand; ids are the positions.
VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] play ##ing ##ed the cafe ! , ##s $ 日"
VOCAB = {token: index for index, token in enumerate(VOCAB.split())}

# Recorded lines whose ids differ, by reason.
DIFFERING = {
  "uncased": {
    "lone surrogates, which no UTF-8 can hold, are left out": set(),
  },
  "cased": {
    "lone surrogates, which no UTF-8 can hold, are left out": set(),
  },
}

# Vocabulary and its case; others are tried to find mistakes that it hides.
SETTINGS = [
  ("uncased", True, None),
  ("cased", False, None),
  ("multilingual_cased", False, None),
  ("chinese", True, None),
  ("multilingual_cased", True, False),
  ("cased", False, True),
]


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
  path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
  path.write_text("".join(f"{token}\n" for token in VOCAB))
  return str(path)


@pytest.fixture(scope="module")
def tokenizer():
  return text_ops.BertTokenizer(VOCAB)


@pytest.fixture(scope="module")
def both(unpacked):
  """A function from a setting to FullTokenizer and BertTokenizer."""

  def make(name, do_lower_case, strip_accents=None):
    path = unpacked("vocab") / f"bert_base_{name}_vocab.txt"
    full = tokenization.FullTokenizer(str(path), do_lower_case, strip_accents)
    ops = text_ops.BertTokenizer(full.vocab, do_lower_case, strip_accents)
    return full, ops

  return make


def encoded(text):
  """The bytes of a recorded text, lone surrogates too."""
  return text.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_every_recorded_text_gives_the_originals_ids(shared, both, case):
  path = shared / "golden" / "tokenization" / "golden.jsonl.gz"
  with gzip.open(path, "rt") as reader:
    lines = [json.loads(line) for line in reader]
  assert len(lines) == 1364
  if unicodedata.unidata_version != "14.0.0":
    lines = [line for line in lines if not line["ucd_sensitive"]]
  texts = [
    encoded(line["text"])
    if "text" in line
    else bytes.fromhex(line["bytes_hex"])
    for line in lines
  ]
  _, ops = both("uncased", do_lower_case=case == "uncased")
  ids = ops.tokenize(texts).to_list()
  differing = {
    line["id"]
    for line, found in zip(lines, ids)
    if found != line[f"{case}_ids"]
  }
  assert differing == set().union(*DIFFERING[case].values())


def words_of(words):
  """The words of each text of a `word_ops.Words`, as tuples of str."""
  codes = tf.RaggedTensor.from_row_splits(words.codes, words.splits)
  strings = tf.strings.unicode_encode(codes, "UTF-8").numpy()
  return list(zip(words.texts.numpy().tolist(), map(bytes.decode, strings)))


def count_differing(texts, full, ops, batch_size=5000):
  """How many texts give other ids or other words, and the first of them."""
  basic = full.basic_tokenizer
  splitter = word_ops.WordSplitter(basic.do_lower_case, basic.strip_accents)
  split = tf.function(splitter.words, input_signature=[text_ops._TEXTS])
  differing = []
  for start in range(0, len(texts), batch_size):
    batch = texts[start : start + batch_size]
    ids = ops.tokenize(tf.constant(batch)).to_list()
    words = [[] for _ in batch]
    for row, word in words_of(split(tf.constant(batch))):
      words[row].append(word)
    differing += [
      text
      for text, found, found_words in zip(batch, ids, words)
      if found != full.tokenize_to_ids(text)
      or found_words != basic.tokenize(text)
    ]
  return len(differing), [ascii(text) for text in differing[:3]]


@pytest.mark.parametrize("setting", SETTINGS)
def test_random_texts_give_the_words_and_ids_of_full_tokenizer(both, setting):
  full, ops = both(*setting)
  texts = list(random_texts.make(3500, seed=str(setting)))
  assert count_differing(texts, full, ops) == (0, [])


# 1,000,000 texts under each setting, some minutes each.
@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_million_random_texts_give_no_other_words_or_ids(both, setting):
  full, ops = both(*setting)
  count, first = 0, []
  for part in range(50):
    texts = list(random_texts.make(20_000, seed=f"{setting} {part}"))
    found, examples = count_differing(texts, full, ops)
    count += found
    first += examples
  print(f"{setting}: {count} of 1,000,000 differ")
  assert (count, first[:3]) == (0, [])
