"""Learns a WordPiece vocabulary from text, in the layout of the released ones.

tensorflow-text's learner chooses the pieces from the top down (Schuster and
Nakajima 2012).
"""

import collections
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from bert_tf import tokenization
from bert_tf.files import packages

# So [UNK] [CLS] [SEP] [MASK] are 100 to 103, as in released vocabularies.
NUM_UNUSED_BEFORE_SPECIALS = 99

_MAX_CACHED_WORDS = 1 << 20

_MAX_PIECE_CHARS = 50  # The learner ignores longer words.
# Excess over the requested size, as a fraction, that is cut.
_MAX_EXCESS = 0.02


@dataclasses.dataclass(frozen=True)
class Coverage:
  """Counts that tell how well a vocabulary covers a text."""

  num_words: int  # Tokens of `BasicTokenizer`, repeated ones included.
  num_unknown: int  # Words that become [UNK].
  num_pieces: int
  # The loss, in nats, of a guess by the frequencies of the pieces alone.
  entropy: float

  @property
  def unknown_fraction(self) -> float:
    """The fraction of words that become [UNK]."""
    return self.num_unknown / max(self.num_words, 1)

  @property
  def pieces_per_word(self) -> float:
    """The word pieces per word; 0 for no words."""
    return self.num_pieces / max(self.num_words, 1)


def count_words(
  lines: Iterable[str],
  tokenizer: tokenization.BasicTokenizer,
  holdout_every: int = 0,
) -> tuple[collections.Counter[str], collections.Counter[str]]:
  """Counts the tokens of a text, apart from those of the held-out lines.

  Every `holdout_every`-th line is held out; 0 holds out none.
  """
  split = functools.lru_cache(_MAX_CACHED_WORDS)(tokenizer.split_word)
  counts = collections.Counter[str](), collections.Counter[str]()
  for number, line in enumerate(lines, 1):
    is_held_out = bool(holdout_every) and number % holdout_every == 0
    words = tokenization.clean_and_split(line)
    counts[is_held_out].update(itertools.chain.from_iterable(map(split, words)))
  return counts


def reserved_tokens(num_unused: int = NUM_UNUSED_BEFORE_SPECIALS) -> list[str]:
  """Returns the special tokens and [unusedN] in the released order."""
  unused = [f"[unused{index}]" for index in range(num_unused)]
  pad, *others = tokenization.SPECIAL_TOKENS
  num_before = NUM_UNUSED_BEFORE_SPECIALS
  return [pad, *unused[:num_before], *others, *unused[num_before:]]


def learn_tokens(
  word_counts: Mapping[str, int],
  vocab_size: int,
  num_unused: int = NUM_UNUSED_BEFORE_SPECIALS,
  alphabet_size: int = 1000,
  may_be_smaller: bool = False,
) -> list[str]:
  """Learns a vocabulary of `vocab_size` entries.

  The entries are the reserved tokens, the `alphabet_size` most frequent
  characters, and longer pieces from the most frequent on. A character is also a
  "##" piece unless it is always a word, as punctuation and ideographs are. With
  `may_be_smaller`, a text with too few entries gives fewer, and only the
  characters that fit are kept.

  Raises:
    ValueError: if vocab_size is too small or too large for the text.
    ImportError: if tensorflow-text is missing.
  """
  if not word_counts:
    raise ValueError("the text is empty, so there are no words to learn.")
  reserved = reserved_tokens(num_unused)
  counts = collections.Counter[str]()
  for word, count in word_counts.items():
    if len(word) <= _MAX_PIECE_CHARS:
      for char in word:
        counts[char] += count
  by_count = sorted(counts, key=lambda char: (-counts[char], char))
  chosen = by_count[:alphabet_size]  # As the learner would choose them.
  # Punctuation and ideographs are whole words, so "##" never precedes them.
  inner = {char for char in chosen if not tokenization.is_separate_token(char)}
  if may_be_smaller:
    room = vocab_size - len(reserved)
    ends = itertools.accumulate(1 + (char in inner) for char in chosen)
    chosen = [char for char, end in zip(chosen, ends) if end <= room]
  alphabet = sorted(chosen)
  characters = alphabet + ["##" + char for char in alphabet if char in inner]
  num_pieces = vocab_size - len(reserved) - len(characters)
  if num_pieces < 0:
    raise ValueError(
      f"vocab_size {vocab_size} is too small: {len(reserved)} reserved tokens "
      f"and {len(characters)} single characters need {vocab_size - num_pieces}."
    )
  pieces = _learn_pieces(word_counts, characters, alphabet_size, num_pieces)
  if len(pieces) < num_pieces and not may_be_smaller:
    num_entries = vocab_size - num_pieces + len(pieces)
    raise ValueError(
      f"vocab_size {vocab_size} is too large: this text has only enough words "
      f"for {num_entries} entries."
    )
  return [*reserved, *characters, *pieces[:num_pieces]]


