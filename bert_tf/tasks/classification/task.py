"""Fine-tuning on single texts and pairs (Devlin et al. 2019, 4.1)."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import heads, losses, modeling, tokenization
from bert_tf.data import input_pipeline
from bert_tf.files import paths
from bert_tf.losses import Sums
from bert_tf.modeling import Tensor
from bert_tf.tasks import fine_tuning, label_map
from bert_tf.tasks.classification import examples, long_texts
from bert_tf.tasks.classification import metrics as classification_results
from bert_tf.tasks.classification import records as classification_data
from bert_tf.tasks.classification.examples import InputExample
from bert_tf.training import config as training_config
from bert_tf.training import estimator, restore, run_dir
from bert_tf.training import results as results_lib

# What the original wrote, and so what comes first.
_ORIGINAL_RESULTS = ("eval_accuracy", "eval_loss", "global_step", "loss")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationConfig(fine_tuning.DataDirConfig):
  """What `run_classifier.py` is asked for.

  Attributes:
    task: what is classified.
    skip_bad_rows: whether to count bad rows of the training and evaluation
      files instead of stopping at the first.
    long_text: one of long_texts.MODES, what becomes of single texts of more
      than max_seq_length word pieces; with "windows" the examples are their
      windows in training, and each its mean in evaluation and prediction.
    group_by_length: whether training batches hold examples of like length,
      which leaves little padding to compute.
  """

  task: examples.FileLayout
  skip_bad_rows: bool = False
  long_text: str = "truncate"
  group_by_length: bool = True


def run(config: ClassificationConfig) -> dict[str, float | int] | None:
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
  check(config, bert_config, len(tokenizer.vocab))
  task, data = _read(config)
  return run_on_examples(config, task, data, bert_config, tokenizer)


def run_on_examples(
  config: ClassificationConfig,
  task: examples.FileLayout,
  data: Mapping[str, Sequence[InputExample]],
  bert_config: modeling.BertConfig,
  tokenizer: tokenization.FullTokenizer,
) -> dict[str, float | int] | None:
  """Does what `run` does with examples that were read.

  Args:
    config: what is asked for; its files are not read.
    task: with its labels known.
    data: the examples of "train", "dev" and "test", where they are needed.
    bert_config: the model's sizes.
    tokenizer: of the model's vocabulary.

  Returns, Raises: as `run` does.
  """
  windows = {
    part: classification_data.num_windows(
      found, tokenizer, config.max_seq_length, config.long_text
    )
    for part, found in data.items()
  }
  config = dataclasses.replace(config, task=task)
  if config.do_train:
    train = fine_tuning.train_config(
      config,
      sum(windows["train"]),
      "training examples",
      result_names(task)[0],
    )
    config = dataclasses.replace(config, train=train)
  label_map.check(config.train.output_dir, task.label_spec())
  restore.check_classifier_head(
    config.train.output_dir,
    config.train.init_checkpoint,
    task.label_spec().num_outputs,
  )
  info = run_dir.RunInfo(
    task="classification", do_lower_case=config.do_lower_case
  )
  run_dir.prepare_output_dir(
    config.train.output_dir, info, bert_config, config.vocab_file
  )
  label_map.write(config.train.output_dir, task.label_spec())
  runner = build_estimator(bert_config, task.label_spec(), config.train)
  vocab_size = bert_config.vocab_size

  def evaluate() -> dict[str, float | int]:
    return _evaluate(config, runner, dev_records, vocab_size, windows["dev"])

  if "dev" in data:
    dev_records = _write_records(config, "eval", data["dev"], tokenizer)
  if config.do_train:
    records = _write_records(config, "train", data["train"], tokenizer)
    if not _train(config, runner, records, vocab_size, evaluate):
      return None
  results = {}
  if config.do_eval or config.do_predict:
    runner.load_for_inference()
  if config.do_eval:
    results = evaluate()
    path = os.path.join(config.train.output_dir, "eval_results.txt")
    results_lib.write_results(path, results, first=_ORIGINAL_RESULTS)
  if config.do_predict:
    records = _write_records(config, "predict", data["test"], tokenizer)
    probabilities = _predict(
      config, runner, records, vocab_size, windows["test"]
    )
    classification_results.write_predictions(
      config.train.output_dir, config.task, data["test"], probabilities
    )
  return results


def result_names(task: examples.FileLayout) -> tuple[str, ...]:
  """Returns the names of what an evaluation reports, the task's own first."""
  accuracy = () if task.problem_type == "regression" else ("eval_accuracy",)
  return (*task.metrics, *accuracy, "eval_loss", "loss")


