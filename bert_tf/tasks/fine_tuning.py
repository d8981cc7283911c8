"""Fine-tuning: the steps that all tasks share.

`run` resolves the settings, reads the splits, trains, evaluates, predicts and
writes the results. A base.Task supplies the rest.
"""

import collections
import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging

from bert_tf import task_registry
from bert_tf.checkpoint import checkpoints
from bert_tf.checkpoint.run_info import RunInfo, Training
from bert_tf.files import errors, messages
from bert_tf.tasks import base
from bert_tf.tasks.rows import Results, Row, labels_in
from bert_tf.tasks.run import Data, Run
from bert_tf.tasks.setup import Config, Setup
from bert_tf.tasks.splits import Split, choose_examples, encode, read_splits
from bert_tf.training import evaluation, results
from bert_tf.training.config import FineTuningTrainConfig
from bert_tf.training.estimator import Estimator


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
  config = setup.config
  task_class = task_class or task_registry.load(
    task_registry.TASKS[config.task].task
  )
  task = task_class.create(setup)
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
  config = setup.config
  train = config.train
  train.check_best_metric(task.metrics)
  if config.do_train:
    rows = splits["train"].rows
    num_inputs = len(rows)
    if task.counts_windows:
      num_inputs = sum(inputs.num_records for inputs in task.preprocess(rows))
    batch_size, num_epochs = train.train_batch_size, config.num_train_epochs
    # Steps and warm-up steps are rounded down, as in the original.
    num_train_steps = int(num_inputs / batch_size * num_epochs)
    if num_train_steps < 1:
      raise ValueError(
        f"num_train_epochs {num_epochs} of {num_inputs} {task.noun} do not "
        f"fill a batch of {batch_size}. Raise it."
      )
    train = dataclasses.replace(
      train,
      num_train_steps=num_train_steps,
      num_warmup_steps=int(num_train_steps * config.warmup_proportion),
      best_metric=train.best_metric or task.metrics[0],
    )
    logging.info(
      f"{num_inputs} {task.noun}, {num_train_steps} steps of {batch_size}, "
      f"{train.num_warmup_steps} of them warm-up."
    )
    # Those of the setting, else of the resumed run.
    run_file = setup.folder.info
    weights = run_file.training.class_weights if run_file else None
    if given := getattr(config, "class_weights", ()):
      weights = compute_class_weights(given, task, rows)
    task = dataclasses.replace(task, class_weights=weights)
  train = _choose_head(setup, task, train)
  with setup.folder.exclusive(config.do_train) as folder:
    examples: dict[str, Any] = {
      f"num_{name}": len(splits[name].rows)
      for name in ("train", "dev")
      if name in splits
    }
    if "dev" in splits or not config.num_run_examples:
      rows = splits["dev"].rows if "dev" in splits else ()
      shown = choose_examples(task, rows, config.num_run_examples)
      examples["shown"] = shown or None
      if shown and folder.is_writable:
        logging.info(
          f"run.json keeps {len(shown)} dev texts as examples for the server's "
          "page; `num_run_examples=0` leaves them out."
        )
    # Counts, examples and scores of earlier commands stay if nothing is new.
    evaluated = None if config.do_train else setup.head_run
    earlier = folder.info or evaluated or RunInfo(task=task.name)
    info = RunInfo(
      task=task.name,
      settings=task.settings,
      labels=task.labels,
      training=Training(
        class_weights=task.class_weights,
        lora_rank=train.lora_rank or None,
        lora_alpha=train.lora_alpha if train.lora_rank else None,
      ),
      examples=dataclasses.replace(earlier.examples, **examples),
      scores=earlier.scores,
    )
    folder.prepare(info, setup.start)
    results.add_command(
      folder.path,
      dataclasses.replace(config, train=train),
      splits["train"].fingerprint() if "train" in splits else "",
    )
    data = {
      name: encode(setup, task, split, folder.records_dir)
      for name, split in splits.items()
    }
    runner = Estimator(
      lambda: task.build_model(setup.bert_config),
      task,
      train,
      setup.start.reader,
    )
    found = Run(task, config, folder, runner, data).execute()
    is_built_in = type(task).__module__.startswith("bert_tf.")
    if config.do_train and found is not None and is_built_in:
      path = folder.path
      if train.eval_every_steps:
        path = evaluation.find_best_folder(path) or path
      logging.info(f"To serve this model: bert-tf serve --model={path}")
    return found


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


def _choose_head(
  setup: Setup[Config], task: base.Task, train: FineTuningTrainConfig
) -> FineTuningTrainConfig:
  """Sets encoder_only if the head of init_checkpoint is not this run's."""
  if setup.folder.is_begun:
    # Without a run.json, only the checkpoint tells the task. The check of a
    # damaged one is left to `restore`, which may take an older one.
    path = str(checkpoints.find_latest(setup.folder.path))
    with contextlib.suppress(errors.DamagedFileError):
      names = checkpoints.CheckpointReader(path).shapes
      if missing := task.model.missing_variables(names):
        raise ValueError(
          f"{setup.folder.path} holds a run of another task: {path} has no "
          f"{missing[0]}. Choose another `output_dir`."
        )
    return train
  if setup.head_path:
    takes_head = setup.takes_head(task.model, task.labels)
    return dataclasses.replace(train, encoder_only=not takes_head)
  if not setup.config.do_train:
    raise ValueError(
      f"There is no trained model, since {setup.folder.path} has no "
      "checkpoint. Set `do_train`, or set `init_checkpoint` to a trained model."
    )
  logging.warning(
    "`init_checkpoint` is not set, so the whole model starts from RANDOM "
    "values instead of a pre-trained BERT."
  )
  return train
