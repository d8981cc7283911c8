"""Cuts SQuAD's contexts into windows that fit the model with the question.

A long context has several windows, which start doc_stride pieces apart.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert_tf import tokenization
from bert_tf.tasks import base
from bert_tf.tasks.rows import Row
from bert_tf.tasks.squad.config import SquadSettings
from bert_tf.tasks.squad.examples import Context

_FIRST_UNIQUE_ID = 1000000000


@dataclasses.dataclass(frozen=True)
class InputFeatures:
  """One window, which is one record."""

  unique_id: int  # Counted from 1000000000 over all windows.
  # Without padding: [CLS] question [SEP] context [SEP].
  input_ids: Sequence[int]
  doc_offset: int  # The position of the first piece of the context.
  words: np.ndarray  # int32 [pieces]. The word of each piece of the context.
  # bool [pieces]. Whether the piece has the most context in this window.
  is_max_context: np.ndarray
  # First and last position of the answer; 0 if it is not in the window.
  start_position: int
  end_position: int


def make_windows(
  rows: Iterable[Row],
  tokenizer: tokenization.FullTokenizer,
  settings: SquadSettings,
) -> Iterator[base.Inputs]:
  """Yields the windows of each row; none if the context has no pieces.

  The `state` is (Context, list of InputFeatures).
  """
  max_seq_length, doc_stride = settings.max_seq_length, settings.doc_stride
  assert max_seq_length and doc_stride
  cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  # Questions share a context; its pieces take 8 bytes each.
  contexts = functools.cache(Context)
  read_pieces = functools.cache(functools.partial(_read_pieces, tokenizer))
  unique_id = _FIRST_UNIQUE_ID
  for row in rows:
    context = contexts(row["context"])
    question = tokenizer.tokenize_to_ids(row["question"])
    query = question[: settings.max_query_length]
    prefix = [cls_id, *query, sep_id]
    ids, words = read_pieces(context)
    answer = _answer_pieces(tokenizer, row, ids, words)
    num_pieces = len(ids)
    length = max_seq_length - len(query) - 3
    spans: list[tuple[int, int]] = []  # First piece and end of each window.
    for first in range(0, num_pieces, doc_stride):
      spans.append((first, min(first + length, num_pieces)))
      if spans[-1][1] == num_pieces:
        break
    best_windows = _max_context_windows(spans, num_pieces)
    windows = []
    for i, (first, end) in enumerate(spans):
      start_position = end_position = 0
      if answer and first <= answer[0] and answer[1] < end:
        start_position = answer[0] - first + len(prefix)
        end_position = answer[1] - first + len(prefix)
      windows.append(
        InputFeatures(
          unique_id=unique_id,
          input_ids=[*prefix, *ids[first:end].tolist(), sep_id],
          doc_offset=len(prefix),
          words=words[first:end],
          is_max_context=best_windows[first:end] == i,
          start_position=start_position,
          end_position=end_position,
        )
      )
      unique_id += 1
    yield base.Inputs(
      [base.model_input(x.input_ids, x.doc_offset) for x in windows],
      (context, windows),
      is_cut=bool(windows) and len(question) > len(query),
    )


def _read_pieces(
  tokenizer: tokenization.FullTokenizer, context: Context
) -> tuple[np.ndarray, np.ndarray]:
  """Returns a context's word pieces and the word of each, int32 [pieces]."""
  pieces = [tokenizer.tokenize_to_ids(word) for word in context.doc_tokens]
  counts = np.array([*map(len, pieces)], np.int32)
  words = np.repeat(np.arange(len(pieces), dtype=np.int32), counts)
  return np.array([*itertools.chain.from_iterable(pieces)], np.int32), words


def _answer_pieces(
  tokenizer: tokenization.FullTokenizer,
  row: Row,
  ids: np.ndarray,
  words: np.ndarray,
) -> tuple[int, int] | None:
  """Returns the first and the last piece of the answer; None without one.

  The answer's words may contain more than the answer, such as "(1895-1943)."
  for 1895. If the answer's pieces occur in them, only these are returned.
  """
  if row.get("start_position", -1) < 0:
    return None
  first = int(np.searchsorted(words, row["start_position"]))
  end = int(np.searchsorted(words, row["end_position"], side="right"))
  answer = tokenizer.tokenize_to_ids(row["label"] or "")
  word_pieces = ids[first:end].tolist()
  for start in range(len(word_pieces) - len(answer) + 1 if answer else 0):
    if word_pieces[start : start + len(answer)] == answer:
      return first + start, first + start + len(answer) - 1
  return first, end - 1


def _max_context_windows(
  spans: Sequence[tuple[int, int]], num_pieces: int
) -> np.ndarray:
  """Returns the window in which each piece has the most context, int [pieces].

  The score of a window is the number of pieces on the shorter side, plus 0.01
  times the length of the window. The first window wins ties.
  """
  best_windows = np.zeros(num_pieces, np.int32)
  if len(spans) == 1:
    return best_windows
  best = np.full(num_pieces, -1.0)
  for i, (first, end) in enumerate(spans):
    left = np.arange(end - first)
    # In float64 as in the original, since the sums decide between windows.
    scores = np.minimum(left, left[::-1]) + 0.01 * (end - first)
    is_better = scores > best[first:end]
    best[first:end][is_better] = scores[is_better]
    best_windows[first:end][is_better] = i
  return best_windows
