"""Warns of a vocabulary that does not fit the texts, by the number of [UNK]."""

from collections.abc import Iterable

from absl import logging

from bert_tf import tokenization


class PieceCounts:
  """Counts the word pieces of texts; warns once if too many are [UNK].

  `source` names the texts in the warning.
  """

  def __init__(
    self, tokenizer: tokenization.FullTokenizer, source: str
  ) -> None:
    self._tokenizer = tokenizer
    self._source = source
    self._is_warned = False
    self.num_pieces = self.num_unknown = 0

  def add_ids(self, ids: Iterable[int]) -> None:
    """Counts ids, except [CLS], [SEP], [MASK] and [PAD]."""
    vocab = self._tokenizer.vocab
    unknown = vocab[tokenization.UNK]
    special = {*map(vocab.get, tokenization.SPECIAL_TOKENS)} - {unknown}
    pieces = [index for index in ids if index not in special]
    self.num_pieces += len(pieces)
    self.num_unknown += pieces.count(unknown)
    # Released vocabularies leave at most 0.6% of a text's pieces unknown (XNLI
    # and Wikipedia in their languages), and 7 to 81% if they lack its letters.
    # A few rare words of a short text pass.
    limit = 5 + 0.05 * self.num_pieces
    if self.num_unknown > limit and not self._is_warned:
      self._is_warned = True
      # Five tokens from the second half show letters, case and form.
      tokens = [*self._tokenizer.vocab]
      examples = tokens[len(tokens) // 2 :: len(tokens) // 10 + 1]
      is_lower = self._tokenizer.basic_tokenizer.do_lower_case
      logging.warning(
        f"{self._source}: {self.unknown_fraction:.1%} of {self.num_pieces:,} "
        "word pieces are [UNK]. Use a WordPiece vocabulary for these texts; "
        f"this one has tokens such as {' '.join(examples)}, and do_lower_case="
        f"{is_lower}."
      )

  @property
  def unknown_fraction(self) -> float:
    """The fraction of pieces that are [UNK]."""
    return self.num_unknown / max(self.num_pieces, 1)