def build_estimator(
  bert_config: modeling.BertConfig,
  task: label_map.LabelSpec,
  train_config: training_config.TrainConfig,
) -> estimator.Estimator:
  """Returns the Estimator of a classifier.

  Args:
    bert_config: the model's sizes.
    task: the labels of the model.
    train_config: how to train.
  """

  def loss_fn(logits: Tensor, batch: Mapping[str, Tensor]) -> Sums:
    return losses.classifier_loss(logits, batch, task.problem_type)

  def eval_fn(logits: Tensor, batch: Mapping[str, Tensor]) -> Sums:
    return losses.classifier_metrics(logits, batch, task.problem_type)

  return estimator.Estimator(
    lambda: heads.ClassifierModel(bert_config, task.num_outputs),
    loss_fn,
    losses.classifier_weights,
    eval_fn,
    train_config,
  )


def check(
  config: ClassificationConfig,
  bert_config: modeling.BertConfig,
  vocab_size: int,
) -> None:
  """Raises ValueError where flags, config and vocabulary do not fit."""
  fine_tuning.check(config, bert_config, vocab_size)
  known, metric = result_names(config.task), config.train.best_metric
  if metric and metric not in known:
    raise ValueError(
      f"best_metric {metric!r} is no result of {config.task.name}; use "
      f"{', '.join(known)}."
    )
  splits = (config.task.train, config.task.dev, config.task.test)
  if config.long_text != "truncate" and any(s and s.text_b for s in splits):
    raise ValueError(
      f"long_text {config.long_text!r} is for single texts, but "
      f"{config.task.name} has pairs, whose longer text is always cut; leave "
      "out --long_text."
    )
  freeze_layers = config.train.freeze_layers or 0
  if freeze_layers > bert_config.num_hidden_layers:
    raise ValueError(
      f"freeze_layers {freeze_layers} exceeds num_hidden_layers "
      f"{bert_config.num_hidden_layers} of {config.bert_config_file}; lower "
      "the flag."
    )


def _read(
  config: ClassificationConfig,
) -> tuple[examples.FileLayout, dict[str, list[InputExample]]]:
  """Reads what is asked for.

  Returns:
    The task with its labels known, and the examples of "train", "dev" and
    "test" where they are needed.
  """
  task, folder = config.task, config.data_dir
  evaluates_in_between = config.do_train and config.train.eval_every_steps
  flags = {
    "train": config.do_train and "do_train",
    "dev": (config.do_eval and "do_eval")
    or (evaluates_in_between and "eval_every_steps"),
    "test": config.do_predict and "do_predict",
  }
  splits = {part: getattr(task, part) for part, flag in flags.items() if flag}
  for part, split in splits.items():
    if split is None:
      raise ValueError(
        f"{task.name} has no {part} file; leave out --{flags[part]}."
      )
  examples.check_files(folder, list(splits.values()), task.name)
  saved = label_map.read(config.train.output_dir)
  if task.labels is None and saved:
    task = dataclasses.replace(task, labels=saved.labels)
  data = {}
  if task.labels is None:
    task, data["train"] = _read_with_labels(config)
  for part, split in splits.items():
    if part not in data:
      # Predictions stand in the order of the test file, row for row.
      skip = config.skip_bad_rows and part != "test"
      data[part] = examples.read_examples(folder, split, task, skip)
    logging.info("%s: %d examples.", split.file, len(data[part]))
  return task, data


