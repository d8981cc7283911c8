"""Multiple choice, such as SWAG (Devlin et al. 2019, 4.4)."""

import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import checkpoints, heads, losses, modeling, tokenization
from bert_tf.data import input_pipeline
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.swag import examples as swag_data
from bert_tf.tasks.swag import records as swag_features
from bert_tf.tasks.swag.examples import ChoiceExample
from bert_tf.training import config as training_config
from bert_tf.training import estimator, restore, run_dir
from bert_tf.training import results as results_lib

Results = dict[str, float | int]

# What an evaluation reports beside the step; the first decides on the best.
RESULTS = ("eval_accuracy", "eval_loss", "loss")

# The variable that only a model of multiple choice has.
_HEAD = "choice_weights"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SwagConfig(fine_tuning.DataDirConfig):
  """What `run_swag.py` is asked for.

  Attributes:
    task: files and columns.
    skip_bad_rows: whether to count bad rows of the training and evaluation
      files instead of stopping at the first.
  """

  task: swag_data.ChoiceTask
  skip_bad_rows: bool = False


@dataclasses.dataclass(frozen=True)
class _Part:
  """One of the files.

  Attributes:
    examples: in the order of the file.
    records: of these examples, in the same order.
  """

  examples: Sequence[ChoiceExample]
  records: input_pipeline.RecordFiles

  @property
  def num_choices(self) -> int:
    """C, the same for all examples of the file."""
    return len(self.examples[0].choices)


def run(config: SwagConfig) -> Results | None:
  """Trains, evaluates and predicts as asked; writes the result files.

  Returns:
    What the evaluation found, nothing without one; None if a signal ended
    the training.

  Raises:
    ValueError: if flags, config, vocabulary, data, checkpoint and output_dir
      do not fit one another, before the first step.
  """
  bert_config = modeling.BertConfig.from_json_file(config.bert_config_file)
  tokenizer = tokenization.FullTokenizer(
    config.vocab_file, config.do_lower_case
  )
  _check(config, bert_config, len(tokenizer.vocab))
  _check_start(config)
  data = _read(config)
  if config.do_train:
    train = fine_tuning.train_config(
      config, len(data["train"]), "training examples", RESULTS[0]
    )
    config = dataclasses.replace(config, train=train)
  output_dir = config.train.output_dir
  info = run_dir.RunInfo(task="swag", do_lower_case=config.do_lower_case)
  run_dir.prepare_output_dir(output_dir, info, bert_config, config.vocab_file)
  runner = build_estimator(bert_config, config.train)
  vocab_size = bert_config.vocab_size
  parts = {
    name: _Part(examples, _write_records(config, name, examples, tokenizer))
    for name, examples in data.items()
  }
  if config.do_train:
    _train(config, runner, parts, vocab_size)
    if runner.was_interrupted:
      return None
  results = {}
  if config.do_eval or config.do_predict:
    runner.load_for_inference()
  if config.do_eval:
    results = _evaluate(config, runner, parts["dev"], vocab_size)
    path = os.path.join(output_dir, "eval_results.txt")
    results_lib.write_results(path, results)
  if config.do_predict:
    probabilities = _predict(config, runner, parts["test"], vocab_size)
    write_predictions(
      output_dir, data["test"], probabilities, config.task.label_type
    )
  return results


def build_estimator(
  bert_config: modeling.BertConfig, train_config: training_config.TrainConfig
) -> estimator.Estimator:
  """Returns the Estimator of a model that chooses."""
  # The choices of an example are the classes of a classifier.
  kind = {"problem_type": "classification"}
  return estimator.Estimator(
    lambda: heads.MultipleChoiceModel(bert_config),
    functools.partial(losses.classifier_loss, **kind),
    losses.classifier_weights,
    functools.partial(losses.classifier_metrics, **kind),
    train_config,
  )


def write_predictions(
  output_dir: str,
  examples: Sequence[ChoiceExample],
  probabilities: np.ndarray,
  label_type: str,
) -> None:
  """Writes test_results.tsv and predictions.jsonl.

  Args:
    output_dir: folder of the run.
    examples: what was predicted, B.
    probabilities: float32 [B, C].
    label_type: one of swag_data.LABEL_TYPES, what the labels written are.
  """
  results_lib.write_lines(
    os.path.join(output_dir, "test_results.tsv"),
    ("\t".join(map(str, row)) for row in probabilities),
  )
  results_lib.write_lines(
    os.path.join(output_dir, "predictions.jsonl"),
    (
      json.dumps(_prediction(example, row, label_type), ensure_ascii=False)
      for example, row in zip(examples, probabilities)
    ),
  )


def _prediction(
  example: ChoiceExample, probabilities: np.ndarray, label_type: str
) -> dict[str, object]:
  """Returns the object of one line of predictions.jsonl."""
  chosen = int(probabilities.argmax())
  label = swag_data.label_names(example.choices, label_type)[chosen]
  return {
    "id": example.guid,
    "text": example.context,
    "text_b": example.continuations()[chosen],
    "label": int(label) if label_type.startswith("number") else label,
    # The digits of a float32.
    "probabilities": [float(str(p)) for p in probabilities],
  }


