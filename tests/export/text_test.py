"""Tests of the tokenizer as TensorFlow operations."""

import ast
import functools
import gzip
import json
import re
import subprocess
import sys

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from bert_tf import tokenization
from bert_tf.data import packing
from bert_tf.export import text
from bert_tf.tasks import base
from tests.support import checkout, random_texts, tokenizer_pairs

# Hand-made; ids are the positions.
VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] play ##ing ##ed the cafe ! , ##s $ 日"
VOCAB = {token: index for index, token in enumerate(VOCAB.split())}

# do_lower_case and strip_accents.
CASES = [(True, None), (False, None), (True, False), (False, True)]


@pytest.fixture(scope="module")
def tokenizer():
  return text.BertTokenizer(VOCAB)


@pytest.fixture(scope="module")
def tokenizers(unpacked):
  """Returns a function from settings to FullTokenizer and BertTokenizer."""

  def make(name, do_lower_case, strip_accents=None):
    path = unpacked("vocab") / f"bert_base_{name}_vocab.txt"
    full = tokenization.FullTokenizer(str(path), do_lower_case, strip_accents)
    return full, text.BertTokenizer(full.vocab, do_lower_case, strip_accents)

  return functools.cache(make)


def read_bytes(line):
  """Returns the bytes of a recorded text, including lone surrogates."""
  if "text" in line:
    return line["text"].encode("utf-8", "surrogatepass")
  return bytes.fromhex(line["bytes_hex"])


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_every_recorded_text_gives_the_originals_ids(shared, tokenizers, case):
  path = shared / "golden" / "tokenization" / "golden.jsonl.gz"
  with gzip.open(path, "rt") as reader:
    lines = [json.loads(line) for line in reader]
  assert len(lines) == 1364
  lines = [line for line in lines if not line["ucd_sensitive"]]
  full, ops = tokenizers("uncased", do_lower_case=case == "uncased")
  texts = list(map(read_bytes, lines))
  ids = ops.tokenize(texts).to_list()
  assert ids == list(map(full.tokenize_to_ids, texts))
  # UTF-8 has no lone surrogates. The operations drop their bytes; the original
  # converted words with them to [UNK].
  for line, result in zip(lines, ids):
    is_utf8 = not re.search("[\ud800-\udfff]", line.get("text", ""))
    assert result == line[f"{case}_ids"] or not is_utf8, line


def test_an_input_of_keras_is_refused_with_what_to_use(tokenizer):
  inputs = keras.Input((), dtype="string")
  with pytest.raises(ValueError, match=r"keras.Input.*tf.data"):
    tokenizer.tokenize(inputs)


@pytest.mark.parametrize("case", CASES[:2])
def test_every_known_character_is_treated_as_full_tokenizer_does(
  tmp_path, case
):
  known = filter(tokenizer_pairs.is_known, map(chr, range(0x30000)))
  texts = [f"a{char}b" for char in known]
  # Every character of the texts is a piece, so the ids tell which characters
  # are kept, and where words begin.
  basic, path = tokenization.BasicTokenizer(*case), tmp_path / "vocab.txt"
  chars = sorted({c for text in texts for c in "".join(basic.tokenize(text))})
  words = ["[UNK]", *chars, *(f"##{char}" for char in chars), ""]
  path.write_text("\n".join(words))
  full = tokenization.FullTokenizer(str(path), *case)
  ops = text.BertTokenizer(full.vocab, *case)
  assert not tokenizer_pairs.faults(texts, full, ops, 50_000)


@pytest.mark.parametrize(
  "setting",
  [
    *[("uncased", *case) for case in CASES],
    ("multilingual_cased", False, None),
    ("multilingual_cased", True, False),
    ("chinese", True, None),
  ],
)
def test_random_texts_give_the_ids_of_full_tokenizer(tokenizers, setting):
  full, ops = tokenizers(*setting)
  texts = list(random_texts.make(3000, seed=str(setting)))
  assert not tokenizer_pairs.faults(texts, full, ops)


BYTES = st.sampled_from(b"aZ \x80\xbf\xc0\xc3\xe2\x82\xed\xa0\xf0\x9f\xf4\xff")


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(
  st.lists(st.lists(BYTES, max_size=9).map(bytes) | st.binary(), min_size=1)
)
def test_invalid_utf8_is_dropped(tokenizers, texts):
  full, ops = tokenizers("uncased", do_lower_case=True)
  ids = ops.tokenize(tf.constant(texts, tf.string)).to_list()
  assert ids == list(map(full.tokenize_to_ids, texts))


