"""A run: the steps of every command that trains, on data of any kind.

Fine-tuning makes the data from rows, and pre-training reads files of records.
What differs between tasks is their objective, which for rows is a base.Task.
"""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import checkpoints, run_folder
from bert_tf.data import input_pipeline
from bert_tf.tasks import base, step_errors
from bert_tf.tasks.rows import Answer, Results, Row
from bert_tf.training import estimator, evaluation, evaluator, results


@dataclasses.dataclass(frozen=True)
class Data:
  """The records of a split, as batches for the model."""

  spec: input_pipeline.Spec  # The features of a record that the model reads.
  num_records: int
  # Returns endless batches to train on, without those of a number of steps.
  training: Callable[[int], tf.data.Dataset]
  # Returns the batches of all records in order, of a size.
  evaluation: Callable[[int], tf.data.Dataset]
  # What the records were made from; None for files of records.
  rows: Sequence[Row] | None = None


@dataclasses.dataclass(frozen=True)
class Run:
  """A run in a folder whose files are written and whose data are ready.

  Attributes:
    objective: what the model learns and reports; a base.Task if there are rows.
    config: the settings of the command, resolved.
    folder: the output_dir, which this process has locked if it trains.
    runner: the Estimator of the model.
    data: the data of each split that the command needs.
  """

  objective: Any
  config: Any
  folder: run_folder.RunFolder
  runner: estimator.Estimator
  data: Mapping[str, Data]

  def execute(self) -> Results | None:
    """Takes the steps that the config asks for.

    Returns the results of the evaluation and of the predictions, if any; None
    if a signal ended the training.
    """
    config = self.config
    all_results: Results = {}
    if config.do_train and not self.train():
      return None
    if config.do_eval or config.do_predict:
      self.runner.load_for_inference()
    if config.do_eval:
      all_results |= self.evaluate()
    if config.do_predict:
      all_results |= self.predict()
    return all_results

  def train(self) -> bool:
    """Trains to the last step; returns False if a signal ended it."""
    data = self.data["train"]
    with self._explained("train_batch_size"):
      self.runner.train(data.training, lambda: self.compute_results()[0])
    return not self.runner.was_interrupted

  def evaluate(self) -> Results:
    """Evaluates the dev split; writes and returns the results."""
    task, path = self.objective, self.folder.path
    found, answers = self.compute_results()
    results.write_results(
      os.path.join(path, "eval_results.txt"), found, first=task.first_results
    )
    if (rows := self.data["dev"].rows) is None:
      return found
    if self.folder.is_writable:
      task.write_evaluation(path, rows, answers)
    accuracy, scores = found.get("eval_accuracy", 1.0), dict(found)
    if chance := task.near_chance(rows, accuracy):
      logging.warning(
        f"eval_accuracy {accuracy:.3g} is close to chance: the most frequent "
        f"label alone would give {chance:.3g}."
      )
      scores = {"eval_accuracy": accuracy, "near_chance": chance, **scores}
    run_folder.write_scores(path, scores)
    return found

  def compute_results(self) -> tuple[Results, list[Answer]]:
    """Evaluates the current weights on the dev split.

    Returns the results, and the answers to the rows, if there are rows.
    """
    task, data = self.objective, self.data["dev"]
    answers: list[Answer] = []

    def score(batches: evaluator.Batches) -> Results:
      if data.rows is None:
        return {}
      answers.extend(self._answer_rows(data.rows, batches))
      return task.score(data.rows, answers)

    with self._explained("eval_batch_size"):
      batches = data.evaluation(self.config.eval_batch_size)
      if task.has_loss:
        means = self.runner.evaluate(batches, score=score)
      else:
        means = self.runner.report(score(self.runner.predict(batches)))
    return task.name_results(means), answers

  def predict(self) -> Results:
    """Predicts the split that the task predicts; returns the scores, if any."""
    task, name = self.objective, self.objective.predicted_split
    data = self.data[name]
    assert data.rows is not None
    with self._explained("predict_batch_size"):
      batches = data.evaluation(self.config.predict_batch_size)
      answers = self._answer_rows(data.rows, self.runner.predict(batches))
      scores = task.write_predictions(self.folder.path, data.rows, answers)
    if name == "dev":  # Without labels, removes earlier scores.
      run_folder.write_scores(self.folder.path, scores)
    return scores

  def log_served_folder(self) -> None:
    """Logs the command that serves the run's best or newest checkpoint."""
    path, train = self.folder.path, self.runner.config
    best = evaluation.find_best_folder(path)
    if best and train.eval_every_steps:
      scores = evaluation.read_best_results(best)
      step, name = scores[checkpoints.GLOBAL_STEP], str(train.best_metric)
      if not str(checkpoints.find_latest(path)).endswith(f"-{step}"):
        logging.info(f"Step {step} was the best: {name} = {scores[name]:.4g}")
        path = best
    if type(self.objective).__module__.startswith("bert_tf."):
      logging.info(f"To serve this model: bert-tf serve --model={path}")

  def _answer_rows(
    self, rows: Sequence[Row], batches: evaluator.Batches
  ) -> Iterator[Answer]:
    outputs = itertools.chain.from_iterable(
      base.split_outputs(values) for values, _ in batches
    )
    return base.answer_rows(self.objective, rows, outputs)

  def _explained(
    self, batch_setting: str
  ) -> contextlib.AbstractContextManager[None]:
    length = self.config.max_seq_length
    return step_errors.explained(self.config, batch_setting, length)
