"""Windows of sentences. Each word is labelled in one of them."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from bert_tf import tokenization
from bert_tf.tasks import base
from bert_tf.tasks.rows import Row


def make_windows(
  sentences: Iterable[Row],
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  document_context: bool = False,
) -> Iterator[base.Inputs]:
  """Yields the windows of each sentence, which label its words in order.

  A sentence that fits is labelled in one window. A longer sentence has several
  windows. Each labels words that fill up to half of the window, so that these
  words have context. Both sides of the labelled words are filled up to
  max_seq_length, [CLS] and [SEP] included, with the rest of the sentence or,
  with document_context, of the document.

  The `state` is (sentence, positions): for each window a list of the positions
  of the first word pieces of the words that are labelled in it.
  """
  room = max_seq_length - 2
  cls_id, sep_id, unknown_id = tokenizer.convert_tokens_to_ids(
    ["[CLS]", "[SEP]", "[UNK]"]
  )
  texts = ([sentence] for sentence in sentences)
  if document_context:
    documents = itertools.groupby(sentences, lambda row: row.get("document"))
    texts = (list(document) for _, document in documents)
  for text in texts:
    # A word has at least one piece, [UNK] if necessary, and at most a window.
    pieces = [
      tokenizer.tokenize_to_ids(word)[:room] or [unknown_id]
      for sentence in text
      for word in sentence["words"]
    ]
    ids = list(itertools.chain.from_iterable(pieces))
    starts = list(itertools.accumulate(map(len, pieces), initial=0))
    sentence_end = 0
    for sentence in text:
      sentence_start = sentence_end
      sentence_end += len(sentence["words"])
      inputs, positions = [], []
      for first, end in _spans(starts, sentence_start, sentence_end, room):
        spare = room - (starts[end] - starts[first])
        before, after = starts[first], len(ids) - starts[end]
        # Split evenly; space that one side does not need goes to the other.
        left = min(before, max(spare // 2, spare - after))
        right = min(after, spare - left)
        shown_from = starts[first] - left
        shown = [cls_id, *ids[shown_from : starts[end] + right], sep_id]
        inputs.append(base.model_input(shown, len(shown)))
        positions.append([i - shown_from + 1 for i in starts[first:end]])
      yield base.Inputs(inputs, (sentence, positions), is_cut=len(inputs) > 1)


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
