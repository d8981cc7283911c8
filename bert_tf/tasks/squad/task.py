"""Question answering: fine-tuning, prediction and scores on SQuAD."""

import itertools
import os
import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import heads, losses
from bert_tf.data import input_pipeline, record_cache
from bert_tf.files import paths
from bert_tf.tasks import base, fine_tuning
from bert_tf.tasks.squad import config as config_lib
from bert_tf.tasks.squad import decoding, examples, metrics
from bert_tf.tasks.squad import windows as windows_lib
from bert_tf.tasks.squad.examples import SquadExample
from bert_tf.training import estimator, objective, progress, results

# Seed that shuffles the training questions; the original fixes it, too.
_SHUFFLE_SEED = 12345

Questions = Sequence[SquadExample]


def run(config: config_lib.SquadConfig) -> base.Results | None:
  """Trains, predicts and scores as configured; see fine_tuning.run.

  The scores are those of the predictions, if predict_file has answers.
  """
  return fine_tuning.run(config, SquadTask)


class SquadTask(base.Task[SquadExample]):
  """Finds the answers to questions in their contexts."""

  config: config_lib.SquadConfig
  model = heads.SpanModel
  # As in the original, the number of steps follows the questions, although
  # batches hold windows.
  noun = "training questions"
  predicted_split = "dev"
  record_settings = ("doc_stride", "max_query_length")

  def __init__(self, setup: base.Setup[config_lib.SquadConfig]) -> None:
    super().__init__(setup)
    config = setup.config
    self.files = {
      "train": base.SplitFile(config.train_file, "train_file"),
      "dev": base.SplitFile(config.predict_file, "predict_file"),
    }
    config.check_windows()
    self.window_config = self.decoding_config = config

  @property
  def result_names(self) -> tuple[str, ...]:
    """Names of the scores. The first is the default best_metric."""
    return metrics.result_names(self.decoding_config.version_2_with_negative)

  def read(self, split: str, path: str) -> list[SquadExample]:
    """Reads the questions of a file."""
    has_negatives = self.decoding_config.version_2_with_negative
    questions = examples.read_squad_examples(
      path, split == "train", has_negatives, self.config.verbose_logging
    )
    if split == "train":
      return questions
    num_impossible = sum(bool(e.is_impossible) for e in questions)
    if num_impossible and not has_negatives:
      logging.warning(
        "%s: %d of %d questions have no answer, but the model answers all. Set "
        "`version_2_with_negative` for data of SQuAD 2.0.",
        path,
        num_impossible,
        len(questions),
      )
    config = self.config
    needs_answers = config.do_eval or config.train.eval_every_steps > 0
    if needs_answers and metrics.correct_answers(questions) is None:
      raise ValueError(
        f"{path} has questions without answers, so it cannot be evaluated. "
        "Leave out `eval_every_steps`, or give another `predict_file`."
      )
    return questions

  def encode(self, split: str, data: Questions) -> base.Encoded:
    """Yields the records of a question, one for each window.

    Questions to train on are shuffled.
    """
    if split == "train":
      data = list(data)
      random.Random(_SHUFFLE_SEED).shuffle(data)
    for example, windows in self._windows(data, "cutting windows"):
      encoded = []
      for window in windows:
        ints = {"unique_ids": [window.unique_id]}
        if split == "train":
          ints["start_positions"] = [window.start_position]
          ints["end_positions"] = [window.end_position]
          ints["is_impossible"] = [int(bool(example.is_impossible))]
        encoded.append(self.record([window.model_input], ints))
      yield encoded, any(window.is_question_cut for window in windows)

  def spec(self, split: str) -> input_pipeline.Spec:
    """Returns the features of a record that the model reads."""
    features = input_pipeline.inputs_spec(self.max_seq_length)
    if split == "train":
      position = input_pipeline.int_feature()
      features |= {"start_positions": position, "end_positions": position}
    return features

  def made_of(self, data: Questions) -> dict[str, Any]:
    """Adds the positions of the answers, which exist only in training."""
    places = [(e.start_position, e.end_position, e.is_impossible) for e in data]
    return super().made_of(data) | {"places": record_cache.content_hash(places)}

  def finish(
    self, batches: tf.data.Dataset, has_few_widths: bool = False
  ) -> tf.data.Dataset:
    """Returns batches as wide as max_seq_length, unless cut_padding is set."""
    if self.config.cut_padding:
      return super().finish(batches, has_few_widths)
    return batches

  def objective(self) -> objective.Objective:
    """Returns the loss; `evaluate` scores the texts of answers, not logits."""
    return objective.Objective(
      losses.span_loss, losses.span_weights, lambda *unused: {}
    )

  def rows(self, outputs: Any, features: losses.Features) -> base.Rows:
    """Returns the logits of each window, [2, F], padded with -inf."""
    logits = np.stack(outputs, axis=1)  # [B, 2, F]
    room = self.max_seq_length - logits.shape[2]
    return np.pad(logits, [(0, 0), (0, 0), (0, room)], constant_values=-np.inf)

  def evaluate(
    self, runner: estimator.Estimator, batches: tf.data.Dataset, data: Questions
  ) -> tuple[base.Results, list[np.ndarray]]:
    """Returns the scores of the answers, and no rows."""
    outputs = itertools.starmap(self.rows, runner.predict(batches))
    answers = self._answers(data, itertools.chain.from_iterable(outputs))
    return runner.report(self._scores(data, answers)), []

  def write_predictions(
    self, output_dir: str, data: Questions, rows: base.Rows
  ) -> base.Results:
    """Writes the predictions and, if the file has answers, their scores.

    If it has none, removes the eval_results.txt of earlier predictions.
    """
    answers = self._answers(data, rows)
    decoding.write_predictions(
      output_dir, answers, self.decoding_config.version_2_with_negative
    )
    scores = self._scores(data, answers)
    path = os.path.join(output_dir, "eval_results.txt")
    if scores:
      results.write_results(path, scores)
    else:
      paths.remove(path)  # The scores of earlier predictions.
      logging.info("The predict_file has no answers, so there are no scores.")
    return scores

  def describe_labels(self, examples: Questions) -> str:
    """Returns how many questions have an answer."""
    if all(e.answers is None and e.is_impossible is None for e in examples):
      return "no answers"
    num_answered = sum(bool(e.answers) for e in examples)
    num_others = len(examples) - num_answered
    return f"{num_answered} with an answer, {num_others} without"

  def inputs_and_answer(
    self, example: SquadExample
  ) -> tuple[dict[str, Any], Any]:
    """Returns question and context, and the first accepted answer."""
    question, context = example.question_text, example.context.text
    answer = next(iter(example.answers or ()), None)
    return {"question": question, "context": context}, answer

  def _windows(
    self, questions: Questions, work: str
  ) -> Iterable[tuple[SquadExample, list[windows_lib.InputFeatures]]]:
    # Each question with its windows; `work` is for the progress bar.
    windows = windows_lib.make_windows(
      questions, self.tokenizer, self.window_config
    )
    pairs = zip(questions, windows)
    return progress.track(pairs, work, "question", len(questions))

  def _answers(
    self, data: Questions, rows: base.Rows
  ) -> dict[str, decoding.Answer]:
    rows, answers = iter(rows), {}
    decoder = decoding.AnswerDecoder(self.tokenizer, self.decoding_config)
    for example, windows in self._windows(data, "answering"):
      # [windows, 2, F], or [0, 2, 0] for a context without a word.
      logits = list(itertools.islice(rows, len(windows))) or np.zeros((0, 2, 0))
      starts, ends = np.swapaxes(logits, 0, 1)
      answers[example.qas_id] = decoder.predict(example, windows, starts, ends)
    return answers

  def _scores(
    self, data: Questions, predictions: dict[str, decoding.Answer]
  ) -> base.Results:
    has_negatives = self.decoding_config.version_2_with_negative
    answers = metrics.correct_answers(data, has_negatives)
    if answers is None:
      return {}
    scores = metrics.squad_summary(
      answers, {qas_id: p.text for qas_id, p in predictions.items()}
    )
    if answers.is_v2 and has_negatives:
      # These scores do not depend on null_score_diff_threshold.
      # A threshold is a question's odds. It is written as a float32, which must
      # not be below these odds, so the next larger one is taken.
      infinity = np.float32(np.inf)
      null_odds = {
        qas_id: float(np.nextafter(np.float32(p.null_odds or 0.0), infinity))
        for qas_id, p in predictions.items()
      }
      texts = {qas_id: p.span_text for qas_id, p in predictions.items()}
      scores |= metrics.best_null_thresholds(answers, texts, null_odds)
    return scores
