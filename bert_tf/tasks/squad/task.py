"""Question answering: fine-tuning, prediction and scores on SQuAD."""

import functools
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
from bert_tf.tasks.squad.windows import make_windows
from bert_tf.training import results

# Seed that shuffles the training questions; the original fixes it, too.
_SHUFFLE_SEED = 12345


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
    config, path = self.config, self.files[split].path
    assert path
    questions = examples.read_squad_examples(
      path, split == "train", self._has_negatives, config.verbose_logging
    )
    if split == "train":
      return questions
    needs_answers = config.do_eval or config.train.eval_every_steps > 0
    if needs_answers and metrics.correct_answers(questions) is None:
      raise ValueError(
        f"{path} has questions without answers, so it cannot be evaluated. "
        "Leave out `eval_every_steps`, or give another `predict_file`."
      )
    return questions

  def add_label(self, row: Row, label: Any, split: str) -> Row:
    """Adds the accepted answers, and for training the place of the only one."""
    answers = examples.to_answers(label, row["context"])
    labelled = examples.make_row(
      row["id"], row["question"], row["context"], answers, not answers
    )
    if split != "train":
      return labelled
    if not answers and not self._has_negatives:
      raise ValueError("it has no answer; set `version_2_with_negative`.")
    context = examples.Context(row["context"])
    if fault := examples.locate(
      labelled, answers, context, self._has_negatives, "the row"
    ):
      raise ValueError(f"{fault}.")
    return labelled

  def describe_labels(self, rows: Sequence[Row]) -> str:
    """Returns how many questions have an answer."""
    if all(r["answers"] is None and r["is_impossible"] is None for r in rows):
      return "no answers"
    num_answered = sum(bool(row["answers"]) for row in rows)
    num_others = len(rows) - num_answered
    return f"{num_answered} with an answer, {num_others} without"

  def order_for_training(self, rows: Sequence[Row]) -> Sequence[Row]:
    """Returns the questions shuffled, as in the original."""
    shuffled = list(rows)
    random.Random(_SHUFFLE_SEED).shuffle(shuffled)
    return shuffled

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields the windows of each context; none if it has no word pieces."""
    return make_windows(rows, self.tokenizer, self.settings)

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
    correct = metrics.correct_answers(rows, has_negatives)
    if correct is None:
      return {}
    by_id = dict(zip((row["id"] for row in rows), answers))
    texts = {
      qas_id: decoding.file_text(answer["answer"], has_negatives)
      for qas_id, answer in by_id.items()
    }
    scores = metrics.squad_summary(correct, texts)
    if correct.is_v2 and has_negatives:
      # These scores do not depend on null_score_diff_threshold. A threshold is
      # a question's odds. It is written as a float32, which must not be below
      # these odds, so the next larger one is taken.
      infinity = np.float32(np.inf)
      null_odds = {
        qas_id: float(np.nextafter(np.float32(answer["null_odds"]), infinity))
        for qas_id, answer in by_id.items()
      }
      spans = {
        qas_id: next((c["text"] for c in answer["nbest"] if c["text"]), "")
        for qas_id, answer in by_id.items()
      }
      scores |= metrics.best_null_thresholds(correct, spans, null_odds)
    return scores

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
      paths.remove(path)  # The scores of earlier predictions.
      logging.info("The predict_file has no answers, so there are no scores.")
    return scores
