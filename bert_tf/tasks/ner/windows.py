"""Windows of sentences. Each word is labelled in one of them."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bert_tf import tokenization
from bert_tf.tasks.ner.examples import Sentence


class Window(NamedTuple):
  """One input of the model."""

  # [CLS], word pieces, [SEP]; at most max_seq_length ids.
  input_ids: Sequence[int]
  # Positions of the first word pieces of the words that are labelled in this
  # window. These words are consecutive and in the same sentence.
  first_pieces: Sequence[int]
  tags: Sequence[str] | None  # Tags of these words; None if not known.
  part: int = 0  # Index among the windows of the sentence.


class SentenceWindower:
  """Makes windows of sentences.

  A sentence that fits is labelled in one window. A longer sentence has several
  windows. Each labels words that fill up to half of the window, so that these
  words have context. Both sides of the labelled words are filled up to
  max_seq_length, [CLS] and [SEP] included, with the rest of the sentence or,
  with document_context, of the document.
  """

  def __init__(
    self,
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    document_context: bool,
  ) -> None:
    self._tokenize = tokenizer.tokenize_to_ids
    self._room = max_seq_length - 2
    self._document_context = document_context
    self._cls, self._sep, self._unknown = tokenizer.convert_tokens_to_ids(
      ["[CLS]", "[SEP]", "[UNK]"]
    )

  def windows(self, sentences: Sequence[Sentence]) -> list[Window]:
    """Returns windows that label all words in order."""
    windows: list[Window] = []
    key = (lambda s: s.document) if self._document_context else None
    for _, group in itertools.groupby(sentences, key):
      windows += self._text_windows(list(group))
    return windows

  def _text_windows(self, sentences: Sequence[Sentence]) -> Iterator[Window]:
    # The windows of sentences that may be each other's context. A word has at
    # least one piece, [UNK] if necessary, and at most a window.
    pieces = [
      self._tokenize(word)[: self._room] or [self._unknown]
      for sentence in sentences
      for word in sentence.words
    ]
    ids = list(itertools.chain.from_iterable(pieces))
    starts = list(itertools.accumulate(map(len, pieces), initial=0))
    sentence_start = 0
    for sentence in sentences:
      sentence_end = sentence_start + len(sentence.words)
      spans = self._spans(starts, sentence_start, sentence_end)
      for part, (first, end) in enumerate(spans):
        tags = sentence.tags
        if tags is not None:
          tags = tags[first - sentence_start : end - sentence_start]
        spare = self._room - (starts[end] - starts[first])
        before, after = starts[first], len(ids) - starts[end]
        # Split evenly; space that one side does not need goes to the other.
        left = min(before, max(spare // 2, spare - after))
        right = min(after, spare - left)
        shown_from = starts[first] - left
        shown = ids[shown_from : starts[end] + right]
        positions = [start - shown_from + 1 for start in starts[first:end]]
        yield Window([self._cls, *shown, self._sep], positions, tags, part)
      sentence_start = sentence_end

  def _spans(
    self, starts: Sequence[int], first: int, end: int
  ) -> Iterator[tuple[int, int]]:
    # The first word and the end of the words that each window labels.
    if starts[end] - starts[first] <= self._room:
      yield first, end
      return
    for last in range(first + 1, end):
      if starts[last + 1] - starts[first] > self._room // 2:
        yield first, last
        first = last
    yield first, end
