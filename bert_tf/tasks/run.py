"""A run: the steps of every command that trains, on data of any kind.

Fine-tuning makes the data from rows, and pre-training reads files of records.
What differs between tasks is their objective, which for rows is a base.Task.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_tf import settings
from bert_tf.checkpoint import run_folder
from bert_tf.checkpoint.run_folder import RunFolder
from bert_tf.checkpoint.run_info import RunInfo
from bert_tf.data import input_pipeline
from bert_tf.files import errors
from bert_tf.model.model_config import BertConfig
from bert_tf.tasks import base
from bert_tf.tasks.config import FineTuningConfig
from bert_tf.tasks.rows import Answer, Results, Row
from bert_tf.tasks.setup import Setup
from bert_tf.training import results
from bert_tf.training.estimator import Estimator
from bert_tf.training.objective import Objective


@dataclasses.dataclass(frozen=True)
class Data:
  """The records of a split, as batches for the model."""

  spec: input_pipeline.Spec  # The features of a record that the model reads.
  # Returns endless batches to train on, without those of a number of steps.
  training: Callable[[int], tf.data.Dataset]
  # Returns the batches of all records in order, of a size.
  evaluation: Callable[[int], tf.data.Dataset]
  # What the records were made from; None for files of records.
  rows: Sequence[Row] | None = None


def read_records(
  config: Any,
  bert_config: BertConfig,
  files: input_pipeline.RecordFiles,
  spec: input_pipeline.Spec,
  finish: Callable[[tf.data.Dataset, int, int], tf.data.Dataset],
  rows: Sequence[Row] | None = None,
) -> Data:
  """Returns the data of records.

  `finish` makes batches for the model from batches of records, their size and
  the number of steps before them.
  """
  train, vocab_size = config.train, bert_config.vocab_size
  num_segments = bert_config.type_vocab_size

  def training(steps_done: int) -> tf.data.Dataset:
    size = train.train_batch_size
    batches = input_pipeline.training_dataset(
      *(files, spec, size, train.seed, steps_done, vocab_size),
      config.group_by_length,
      num_segments,
    )
    return finish(batches, size, steps_done)

  def evaluation(batch_size: int) -> tf.data.Dataset:
    batches = input_pipeline.finite_dataset(
      files, spec, batch_size, vocab_size, num_segments
    )
    return finish(batches, batch_size, 0)

  return Data(spec, training, evaluation, rows)


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
  folder: RunFolder
  runner: Estimator
  data: Mapping[str, Data]

  @classmethod
  @contextlib.contextmanager
  def prepare(
    cls,
    setup: Setup[Any],
    objective: Objective,
    describe: Callable[[RunInfo], RunInfo],
    open_data: Callable[[str], Mapping[str, Data]],
    train_data: str,
  ) -> Iterator["Run"]:
    """Locks the folder, writes the files of the run, opens data and model.

    Args:
      setup: the settings, the folder and the model that the run starts from.
      objective: what the model learns.
      describe: returns the content of run.json, given what it is so far.
      open_data: returns the data of the splits; it may write records into the
        folder that it is given.
      train_data: describes the training examples, to recognise others.

    Raises ValueError if the folder holds another run.
    """
    config, start = setup.config, setup.start
    with setup.folder.exclusive(config.do_train) as folder:
      saved = folder.info or RunInfo(task=config.task)
      folder.prepare(describe(saved), start)
      results.add_command(folder.path, config, train_data)
      data = open_data(folder.records_dir)
      runner = Estimator(objective, start.config, config.train, start.reader)
      yield cls(objective, config, folder, runner, data)

  def execute(self) -> Results | None:
    """Takes the steps that the config asks for.

    Returns the results of the evaluation and of the predictions, if any; None
    if a signal ended the training.
    """
    config = self.config
    all_results: Results = {}
    if config.do_train:
      self.train()
      if self.runner.was_interrupted:
        return None
    if config.do_eval or config.do_predict:
      self.runner.load_for_inference()
    if config.do_eval:
      all_results |= self.evaluate()
    if config.do_predict:
      all_results |= self.predict()
    return all_results

  def train(self) -> None:
    """Trains on the train split; evaluates on the dev split meanwhile."""
    with self._explained("train_batch_size"):
      self.runner.train(
        self.data["train"].training, lambda: self.compute_results()[0]
      )

  def evaluate(self) -> Results:
    """Evaluates the dev split; writes and returns the results."""
    task, path, rows = self.objective, self.folder.path, self.data["dev"].rows
    dev_results, answers = self.compute_results()
    results_file = os.path.join(path, "eval_results.txt")
    results.write_results(results_file, dev_results, task.first_results)
    if rows is not None:
      run_folder.write_scores(path, dev_results)
      if self.folder.is_writable:
        task.write_evaluation(path, rows, answers)
    return dev_results

  def compute_results(self) -> tuple[Results, list[Answer]]:
    """Evaluates the current weights on the dev split.

    Returns the results, and the answers to the rows, if there are rows.
    """
    task, data = self.objective, self.data["dev"]
    answers: list[Answer] = []

    def score(outputs: Iterator[Any]) -> Results:
      if data.rows is None:
        return {}
      answers.extend(base.answer_rows(task, data.rows, outputs))
      return task.score(data.rows, answers)

    with self._explained("eval_batch_size"):
      batches = data.evaluation(self.config.eval_batch_size)
      means = self.runner.evaluate(batches, score)
    return task.name_results(means), answers

  def predict(self) -> Results:
    """Predicts the split that the task predicts; returns the scores, if any."""
    task, name = self.objective, self.objective.predicted_split
    data = self.data[name]
    assert data.rows is not None
    with self._explained("predict_batch_size"):
      batches = data.evaluation(self.config.predict_batch_size)
      outputs = self.runner.predict(batches)
      answers = base.answer_rows(task, data.rows, outputs)
      scores = task.write_predictions(self.folder.path, data.rows, answers)
    if name == "dev":  # Without labels, removes earlier scores.
      run_folder.write_scores(self.folder.path, scores)
    return scores

  @contextlib.contextmanager
  def _explained(self, batch_setting: str) -> Iterator[None]:
    """Turns exhausted memory into an error with advice."""
    try:
      yield
    except errors.OutOfMemoryError:
      raise  # An evaluation during training has already explained it.
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
      if errors.system_limit(error) is not None:
        raise
      remedies = [f"a lower `{batch_setting}`"]
      if batch_setting == "train_batch_size":
        accumulation = "a higher `gradient_accumulation_steps`"
        remedies = [accumulation, "`recompute`", *remedies]
      # In pre-training, the records determine the length.
      if isinstance(self.config, FineTuningConfig):
        remedies.append("a lower `max_seq_length`")
      reason = errors.reason(error).rstrip(".") or type(error).__name__
      batch_size = settings.values(self.config)[batch_setting]
      raise errors.OutOfMemoryError(
        f"out of memory ({reason}): a batch of `{batch_setting}={batch_size}` "
        f"with {self.config.max_seq_length} word pieces is too large. Use "
        f"{' or '.join(remedies)}."
      ) from error
