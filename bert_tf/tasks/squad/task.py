"""Question answering: fine-tuning, prediction and scores on SQuAD."""

import functools
import itertools
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf.files import paths
from bert_tf.model import losses
from bert_tf.model.tensor import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.rows import Answer, Results, Row
from bert_tf.tasks.squad import decoding, examples, metrics
from bert_tf.tasks.squad.config import SquadSettings
from bert_tf.training import results


class SquadTask(base.Task[SquadSettings]):
  """Finds the answers to questions in their contexts.

  An answer is one of `decoding.AnswerDecoder`.
  """

  name = "squad"
  fields = ("question", "context")
  num_required = 2
  outputs = ("start_logits", "end_logits")
  # As in the original, the number of steps follows the questions, although
  # batches hold windows.
  noun = "training questions"
  predicted_split = "dev"
  has_loss = False  # Evaluations score the texts of answers.
  unread_features = ("unique_ids", "is_impossible")

  @property
  def width(self) -> int | None:
    """All positions, unless `cut_padding` is set.

    As in the original, positions of padding count among the n best.
    """
    is_cut = self.config is not None and self.config.cut_padding
    return None if is_cut else self.max_seq_length

  @property
  def metrics(self) -> tuple[str, ...]:
    """Names of the scores. The first is the default best_metric."""
    return metrics.result_names(self._has_negatives)

  @property
  def _has_negatives(self) -> bool:
    return bool(self.settings.version_2_with_negative)

  @property
  def files(self) -> Mapping[str, base.SplitFile]:
    """The file of each split."""
    return {
      "train": base.SplitFile(self.config.train_file, "train_file"),
      "dev": base.SplitFile(self.config.predict_file, "predict_file"),
    }

  def read(self, split: str) -> Sequence[Row]:
    """Reads the questions of a file."""
    config, path = self.config, str(self.files[split].path)
    rows = examples.read_squad_examples(
      path, split == "train", self._has_negatives, config.verbose_logging
    )
    is_scored = config.do_eval or config.train.eval_every_steps > 0
    if split != "train" and is_scored and not metrics.has_answers(rows):
      raise ValueError(
        f"{path} has questions without answers, so it cannot be evaluated. "
        "Leave out `eval_every_steps`, or give another `predict_file`."
      )
    return rows

  def add_label(self, row: Row, label: Any, split: str) -> Row:
    """Adds the accepted answers, and for training the place of the only one."""
    context = examples.Context(row["context"])
    answers = examples.to_answers(label, context.text)
    row = examples.make_row(
      row["id"], row["question"], context.text, answers, not answers
    )
    if split == "train":
      if not answers and not self._has_negatives:
        raise ValueError("it has no answer; set `version_2_with_negative`.")
      if fault := examples.locate(
        row, answers, context, self._has_negatives, "the row"
      ):
        raise ValueError(f"{fault}.")
    return row

  def describe_labels(self, rows: Sequence[Row]) -> str:
    """Returns how many questions have an answer."""
    if all(r["answers"] is None and r["is_impossible"] is None for r in rows):
      return "no answers"
    num_answered = sum(bool(row["answers"]) for row in rows)
    num_others = len(rows) - num_answered
    return f"{num_answered} with an answer, {num_others} without"

  def prepare_for_training(self, rows: Sequence[Row]) -> Sequence[Row]:
    """Returns the questions shuffled, with the original's fixed seed."""
    shuffled = list(rows)
    random.Random(12345).shuffle(shuffled)
    return shuffled

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields the windows of each row; none if the context has no pieces.

    The `state` is (Context, list of InputFeatures).
    """
    doc_stride, tokenize = self.settings.doc_stride, self.tokenize
    assert doc_stride
    cls_id, sep_id = self.tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    # Questions share a context.
    contexts = functools.cache(examples.Context)

    @functools.cache
    def read_pieces(
      context: examples.Context,
    ) -> tuple[np.ndarray, np.ndarray]:
      # The pieces and the word of each, int32 [pieces]: 8 bytes for a piece.
      pieces = [tokenize(word) for word in context.doc_tokens]
      counts = np.array([*map(len, pieces)], np.int32)
      words = np.repeat(np.arange(len(pieces), dtype=np.int32), counts)
      ids = itertools.chain.from_iterable(pieces)
      return np.array([*ids], np.int32), words

    unique_id = 1000000000
    for row in rows:
      context = contexts(row["context"])
      question = tokenize(row["question"])
      query = question[: self.settings.max_query_length]
      prefix = [cls_id, *query, sep_id]
      ids, words = read_pieces(context)
      answer = self._find_answer(row, ids, words)
      num_pieces = len(ids)
      length = self.max_seq_length - len(query) - 3
      spans: list[tuple[int, int]] = []  # First piece and end of each window.
      # The window in which each piece has the most context: pieces on the
      # shorter side, plus 0.01 times the length of the window. The first one
      # wins ties.
      best_windows = np.zeros(num_pieces, np.int32)
      best_scores = np.full(num_pieces, -1.0)
      for first in range(0, num_pieces, doc_stride):
        end = min(first + length, num_pieces)
        left = np.arange(end - first)
        # In float64 as in the original, since the sums decide between windows.
        scores = np.minimum(left, left[::-1]) + 0.01 * (end - first)
        is_better = scores > best_scores[first:end]
        best_scores[first:end][is_better] = scores[is_better]
        best_windows[first:end][is_better] = len(spans)
        spans.append((first, end))
        if end == num_pieces:
          break
      windows = []
      for i, (first, end) in enumerate(spans):
        start_position = end_position = 0
        if answer and first <= answer[0] and answer[1] < end:
          start_position = answer[0] - first + len(prefix)
          end_position = answer[1] - first + len(prefix)
        windows.append(
          examples.InputFeatures(
            unique_id + i,
            [*prefix, *ids[first:end].tolist(), sep_id],
            len(prefix),
            words[first:end],
            best_windows[first:end] == i,
            start_position,
            end_position,
          )
        )
      unique_id += len(windows)
      yield base.Inputs(
        [base.model_input(x.input_ids, x.doc_offset) for x in windows],
        (context, windows),
        is_cut=bool(windows) and len(question) > len(query),
      )

  def _find_answer(
    self, row: Row, ids: np.ndarray, words: np.ndarray
  ) -> tuple[int, int] | None:
    """Returns the first and the last piece of the answer; None without one.

    The answer's words may contain more than the answer, such as "(1895-1943)."
    for 1895. If the answer's pieces occur in them, only these are returned.
    """
    if row.get("start_position", -1) < 0:
      return None
    first = int(np.searchsorted(words, row["start_position"]))
    end = int(np.searchsorted(words, row["end_position"], side="right"))
    answer = self.tokenize(row["label"] or "")
    word_pieces = ids[first:end].tolist()
    for start in range(len(word_pieces) - len(answer) + 1 if answer else 0):
      if word_pieces[start : start + len(answer)] == answer:
        return first + start, first + start + len(answer) - 1
    return first, end - 1

  def targets(self, row: Row, inputs: base.Inputs) -> Iterable[base.Features]:
    """Yields the id of each window, and for training its answer's place."""
    _, windows = inputs.state
    for window in windows:
      features = {"unique_ids": np.array(window.unique_id)}
      if "start_position" in row:
        features["start_positions"] = np.array(window.start_position)
        features["end_positions"] = np.array(window.end_position)
        features["is_impossible"] = np.array(int(row["is_impossible"]))
      yield features

  def compute_losses(
    self, outputs: tuple[Tensor, Tensor], features: losses.Features
  ) -> tuple[Tensor, None]:
    """Returns the loss of each window; logits alone tell no accuracy."""
    return losses.span_losses(outputs, features), None

  @functools.cached_property
  def _decoder(self) -> decoding.AnswerDecoder:
    return decoding.AnswerDecoder(self.tokenizer, self.settings)

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the best answer of all windows."""
    context, windows = inputs.state
    shape = (2, len(windows), self.max_seq_length)
    starts, ends = np.full(shape, -np.inf, np.float32)
    for number, output in enumerate(outputs):
      for logits, name in zip((starts, ends), self.outputs):
        logits[number, : len(output[name])] = output[name]
    return self._decoder.predict(context, windows, starts, ends)

  def score(self, rows: Sequence[Row], answers: Sequence[Answer]) -> Results:
    """Returns the scores of the answers; {} if the rows have none."""
    has_negatives = self._has_negatives
    by_id = dict(zip((row["id"] for row in rows), answers))
    predictions, spans, null_odds = {}, {}, {}
    for qas_id, answer in by_id.items():
      predictions[qas_id] = decoding.file_text(answer["answer"], has_negatives)
      if has_negatives:
        # The scores at the best thresholds do not depend on
        # null_score_diff_threshold. A threshold is a question's odds. It is
        # written as a float32, which must not be below these odds, so the next
        # larger one is taken.
        odds = np.nextafter(np.float32(answer["null_odds"]), np.float32(np.inf))
        null_odds[qas_id] = float(odds)
        texts = (candidate["text"] for candidate in answer["nbest"])
        spans[qas_id] = next((text for text in texts if text), "")
    return metrics.compute_scores(
      rows, predictions, has_negatives, null_odds, spans
    )

  def write_predictions(
    self, output_dir: str, rows: Sequence[Row], answers: Iterable[Answer]
  ) -> Results:
    """Writes the predictions and, if the file has answers, their scores.

    If it has none, removes the eval_results.txt of earlier predictions.
    """
    by_id = dict(zip((row["id"] for row in rows), answers))
    decoding.write_predictions(output_dir, by_id, self._has_negatives)
    scores = self.score(rows, [*by_id.values()])
    path = os.path.join(output_dir, "eval_results.txt")
    if scores:
      results.write_results(path, scores)
    else:
      paths.remove(path)
      logging.info("The predict_file has no answers, so there are no scores.")
    return scores