def _learn_pieces(
  word_counts: Mapping[str, int],
  characters: Sequence[str],
  alphabet_size: int,
  num_wanted: int,
) -> list[str]:
  """Searches for a frequency threshold that gives `num_wanted` pieces.

  The number of pieces falls roughly as a power of the threshold, so each trial
  extrapolates on a log-log line. Where neighbouring thresholds give very
  different numbers, the smaller vocabulary is filled up from the larger one.
  """
  packages.import_tensorflow_text("learning a vocabulary")
  from tensorflow_text.tools.wordpiece_vocab import (
    wordpiece_tokenizer_learner_lib as learner,
  )

  by_count = sorted(word_counts.items(), key=lambda item: (-item[1], item[0]))
  single = set(characters)

  def learn_with(threshold: int) -> list[str]:
    # With equal bounds the learner tries only this threshold.
    entries = learner.learn(
      by_count,
      vocab_size=num_wanted,
      reserved_tokens=[],
      upper_thresh=threshold,
      lower_thresh=threshold,
      max_token_length=_MAX_PIECE_CHARS,
      max_unique_chars=alphabet_size,
    )
    return [
      entry
      for entry in entries
      if entry not in single and len(entry.removeprefix("##")) > 1
    ]

  enough, too_few = list[str](), list[str]()
  low, high = 1, None  # Range of thresholds to try, `high` exclusive.
  threshold = by_count[min(len(by_count), num_wanted + 1) - 1][1]
  for _ in range(12):
    pieces = learn_with(threshold)
    if len(pieces) < num_wanted:
      too_few, high = pieces, threshold
    else:
      enough, low = pieces, threshold + 1
      # At threshold 1 nearly all pieces are whole words, so search on.
      if len(pieces) <= num_wanted * (1 + _MAX_EXCESS) and threshold > 1:
        return pieces
    if high is not None and low >= high:
      break
    ratio = len(pieces) / max(num_wanted * (1 + _MAX_EXCESS / 2), 1)
    threshold = max(round(threshold * math.pow(ratio, 1.2)), low)
    threshold = threshold if high is None else min(threshold, high - 1)
  return [*dict.fromkeys([*too_few, *enough])]


def measure_coverage(
  vocab: Mapping[str, int], word_counts: Mapping[str, int]
) -> Coverage:
  """Counts how well a vocabulary covers the words of `word_counts`."""
  tokenizer = tokenization.WordpieceTokenizer(vocab)
  counts: collections.Counter[str] = collections.Counter()
  num_unknown = 0
  for word, count in word_counts.items():
    pieces = tokenizer.split_word(word)
    for piece in pieces:
      counts[piece] += count
    num_unknown += count * (pieces == [tokenizer.unk_token])
  num_pieces = counts.total()
  entropy = -sum(
    n / num_pieces * math.log(n / num_pieces) for n in counts.values()
  )
  num_words = sum(word_counts.values())
  return Coverage(num_words, num_unknown, num_pieces, entropy)