def _check(
  config: SwagConfig, bert_config: modeling.BertConfig, vocab_size: int
) -> None:
  """Raises ValueError where flags, config and vocabulary do not fit."""
  fine_tuning.check(config, bert_config, vocab_size)
  metric = config.train.best_metric
  if metric and metric not in RESULTS:
    raise ValueError(
      f"best_metric {metric!r} is no result; use {', '.join(RESULTS)}."
    )


def _check_start(config: SwagConfig) -> None:
  """Raises ValueError where the checkpoint to start from does not fit."""
  train = config.train
  restore.check_has_head(train.output_dir, _HEAD)
  if checkpoints.listed(train.output_dir):
    return
  if not train.init_checkpoint:
    if not config.do_train:
      raise ValueError(
        f"there is nothing to choose with: {train.output_dir} has no "
        "checkpoint; set --do_train, or --init_checkpoint to a fine-tuned one."
      )
    return
  shapes = checkpoints.CheckpointReader(train.init_checkpoint).shapes
  if not config.do_train and _HEAD not in shapes:
    raise ValueError(
      f"{train.init_checkpoint} has no {_HEAD}: it was not fine-tuned on "
      "multiple choice; set --do_train."
    )


def _read(config: SwagConfig) -> dict[str, list[ChoiceExample]]:
  """Returns the examples of "train", "dev" and "test" that are needed."""
  task = config.task
  evaluates_in_between = config.do_train and config.train.eval_every_steps
  needed = {
    "train": config.do_train,
    "dev": config.do_eval or evaluates_in_between,
    "test": config.do_predict,
  }
  files = {part: getattr(task, part) for part in needed if needed[part]}
  missing = [
    file
    for file in files.values()
    if not os.path.isfile(os.path.join(config.data_dir, file))
  ]
  if missing:
    raise ValueError(
      f"{config.data_dir} has no {', no '.join(missing)}; set --data_dir to "
      f"the folder of {task.name}."
    )
  data = {}
  for part, file in files.items():
    is_test = part == "test"
    # Predictions stand in the order of the test file, row for row.
    skip = config.skip_bad_rows and not is_test
    data[part] = swag_data.read_examples(
      config.data_dir, file, task, not is_test, skip
    )
    num_choices = len(data[part][0].choices)
    logging.info(
      "%s: %d examples of %d choices.", file, len(data[part]), num_choices
    )
  return data


def _write_records(
  config: SwagConfig,
  part: str,
  examples: Sequence[ChoiceExample],
  tokenizer: tokenization.FullTokenizer,
) -> input_pipeline.RecordFiles:
  """Writes the records of "train", "dev" or "test" to the folder of the run."""
  name = {"train": "train", "dev": "eval", "test": "predict"}[part]
  path = os.path.join(config.train.output_dir, f"{name}.tf_record")
  return swag_features.write_records(
    path, examples, tokenizer, config.max_seq_length
  )


def _train(
  config: SwagConfig,
  runner: estimator.Estimator,
  parts: Mapping[str, _Part],
  vocab_size: int,
) -> None:
  """Trains on the training file."""

  def training_batches(steps_done: int) -> tf.data.Dataset:
    return swag_features.training_batches(
      parts["train"].records,
      config.max_seq_length,
      parts["train"].num_choices,
      config.train.train_batch_size,
      config.train.seed,
      steps_done,
      vocab_size,
    )

  runner.train(
    training_batches,
    lambda: _evaluate(config, runner, parts["dev"], vocab_size),
  )


def _evaluate(
  config: SwagConfig, runner: estimator.Estimator, dev: _Part, vocab_size: int
) -> Results:
  """Returns the results of the newest checkpoint; in training, of that."""
  results = runner.evaluate(
    _batches_once(config, dev, config.eval_batch_size, vocab_size)
  )
  # The names that run_classifier.py gives to the means over examples.
  results["eval_accuracy"] = results.pop("accuracy")
  results["eval_loss"] = results.pop("example_loss")
  return results


def _predict(
  config: SwagConfig, runner: estimator.Estimator, test: _Part, vocab_size: int
) -> np.ndarray:
  """Returns the test file's probabilities, float32 [B, C]."""
  batches = _batches_once(config, test, config.predict_batch_size, vocab_size)
  scores = np.concatenate(list(runner.predict(batches)))
  return losses.probabilities(scores, "classification").numpy()


def _batches_once(
  config: SwagConfig, part: _Part, batch_size: int, vocab_size: int
) -> tf.data.Dataset:
  """Returns the examples of a file once, in their order."""
  return swag_features.batches_once(
    part.records,
    config.max_seq_length,
    part.num_choices,
    batch_size,
    vocab_size,
  )
