"""Finds a vocabulary that does not fit the texts, by the number of [UNK]."""

import collections
import unicodedata
from collections.abc import Iterable

from absl import logging

from bert_tf import tokenization
from bert_tf.model_folder import letter_case

# Released vocabularies leave at most 0.6% of the pieces of a text unknown (XNLI
# and Wikipedia in their languages), and 7 to 81% if they lack its letters. The
# number lets a few rare words of a short text pass.
_MAX_FRACTION, _MAX_NUMBER = 0.05, 5

# The form of a vocabulary, if 1% of its tokens have one of these marks.
_FORMS = {"▁": "SentencePiece", "Ġ": "BPE", "</w>": "BPE", "##": "WordPiece"}


class PieceCounts:
  """Counts the word pieces of texts; warns once if too many are [UNK]."""

  def __init__(
    self, tokenizer: tokenization.FullTokenizer, source: str
  ) -> None:
    self._tokenizer = tokenizer
    self._source = source  # Names the texts in the warning.
    self._unknown = tokenizer.vocab[tokenization.UNK]
    special = map(tokenizer.vocab.get, tokenization.SPECIAL_TOKENS)
    self._not_pieces = {*special} - {self._unknown}
    self._is_warned = False
    self.num_pieces = self.num_unknown = 0

  def add_ids(self, ids: Iterable[int]) -> None:
    """Counts ids, except [CLS], [SEP], [MASK] and [PAD]."""
    pieces = [index for index in ids if index not in self._not_pieces]
    self.add(len(pieces), pieces.count(self._unknown))

  def add(self, num_pieces: int, num_unknown: int) -> None:
    """Adds the counts of texts."""
    self.num_pieces += num_pieces
    self.num_unknown += num_unknown
    limit = _MAX_NUMBER + _MAX_FRACTION * self.num_pieces
    if self.num_unknown > limit and not self._is_warned:
      self._is_warned = True
      is_lower = self._tokenizer.basic_tokenizer.do_lower_case
      logging.warning(
        f"{self._source}: {self.unknown_fraction:.1%} of {self.num_pieces:,} "
        "word pieces are [UNK]. Use a WordPiece vocabulary for these texts: "
        f"this one seems to be {describe(self._tokenizer.vocab)}, and "
        f"do_lower_case={is_lower}."
      )

  @property
  def unknown_fraction(self) -> float:
    """The fraction of pieces that are [UNK]."""
    return self.num_unknown / max(self.num_pieces, 1)


def describe(vocab: Iterable[str]) -> str:
  """Describes a vocabulary, as "cased WordPiece in LATIN letters"."""
  tokens = list(vocab)
  text = "".join(token for token in tokens if not token.startswith("["))
  forms = [f for m, f in _FORMS.items() if text.count(m) * 100 >= len(tokens)]
  case = {True: "lower-cased ", False: "cased ", None: ""}
  # The name of a letter begins with its script: LATIN SMALL LETTER A.
  names = (unicodedata.name(char, "?") for char in text if char.isalpha())
  scripts = collections.Counter(name.split()[0] for name in names)
  script = max(scripts, key=scripts.__getitem__, default="no")
  form = (*forms, "whole words")[0]
  return f"{case[letter_case.guess(tokens)]}{form} in {script} letters"
