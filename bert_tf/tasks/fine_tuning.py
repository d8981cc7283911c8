"""Fine-tuning: the steps that all tasks share.

`run` resolves the settings, reads the splits, trains, evaluates, predicts and
writes the results. A base.Task supplies the rest.
"""

import collections
import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from absl import logging

from bert_tf import task_registry
from bert_tf.checkpoint.run_info import RunInfo, Training
from bert_tf.files import messages
from bert_tf.tasks import base
from bert_tf.tasks.config import FineTuningConfig
from bert_tf.tasks.rows import Results, Row, labels_in
from bert_tf.tasks.run import Data, Run
from bert_tf.tasks.setup import Config, Setup
from bert_tf.tasks.splits import (
  Split,
  describe_examples,
  encode,
  read_splits,
)
from bert_tf.training import evaluation
from bert_tf.training.config import FineTuningTrainConfig


def run(
  config: Config,
  task_class: type[base.Task] | None = None,
  encode: Callable[..., Data] = encode,
) -> Results | None:
  """Trains, evaluates and predicts as configured; writes the result files.

  Args:
    config: the settings of the task's command.
    task_class: the class of the task; None for that of its TaskSpec.
    encode: writes the records of a split, as `splits.encode`.

  Returns:
    The results of the evaluation and of the predictions, if any; None if a
    signal ended the training.

  Raises:
    ValueError: before the first step, if flags, config, vocabulary, data,
      checkpoint and output_dir do not fit together.
  """
  setup = Setup.open(config)
  spec = task_registry.TASKS[config.task]
  task = (task_class or task_registry.load(spec.task)).create(setup)
  if task.labels:  # Fails early, before the data are read.
    setup.folder.check_labels(task.labels)
  task, splits = read_splits(task, setup.folder.path)
  return run_on_splits(setup, task, splits, encode)


def run_on_splits(
  setup: Setup[Config],
  task: base.Task,
  splits: Mapping[str, Split],
  encode: Callable[..., Data] = encode,
) -> Results | None:
  """Trains, evaluates and predicts as `run` does, on rows in memory.

  Does not read the files that the config names. The task's labels must be
  known.
  """
  config = setup.choose_head(task.model, task.labels)
  train = config.train.choose_best_metric(task.metrics)
  if config.do_train:
    rows = splits["train"].rows
    train = _plan_steps(config, train, task, rows)
    # Those of the setting, else of the resumed run.
    saved = setup.folder.info
    weights = saved.training.class_weights if saved else None
    if given := getattr(config, "class_weights", ()):
      weights = compute_class_weights(given, task, rows)
    task = dataclasses.replace(task, class_weights=weights)
  examples = describe_examples(task, splits, config.num_run_examples)

  def describe(saved: RunInfo) -> RunInfo:
    # Counts, examples and scores of earlier commands stay if nothing is new.
    if not (setup.config.do_train or setup.folder.info):
      saved = setup.head_run or saved
    return RunInfo(
      task=task.name,
      settings=task.settings,
      labels=task.labels,
      training=Training(
        class_weights=task.class_weights,
        lora_rank=train.lora_rank or None,
        lora_alpha=train.lora_alpha if train.lora_rank else None,
      ),
      examples=dataclasses.replace(saved.examples, **examples),
      scores=saved.scores,
    )

  def open_data(records_dir: str) -> dict[str, Data]:
    return {
      name: encode(task, split, records_dir, setup.start.config)
      for name, split in splits.items()
    }

  config = dataclasses.replace(config, train=train)
  setup = dataclasses.replace(setup, config=config)
  train_data = splits["train"].fingerprint() if config.do_train else ""
  with Run.prepare(setup, task, describe, open_data, train_data) as run:
    all_results = run.execute()
  is_built_in = type(task).__module__.startswith("bert_tf.")
  if config.do_train and all_results is not None and is_built_in:
    path = train.output_dir
    if train.eval_every_steps:
      path = evaluation.find_best_folder(path) or path
    logging.info(f"To serve this model: bert-tf serve --model={path}")
  return all_results


def _plan_steps(
  config: FineTuningConfig,
  train: FineTuningTrainConfig,
  task: base.Task,
  rows: Sequence[Row],
) -> FineTuningTrainConfig:
  """Returns the settings of training with the numbers of steps for its rows.

  Raises ValueError if they do not fill a batch.
  """
  num_inputs = len(rows)
  if task.counts_windows:
    num_inputs = sum(inputs.num_records for inputs in task.preprocess(rows))
  batch_size, num_epochs = train.train_batch_size, config.num_train_epochs
  # Steps and warm-up steps are rounded down, as in the original.
  num_steps = int(num_inputs / batch_size * num_epochs)
  if num_steps < 1:
    raise ValueError(
      f"num_train_epochs {num_epochs} of {num_inputs} {task.noun} do not fill "
      f"a batch of {batch_size}. Raise it."
    )
  num_warmup_steps = int(num_steps * config.warmup_proportion)
  logging.info(
    f"{num_inputs} {task.noun}, {num_steps} steps of {batch_size}, "
    f"{num_warmup_steps} of them warm-up."
  )
  return dataclasses.replace(
    train, num_train_steps=num_steps, num_warmup_steps=num_warmup_steps
  )


def compute_class_weights(
  given: Sequence[str], task: base.Task, rows: Sequence[Row]
) -> tuple[float, ...]:
  """Returns the weight of each label of a task in the loss of a training.

  "balanced" stands for n / (k * count), with n training labels, k of them
  different, as in scikit-learn. A label without an example gets 1.

  Args:
    given: the setting class_weights: numbers, or "balanced".
    task: the task, with its labels.
    rows: the training rows.

  Raises:
    ValueError: if the setting does not give a positive number per label, or
      the task has no labels that exclude each other.
  """
  labels: tuple[str, ...] = ()
  if task.labels and task.labels.problem_type in ("classification", "words"):
    labels = task.labels.labels
  weights: list[float] = []
  if "balanced" in given:
    counter = collections.Counter(labels_in([row.get("label") for row in rows]))
    counts = [counter[label] for label in labels]
    scale = sum(counts) / max(1, sum(map(bool, counts)))
    weights = [scale / count if count else 1.0 for count in counts]
  else:
    with contextlib.suppress(ValueError):
      weights = [float(number) for number in given]
  is_valid = all(0 < weight < math.inf for weight in weights)
  if not labels or len(weights) != len(labels) or not is_valid:
    raise ValueError(
      f"class_weights {','.join(map(str, given))} does not fit the classes "
      f"{messages.join_names(labels) or '(there are none)'}. Give `balanced` "
      "or a positive number for each."
    )
  logging.info("The loss weighs labels by %s.", dict(zip(labels, weights)))
  return tuple(weights)