_IN_ANOTHER_LOCALE = """
import bert_tf
words = ["[UNK]", "i", "##\\u0307", "##i", "##\\u0131"]
vocab = {word: index for index, word in enumerate(words)}
for strip_accents in (True, False):
  ops = bert_tf.BertTokenizer(vocab, True, strip_accents)
  print(ops.tokenize(["I \\u0130 I\\u0307 II"]).to_list()[0])
"""


@pytest.mark.slow
def test_the_locale_of_the_process_changes_nothing():
  result = subprocess.run(
    [sys.executable, "-c", _IN_ANOTHER_LOCALE],
    env={"LC_ALL": "tr_TR.UTF-8", "PYTHONPATH": str(checkout.ROOT)},
    capture_output=True,
    text=True,
    check=True,
  )
  stripped, kept = map(ast.literal_eval, result.stdout.splitlines())
  assert stripped == [1, 1, 1, 1, 3]
  assert kept == [1, 1, 2, 1, 2, 1, 3]


PLAY = "play" + "ing" * 65 + "s"  # 200 characters.
PIECES = [5, *[6] * 65, 12]


@pytest.mark.parametrize(
  ("words", "ids"),
  [
    ("Playing, played!", [5, 6, 11, 5, 7, 10]),
    ("", []),
    (" \t\n", []),
    # The vocabulary has no [, mask and ].
    ("the CAFÉ[MASK]", [8, 9, 1, 1, 1]),
    ("xyz plays 日the", [1, 5, 12, 14, 8]),
    # Words of more characters are unknown. The 201st is stripped, or is a
    # character as another.
    (PLAY, PIECES),
    (f"{PLAY}\u0301", PIECES),
    (f"{PLAY}s", [1]),
    (f"日{PLAY}! {'é' * 201}", [14, *PIECES, 10, 1]),
  ],
)
def test_words_and_pieces_by_hand(words, ids):
  # A tokenizer without a name can be called.
  assert text.BertTokenizer(VOCAB).tokenize([words]).to_list() == [ids]


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(
  st.lists(
    st.tuples(*[st.lists(st.integers(5, 11), max_size=9)] * 2), min_size=1
  ),
  st.booleans(),
  st.integers(3, 24),
)
def test_packed_texts_equal_those_of_features(
  tokenizer, rows, are_pairs, max_seq_length
):
  columns = [*zip(*rows)][: 1 + are_pairs]
  assembled = [
    packing.assemble(a, b if are_pairs else None, 2, 3, max_seq_length)
    for a, b in rows
  ]
  inputs = [base.model_input(*each) for each in assembled]
  expected = base.batch(inputs, max_seq_length)
  segments = [
    tf.ragged.constant(column, tf.int32, ragged_rank=1) for column in columns
  ]
  packed = tokenizer.pack(segments, max_seq_length)
  short = tokenizer.pack(segments, max_seq_length, pad_to_max=False)
  longest = expected["input_mask"].sum(axis=1).max()
  for name, values in packed.items():
    assert values.dtype == tf.int32
    np.testing.assert_array_equal(values, expected[name])
    np.testing.assert_array_equal(short[name], values[:, :longest])


@pytest.mark.parametrize(
  ("vocab", "message"),
  [
    (["a", "b"], "unk"),
    (["[UNK]", "a" * 300], r".*256.*unused"),
    (["[UNK]", "a\0b"], "cannot be compiled"),
  ],
)
def test_faulty_vocabularies_are_refused(vocab, message):
  with pytest.raises(ValueError, match=message):
    text.BertTokenizer({token: index for index, token in enumerate(vocab)})


def test_a_blank_line_of_the_vocabulary_keeps_the_other_ids():
  vocab = {"[UNK]": 0, "": 1, "a": 2, "##": 3, "##b": 4}
  tokenizer = text.BertTokenizer(vocab)
  assert tokenizer.tokenize(["a ab  ", "x"]).to_list() == [[2, 2, 4], [0]]


def test_the_tokenizer_works_in_a_dataset_and_on_an_empty_batch(tokenizer):
  texts = tf.data.Dataset.from_tensor_slices(["the cafe", "play"]).batch(2)
  packed = texts.map(lambda t: tokenizer.pack([tokenizer.tokenize(t)], 5))
  (result,) = packed.as_numpy_iterator()
  assert result["input_ids"].tolist() == [[2, 8, 9, 3, 0], [2, 5, 3, 0, 0]]
  nothing = tokenizer.tokenize(tf.constant([], tf.string))
  for segments in ([nothing], [nothing, nothing]):
    packed = tokenizer.pack(segments, 5)
    assert packed["input_ids"].shape == (0, 5)
