"""Decodes logits into answers and writes the result files."""

import functools
import itertools
import json
import math
import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf import tokenization
from bert_tf.files import atomic
from bert_tf.tasks.rows import Answer
from bert_tf.tasks.squad.config import SquadSettings
from bert_tf.tasks.squad.examples import Context, InputFeatures

# The null odds if "" is the only possible answer. They exceed any threshold.
NO_SPAN_ODDS = 1000000.0


class AnswerDecoder:
  """Finds answers in windows that were made with the same tokenizer."""

  def __init__(
    self, tokenizer: tokenization.FullTokenizer, settings: SquadSettings
  ) -> None:
    self._tokenizer = tokenizer
    self._settings = settings
    # Contexts repeat their words.
    cache = functools.lru_cache(maxsize=1 << 16)
    self._basic_tokens = cache(tokenizer.basic_tokenizer.tokenize)

  def predict(
    self,
    context: Context,
    windows: Sequence[InputFeatures],
    start_logits: np.ndarray,
    end_logits: np.ndarray,
  ) -> Answer:
    """Returns the answer from a context, by the logits of its windows.

    The logits are float32 [windows, F]. An answer has the `answer`, None if
    there is none, with single spaces between words; its `start` and `end` in
    characters of the context, 0 without one; its `probability`; for SQuAD 2.0
    `null_odds`, the score of no answer minus that of the best text; and
    `nbest`, the best answers, each with `text`, `start`, `end`, `probability`,
    `start_logit` and `end_logit`.
    """
    # The original adds Python floats, which have 64 bits.
    starts = start_logits.astype(np.float64)
    ends = end_logits.astype(np.float64)
    null = _candidate(None)
    null_score = NO_SPAN_ODDS
    if len(windows):
      row = int(np.argmin(starts[:, 0] + ends[:, 0]))
      null = _candidate(None, starts[row, 0], ends[row, 0])
      null_score = null["start_logit"] + null["end_logit"]
    is_v2 = self._settings.version_2_with_negative
    nbest: dict[str | None, Answer] = {}  # By text.
    for row, start, end in self._ranked_spans(windows, starts, ends).tolist():
      if len(nbest) >= self._settings.n_best_size:
        break
      if start == 0:
        nbest[None] = null
        continue
      text, *chars = self._find_text(context, windows[row], start, end)
      if text not in nbest:
        nbest[text] = _candidate(
          text, starts[row, start], ends[row, end], *chars
        )
    if is_v2:
      nbest.setdefault(None, null)
    elif not nbest:
      nbest[None] = _candidate(None)
    candidates = [*nbest.values()]
    scores = [c["start_logit"] + c["end_logit"] for c in candidates]
    highest = max(scores)
    exponentials = [math.exp(score - highest) for score in scores]
    # The files contain all digits. NumPy and Python 3.12's `sum` round
    # differently from the original.
    total = functools.reduce(operator.add, exponentials)
    for candidate, exponential in zip(candidates, exponentials):
      candidate["probability"] = exponential / total
    chosen, null_odds = candidates[0], {}
    if is_v2:
      odds, chosen = NO_SPAN_ODDS, null
      if best := next((c for c in candidates if c["text"]), None):
        odds = null_score - best["start_logit"] - best["end_logit"]
        if odds <= self._settings.null_score_diff_threshold:
          chosen = best
      null_odds["null_odds"] = odds
    return {
      "answer": chosen["text"],
      "start": chosen["start"],
      "end": chosen["end"],
      "probability": chosen["probability"],
      **null_odds,
      "nbest": candidates,
    }

  def _ranked_spans(
    self, windows: Sequence[InputFeatures], starts: np.ndarray, ends: np.ndarray
  ) -> np.ndarray:
    """Returns int [spans, 3]: window, start, end; the best first.

    Equal scores stay in the order of window, rank of start, rank of end. With
    2.0, the row 0, 0, 0 is the null answer, after spans of equal score.
    """
    n_best_size = self._settings.n_best_size
    rows = [np.zeros((0, 3), np.int64)]
    for index, window in enumerate(windows):
      first, num_pieces = window.doc_offset, len(window.words)
      is_end = np.zeros(ends.shape[1], bool)
      is_end[first : first + num_pieces] = True
      is_start = is_end.copy()
      is_start[first : first + num_pieces] = window.is_max_context
      # As in the original, positions outside the context count for the ranks.
      best_starts = np.argsort(-starts[index], kind="stable")[:n_best_size]
      best_starts = best_starts[is_start[best_starts]]
      best_ends = np.argsort(-ends[index], kind="stable")[:n_best_size]
      best_ends = best_ends[is_end[best_ends]]
      lengths = best_ends - best_starts[:, None] + 1
      start_ranks, end_ranks = np.nonzero(
        (lengths > 0) & (lengths <= self._settings.max_answer_length)
      )
      columns = (
        np.full_like(start_ranks, index),
        best_starts[start_ranks],
        best_ends[end_ranks],
      )
      rows.append(np.stack(columns, axis=1))
    spans = np.concatenate(rows)
    scores = starts[spans[:, 0], spans[:, 1]] + ends[spans[:, 0], spans[:, 2]]
    if self._settings.version_2_with_negative and len(windows):
      spans = np.append(spans, [[0, 0, 0]], axis=0)
      scores = np.append(scores, np.min(starts[:, 0] + ends[:, 0]))
    return spans[np.argsort(-scores, kind="stable")]

  def _find_text(
    self, context: Context, window: InputFeatures, start: int, end: int
  ) -> tuple[str, int, int]:
    """Returns the text of a span, with its start and end in the context."""
    offset = window.doc_offset
    first_word = int(window.words[start - offset])
    last_word = int(window.words[end - offset])
    pieces = map(
      self._tokenizer.inv_vocab.__getitem__, window.input_ids[start : end + 1]
    )
    joined = " ".join(pieces).replace(" ##", "").replace("##", "")
    words = context.doc_tokens[first_word : last_word + 1]
    tokens = itertools.chain.from_iterable(map(self._basic_tokens, words))
    text, skipped = original_text(
      " ".join(joined.split()), words, " ".join(tokens)
    )

    def to_context(char: int) -> int:  # From an index in " ".join(words).
      word = " ".join(words)[:char].count(" ")
      char -= len(" ".join([*words[:word], ""]))
      return context.char_starts[first_word + word] + char

    return text, to_context(skipped), to_context(skipped + len(text) - 1) + 1


