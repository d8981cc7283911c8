"""Windows of sentences. Each word is labelled in one of them."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bert_tf import tokenization
from bert_tf.tasks import prediction
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

  @property
  def model_input(self) -> prediction.ModelInput:
    """The window as the model's input; all of it is in segment 0."""
    return prediction.model_input(self.input_ids, len(self.input_ids))


def make_windows(
  sentences: Iterable[Sentence],
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  document_context: bool = False,
) -> list[Window]:
  """Returns windows that label all words in order.

  A sentence that fits is labelled in one window. A longer sentence has several
  windows. Each labels words that fill up to half of the window, so that these
  words have context. Both sides of the labelled words are filled up to
  max_seq_length, [CLS] and [SEP] included, with the rest of the sentence or,
  with document_context, of the document.
  """
  room = max_seq_length - 2
  cls_id, sep_id, unknown_id = tokenizer.convert_tokens_to_ids(
    ["[CLS]", "[SEP]", "[UNK]"]
  )
  texts = ([sentence] for sentence in sentences)
  if document_context:
    documents = itertools.groupby(sentences, lambda s: s.document)
    texts = (list(document) for _, document in documents)
  windows = []
  for text in texts:
    # A word has at least one piece, [UNK] if necessary, and at most a window.
    pieces = [
      tokenizer.tokenize_to_ids(word)[:room] or [unknown_id]
      for sentence in text
      for word in sentence.words
    ]
    ids = list(itertools.chain.from_iterable(pieces))
    starts = list(itertools.accumulate(map(len, pieces), initial=0))
    sentence_start = 0
    for sentence in text:
      sentence_end = sentence_start + len(sentence.words)
      spans = _spans(starts, sentence_start, sentence_end, room)
      for part, (first, end) in enumerate(spans):
        labelled = slice(first - sentence_start, end - sentence_start)
        tags = sentence.tags and sentence.tags[labelled]
        spare = room - (starts[end] - starts[first])
        before, after = starts[first], len(ids) - starts[end]
        # Split evenly; space that one side does not need goes to the other.
        left = min(before, max(spare // 2, spare - after))
        right = min(after, spare - left)
        shown_from = starts[first] - left
        shown = ids[shown_from : starts[end] + right]
        positions = [start - shown_from + 1 for start in starts[first:end]]
        window = Window([cls_id, *shown, sep_id], positions, tags, part)
        windows.append(window)
      sentence_start = sentence_end
  return windows


def _spans(
  starts: Sequence[int], first: int, end: int, room: int
) -> Iterator[tuple[int, int]]:
  # The first word and the end of the words that each window labels.
  if starts[end] - starts[first] <= room:
    yield first, end
    return
  for last in range(first + 1, end):
    if starts[last + 1] - starts[first] > room // 2:
      yield first, last
      first = last
  yield first, end
