import collections
import math
import os
import random
import re

import pytest

from bert_tf import tokenization
from bert_tf.text import vocabulary


@pytest.fixture(scope="module")
def word_counts():
  """Counts of words made of syllables, so that they share pieces."""
  rng = random.Random(7)
  syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
  counts = collections.Counter()
  for _ in range(6_000):
    size = rng.choice([1, 2, 2, 3, 4])
    # The square favours the first syllables, as real text does.
    picks = [int(len(syllables) * rng.random() ** 2) for _ in range(size)]
    counts["".join(syllables[pick] for pick in picks)] += 1
  counts.update({"!": 900, "学": 40, "习": 30, "ø": 1})
  return counts


def test_words_are_counted_as_the_tokenizer_splits_them():
  lines = [
    "The cat, the hat;\tthe cat's café.",
    "",
    "学习 the\x1ccat \ufffd",
    "The cat, again",
  ] * 3
  for lower in (True, False):
    tokenizer = tokenization.BasicTokenizer(lower)
    expected = collections.Counter()
    for line in lines:
      expected.update(tokenizer.tokenize(line))
    assert vocabulary.count_words(lines, tokenizer) == (expected, {})


def test_every_nth_line_is_held_out():
  lines = ["a", "b", "c", "d", "e", "f", "g"]
  tokenizer = tokenization.BasicTokenizer()
  for interval, expected in [(3, "cf"), (7, "g"), (8, ""), (0, "")]:
    counts, held_out = vocabulary.count_words(lines, tokenizer, interval)
    assert set(held_out) == set(expected)
    assert set(counts) == set("abcdefg") - set(expected)


def test_reserved_tokens_have_the_released_ids(unpacked):
  path = unpacked("vocab") / "bert_base_uncased_vocab.txt"
  released = list(tokenization.load_vocab(str(path)))
  # The uncased vocabulary has 994 unused tokens, 99 before the special ones.
  assert vocabulary.reserved_tokens(994) == released[:999]


@pytest.mark.parametrize("vocab_size", [250, 1000, 2000])
def test_the_size_is_exact_and_every_training_word_is_known(
  word_counts, vocab_size
):
  tokens = vocabulary.learn_tokens(word_counts, vocab_size)
  assert len(tokens) == len(set(tokens)) == vocab_size
  assert tokens[:104] == vocabulary.reserved_tokens(99)
  vocab = {token: index for index, token in enumerate(tokens)}
  assert vocabulary.measure_coverage(vocab, word_counts).num_unknown == 0
  wordpiece = tokenization.WordpieceTokenizer(vocab)
  for word, _ in word_counts.most_common(vocab_size // 10):
    assert vocab_size < 1000 or wordpiece.tokenize(word) == [word]


def test_coverage_counts_words_unknowns_and_pieces():
  vocab = {"[UNK]": 0, "a": 1, "##b": 2}
  coverage = vocabulary.measure_coverage(vocab, {"abb": 2, "a": 5, "c": 3})
  counts = coverage.num_words, coverage.num_unknown, coverage.num_pieces
  assert counts == (10, 3, 2 * 3 + 5 + 3)
  fractions = 7 / 14, 4 / 14, 3 / 14  # Of "a", "##b" and "[UNK]".
  expected = -sum(part * math.log(part) for part in fractions)
  assert coverage.entropy == pytest.approx(expected)
  assert coverage.unknown_fraction == 0.3
  assert coverage.pieces_per_word == 1.4
  assert vocabulary.measure_coverage(vocab, {}).pieces_per_word == 0


def test_an_impossible_size_is_refused_with_the_limit(word_counts):
  with pytest.raises(ValueError, match="empty"):
    vocabulary.learn_tokens({}, 500)
  with pytest.raises(ValueError, match="104 reserved tokens") as error:
    vocabulary.learn_tokens(word_counts, 110)
  smallest = int(re.search(r"need (\d+)", str(error.value)).group(1))
  assert len(vocabulary.learn_tokens(word_counts, smallest)) == smallest
  with pytest.raises(ValueError, match=f"{smallest - 1} is too small"):
    vocabulary.learn_tokens(word_counts, smallest - 1)
  with pytest.raises(ValueError, match="1000000 is too large") as error:
    vocabulary.learn_tokens(word_counts, 10**6)
  largest = int(re.search(r"(\d+) entries", str(error.value)).group(1))
  assert len(vocabulary.learn_tokens(word_counts, largest)) == largest


def test_build_vocab_writes_the_same_file_twice_and_reports(
  tmp_path, run_script, monkeypatch
):
  rng = random.Random(1)
  stems = ["".join(rng.choices("abcdefg", k=4)) for _ in range(300)]
  lines = [
    " ".join(rng.choice(stems) + rng.choice(["", "s", "ed"]) for _ in range(9))
    for _ in range(2000)
  ]
  (tmp_path / "text.txt").write_text(".\n".join(lines) + "\n")
  flags = "--input_file=text.txt --output_file=vocab.txt --vocab_size=600"
  contents = []
  for seed in ("1", "2"):
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    result = run_script("build-vocab", *flags.split(), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    contents.append((tmp_path / "vocab.txt").read_bytes())
  assert contents[0] == contents[1]
  tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
  assert len(tokenizer.vocab) == 600 and tokenizer.vocab["[MASK]"] == 103

  # The report, from the vocabulary file and the fiftieth lines.
  text = ". ".join(lines[49::50])
  words = tokenizer.basic_tokenizer.tokenize(text)
  held_out = result.stdout.splitlines()[-1]
  rate = f"{len(tokenizer.tokenize(text)) / len(words):.3f}"
  assert held_out.split() == ["held", "out", str(len(words)), "0.0000%", rate]
  assert sorted(os.listdir(tmp_path)) == ["text.txt", "vocab.txt"]