def original_text(
  predicted: str, words: Sequence[str], normalized: str
) -> tuple[str, int]:
  """Returns the part of the words whose normalized text is the prediction.

  Also returns the number of characters before it. `normalized` has all tokens
  of the words with spaces between them. Assumes that the original and the
  normalized text match character by character, except for spaces. If they do
  not, returns all words.
  """
  text = " ".join(words)
  start = normalized.find(predicted)
  positions = [i for i, char in enumerate(text) if char != " "]
  num_chars = len(normalized) - normalized.count(" ")
  if start < 0 or not predicted or len(positions) != num_chars:
    return text, 0
  first = start - normalized.count(" ", 0, start)
  last = first + len(predicted) - predicted.count(" ") - 1
  return text[positions[first] : positions[last] + 1], positions[first]


def _candidate(
  text: str | None,
  start_logit: float = 0.0,
  end_logit: float = 0.0,
  start: int = 0,
  end: int = 0,
) -> Answer:
  return {
    "text": text,
    "start_logit": float(start_logit),
    "end_logit": float(end_logit),
    "probability": 0.0,
    "start": start,
    "end": end,
  }


def file_text(text: str | None, version_2_with_negative: bool) -> str:
  """Returns what the original's files have for the text of an answer."""
  no_answer = "" if version_2_with_negative else "empty"
  return no_answer if text is None else text


def write_predictions(
  output_dir: str, answers: Mapping[str, Answer], version_2_with_negative: bool
) -> None:
  """Writes predictions.json, nbest_predictions.json and null_odds.json of 2.0.

  The files appear together. `answers` are an AnswerDecoder's by question id.
  """
  contents: dict[str, dict[str, Any]] = {
    "predictions.json": {},
    "nbest_predictions.json": {},
  }
  texts, nbest = contents.values()
  # In the original's order.
  fields = ("text", "probability", "start_logit", "end_logit")
  for qas_id, answer in answers.items():
    texts[qas_id] = file_text(answer["answer"], version_2_with_negative)
    nbest[qas_id] = [
      {name: candidate[name] for name in fields}
      | {"text": file_text(candidate["text"], version_2_with_negative)}
      for candidate in answer["nbest"]
    ]
  if version_2_with_negative:
    contents["null_odds.json"] = {
      qas_id: answer["null_odds"] for qas_id, answer in answers.items()
    }
  targets = [os.path.join(output_dir, name) for name in contents]
  with atomic.files(targets) as unfinished:
    for path, content in zip(unfinished, contents.values()):
      with open(path, "w", encoding="utf-8") as writer:
        json.dump(content, writer, indent=4)
        writer.write("\n")
  for path in targets:
    logging.info("Wrote %s.", path)
