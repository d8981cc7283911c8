"""Windows of sentences, and their records. Each word has one label."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import tensorflow as tf
from absl import logging

from bert_tf import tokenization
from bert_tf.data import input_pipeline, packing, records
from bert_tf.tasks.ner.examples import Sentence

# Number of windows of each file to log as the model sees them.
_NUM_LOGGED = 3

# Features of each position in addition to the model's inputs.
LABEL_FEATURES = ("label_ids", "label_mask")


@dataclasses.dataclass(frozen=True)
class Window:
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
    self._tokenizer = tokenizer
    self._room = max_seq_length - 2
    self._document_context = document_context
    self._cls, self._sep, self._unknown = tokenizer.convert_tokens_to_ids(
      ["[CLS]", "[SEP]", "[UNK]"]
    )

  def windows(self, path: str, sentences: Sequence[Sentence]) -> list[Window]:
    """Returns windows that label all words of a file in order."""
    if self._document_context and not sentences[-1].document:
      logging.warning(
        "%s has no -DOCSTART- lines, so the whole file counts as one document: "
        "windows are filled with all neighbouring sentences.",
        path,
      )
    empty = [
      (sentence.line + i, word)
      for sentence in sentences
      for i, word in enumerate(sentence.words)
      if not self._tokenizer.tokenize_to_ids(word)
    ]
    if empty:
      line, word = empty[0]
      logging.warning(
        "%s: %d words have no word pieces and become [UNK]. The first is %r in "
        "line %d.",
        path,
        len(empty),
        word,
        line,
      )
    windows = self.label_windows(sentences)
    for window in windows[:_NUM_LOGGED]:
      tokens = self._tokenizer.convert_ids_to_tokens(window.input_ids)
      for position, tag in zip(window.first_pieces, window.tags or ()):
        tokens[position] += f"/{tag}"
      logging.info("%s", " ".join(tokens))
    return windows

  def label_windows(self, sentences: Sequence[Sentence]) -> list[Window]:
    """Returns windows that label all words in order."""
    windows: list[Window] = []
    key = (lambda s: s.document) if self._document_context else None
    for _, group in itertools.groupby(sentences, key):
      windows += self._text_windows(list(group))
    return windows

  def _text_windows(self, sentences: Sequence[Sentence]) -> Iterator[Window]:
    """Yields the windows of sentences that may be each other's context."""
    # A word has at least one piece, [UNK] if necessary, and at most a window.
    tokenize, unknown = self._tokenizer.tokenize_to_ids, [self._unknown]
    pieces = [
      tokenize(word)[: self._room] or unknown
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
    """Yields (first word, end) of the words that each window labels."""
    if starts[end] - starts[first] <= self._room:
      yield first, end
      return
    for last in range(first + 1, end):
      if starts[last + 1] - starts[first] > self._room // 2:
        yield first, last
        first = last
    yield first, end


def encode(window: Window, labels: Sequence[str], max_seq_length: int) -> bytes:
  """Returns the record of a window, with the features of `spec`."""
  label_ids, label_mask = ([0] * max_seq_length for _ in range(2))
  for i, position in enumerate(window.first_pieces):
    label_mask[position] = 1
    if window.tags is not None:
      label_ids[position] = labels.index(window.tags[i])
  ints = {
    **packing.pad(window.input_ids, len(window.input_ids), max_seq_length),
    "label_ids": label_ids,
    "label_mask": label_mask,
  }
  return records.encode_example(records.encode_features(ints, {}))


def spec(max_seq_length: int) -> dict[str, tf.io.FixedLenFeature]:
  """Returns the features of a record: names, shapes, dtypes."""
  ids = input_pipeline.int_feature(max_seq_length)
  inputs = input_pipeline.inputs_spec(max_seq_length)
  return inputs | dict.fromkeys(LABEL_FEATURES, ids)