def _read_with_labels(
  config: ClassificationConfig,
) -> tuple[examples.FileLayout, list[InputExample]]:
  """Returns the task with the labels of the training file, and its examples."""
  task = config.task
  path = os.path.join(config.data_dir, task.train.file)
  if not paths.exists(path):
    raise ValueError(
      f"the labels are not known: {config.train.output_dir} has no "
      f"{label_map.FILE} and there is no {path}; copy the {label_map.FILE} of "
      "the run that trained the model into --output_dir."
    )
  found = examples.read_examples(
    config.data_dir, task.train, task, config.skip_bad_rows
  )
  labels = examples.infer_labels(found)
  needed = 2 if task.problem_type == "classification" else 1
  if len(labels) < needed:
    raise ValueError(
      f"{path} has {len(labels)} labels ({', '.join(labels)}), at least "
      f"{needed} are needed; is --label_column right?"
    )
  return dataclasses.replace(task, labels=labels), found


def _write_records(
  config: ClassificationConfig,
  name: str,
  data: Sequence[InputExample],
  tokenizer: tokenization.FullTokenizer,
) -> input_pipeline.RecordFiles:
  """Makes `NAME.tf_record` in the folder of the run."""
  path = os.path.join(config.train.output_dir, f"{name}.tf_record")
  return classification_data.write_records(
    path,
    data,
    config.task.label_spec(),
    tokenizer,
    config.max_seq_length,
    config.long_text,
  )


def _train(
  config: ClassificationConfig,
  runner: estimator.Estimator,
  records: input_pipeline.RecordFiles,
  vocab_size: int,
  evaluate_fn: Callable[[], dict[str, float | int]],
) -> bool:
  """Trains; returns whether that came to its end, without a signal."""
  train = config.train

  def training_batches(steps_done: int) -> tf.data.Dataset:
    return classification_data.training_batches(
      records,
      config.task.label_spec(),
      config.max_seq_length,
      train.train_batch_size,
      train.seed,
      steps_done,
      vocab_size,
      config.group_by_length,
    )

  runner.train(training_batches, evaluate_fn)
  return not runner.was_interrupted


def _evaluate(
  config: ClassificationConfig,
  runner: estimator.Estimator,
  records: input_pipeline.RecordFiles,
  vocab_size: int,
  num_windows: Sequence[int],
) -> dict[str, float | int]:
  """Returns the results of the newest checkpoint; in training, of that."""
  task = config.task
  label_ids, logits = [], []

  def collect(outputs: Tensor, batch: Mapping[str, Tensor]) -> None:
    label_ids.append(batch["label_ids"].numpy())
    logits.append(outputs.numpy())

  def metrics_of_examples() -> dict[str, float]:
    return classification_results.metrics(
      task, np.concatenate(label_ids), np.concatenate(logits), num_windows
    )

  batches = classification_data.batches_once(
    records,
    config.task.label_spec(),
    config.max_seq_length,
    config.eval_batch_size,
    vocab_size,
  )
  results = runner.evaluate(
    batches, on_outputs=collect, more_results=metrics_of_examples
  )
  # The names that the original gave to the means over examples.
  results["eval_loss"] = results.pop("example_loss")
  if "accuracy" in results:
    results["eval_accuracy"] = results.pop("accuracy")
  return results


def _predict(
  config: ClassificationConfig,
  runner: estimator.Estimator,
  records: input_pipeline.RecordFiles,
  vocab_size: int,
  num_windows: Sequence[int],
) -> np.ndarray:
  """Returns the test file's losses.probabilities, float32 [B, C]."""
  batches = classification_data.batches_once(
    records,
    config.task.label_spec(),
    config.max_seq_length,
    config.predict_batch_size,
    vocab_size,
  )
  logits = np.concatenate(list(runner.predict(batches)))
  pooled = long_texts.pooled(logits, num_windows)
  return losses.probabilities(pooled, config.task.problem_type).numpy()
