"""Fine-tuning: the steps that all tasks share.

`run` resolves the settings, reads the splits, trains, evaluates, predicts and
writes the results. A base.Task supplies the rest.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from absl import logging

from bert_tf import task_registry
from bert_tf.checkpoint import checkpoints, run_folder, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.model import heads
from bert_tf.tasks import base, start_model
from bert_tf.tasks import class_weights as class_weights_lib
from bert_tf.tasks import run as run_lib
from bert_tf.tasks import splits as splits_lib
from bert_tf.tasks.rows import Results, Row
from bert_tf.training import config as training_config
from bert_tf.training import estimator, results


def build_model(setup: base.Setup, task: base.Task) -> keras.Model:
  """Returns the model of a task, with random values."""
  num_labels = task.labels.num_outputs if task.labels else 0
  return heads.build_model(task.model, setup.bert_config, num_labels)


def run(
  config: base.Config,
  task_class: type[base.Task] | None = None,
  encode: Callable[..., run_lib.Data] = splits_lib.encode,
  build_model: Callable[..., keras.Model] = build_model,
) -> Results | None:
  """Trains, evaluates and predicts as configured; writes the result files.

  Args:
    config: the settings of the task's command.
    task_class: the class of the task; None for that of its TaskSpec.
    encode: writes the records of a split, as `splits.encode`.
    build_model: makes the model, as `build_model`.

  Returns:
    The results of the evaluation and of the predictions, if any; None if a
    signal ended the training.

  Raises:
    ValueError: before the first step, if flags, config, vocabulary, data,
      checkpoint and output_dir do not fit together.
  """
  setup = load(config)
  config = setup.config
  task_class = task_class or task_registry.load(
    task_registry.TASKS[config.task].task
  )
  task = task_class.create(setup)
  if task.labels:  # Fails early, before the data are read.
    setup.folder.check_labels(task.labels)
  flags = {}
  if config.do_train:
    flags["train"] = "do_train"
    if config.train.eval_every_steps > 0:
      flags["dev"] = "eval_every_steps"
  if config.do_eval:
    flags["dev"] = "do_eval"
  if config.do_predict:
    flags[task.predicted_split] = "do_predict"
  task, splits = splits_lib.read(task, flags, setup.folder.path)
  return run_on_splits(setup, task, splits, encode, build_model)


def load(config: base.Config) -> base.Setup[base.Config]:
  """Opens the run's folder and model, and resolves the settings."""
  if not (config.do_train or config.do_eval or config.do_predict):
    raise ValueError(
      "There is nothing to do. Set `do_train`, `do_eval` or `do_predict`."
    )
  folder = run_folder.RunFolder(config.train.output_dir, config.task)
  model = ModelFolder.open_start(
    config.train.init_checkpoint,
    folder.path,
    bert_config_file=config.bert_config_file,
    vocab_file=config.vocab_file,
  )
  config = model.resolve(config, config.task, folder.info, folder.path)
  train = dataclasses.replace(config.train, init_checkpoint=model.weights)
  config = dataclasses.replace(
    config,
    bert_config_file=model.config_file,
    vocab_file=model.needed_vocab(),
    train=train,
  )
  if (train.freeze_layers or 0) > model.config.num_hidden_layers:
    raise ValueError(
      f"freeze_layers {train.freeze_layers} exceeds num_hidden_layers "
      f"{model.config.num_hidden_layers} of {model.config_file}. Lower it."
    )
  tokenizer = model.make_tokenizer(config)
  start = start_model.StartModel(model, train.lora_adapter)
  return base.Setup(config, model.config, tokenizer, folder, start)


def run_on_splits(
  setup: base.Setup[base.Config],
  task: base.Task,
  splits: Mapping[str, splits_lib.Split],
  encode: Callable[..., run_lib.Data] = splits_lib.encode,
  build_model: Callable[..., keras.Model] = build_model,
) -> Results | None:
  """Trains, evaluates and predicts as `run` does, on rows in memory.

  Does not read the files that the config names. The task's labels must be
  known.
  """
  config = setup.config
  config.train.check_best_metric(task.metrics)
  train = config.train
  if config.do_train:
    train = _with_steps(config, task, splits["train"].rows)
    task = _with_class_weights(setup, task, splits["train"].rows)
  train = _with_start(setup, task, train)
  with (
    setup.folder.exclusive(config.do_train) as folder,
    folder.open_records_dir() as records_dir,
  ):
    _describe(setup, task, train, folder, splits)
    data = {
      name: encode(setup, task, split, records_dir)
      for name, split in splits.items()
    }
    runner = estimator.Estimator(lambda: build_model(setup, task), task, train)
    run = run_lib.Run(task, config, folder, runner, data)
    found = run.execute()
    if config.do_train and found is not None:
      run.log_served_folder()
    return found


def _describe(
  setup: base.Setup[base.Config],
  task: base.Task,
  train: training_config.FineTuningTrainConfig,
  folder: run_folder.RunFolder,
  splits: Mapping[str, splits_lib.Split],
) -> None:
  """Writes run.json, the files beside it, and the command."""
  config, dev = setup.config, splits.get("dev")
  # Counts, examples and scores of earlier commands stay if nothing is new.
  earlier = folder.info or run_info.RunInfo(task=task.name)
  examples: dict[str, Any] = {
    f"num_{name}": len(splits[name].rows)
    for name in ("train", "dev")
    if name in splits
  }
  if dev or not config.num_run_examples:
    shown = dev and splits_lib.choose_examples(
      task, dev, config.num_run_examples
    )
    examples["shown"] = shown or None
  training = run_info.Training(
    class_weights=task.class_weights,
    lora_rank=train.lora_rank or None,
    lora_alpha=train.lora_alpha if train.lora_rank else None,
    **results.arithmetic_fields(train, folder.info, config.do_train),
  )
  info = run_info.RunInfo(
    task=task.name,
    settings=task.settings,
    labels=task.labels,
    training=training,
    examples=dataclasses.replace(earlier.examples, **examples),
    scores=earlier.scores,
  )
  folder.prepare(info, setup.start.model)
  if dev and info.examples.shown and folder.is_writable:
    logging.info(
      f"run.json keeps {len(info.examples.shown)} dev texts as examples for "
      "the server's page; `num_run_examples=0` leaves them out."
    )
  results.add_command(
    folder.path,
    dataclasses.replace(config, train=train),
    splits_lib.fingerprint(splits.get("train")),
  )


def _with_class_weights(
  setup: base.Setup, task: base.TaskT, rows: Sequence[Row]
) -> base.TaskT:
  """Adds the class weights of the setting, else of the resumed run."""
  given = getattr(setup.config, "class_weights", ())
  run = setup.folder.info
  weights = run.training.class_weights if run else None
  if given:
    weights = class_weights_lib.compute(given, task, rows)
  return dataclasses.replace(task, class_weights=weights)


def _with_steps(
  config: base.Config, task: base.Task, rows: Sequence[Row]
) -> training_config.FineTuningTrainConfig:
  """Adds the numbers of steps and best_metric."""
  num_inputs = len(rows)
  if task.counts_windows:
    num_inputs = sum(inputs.num_records for inputs in task.preprocess(rows))
  batch_size = config.train.train_batch_size
  # Steps and warm-up steps are rounded down, as in the original.
  num_train_steps = int(num_inputs / batch_size * config.num_train_epochs)
  if num_train_steps < 1:
    raise ValueError(
      f"num_train_epochs {config.num_train_epochs} of {num_inputs} {task.noun} "
      f"do not fill a batch of {batch_size}. Raise it."
    )
  train = dataclasses.replace(
    config.train,
    num_train_steps=num_train_steps,
    num_warmup_steps=int(num_train_steps * config.warmup_proportion),
    best_metric=config.train.best_metric or task.metrics[0],
  )
  logging.info(
    f"{num_inputs} {task.noun}, {num_train_steps} steps of {batch_size}, "
    f"{train.num_warmup_steps} of them warm-up."
  )
  return train


def _with_start(
  setup: base.Setup,
  task: base.Task,
  train: training_config.FineTuningTrainConfig,
) -> training_config.FineTuningTrainConfig:
  """Sets encoder_only if the head of init_checkpoint is not this run's."""
  do_train, output_dir = setup.config.do_train, setup.folder.path
  head = task.model.heads[0]
  if setup.folder.is_begun:
    # Without a run.json, only the checkpoint tells the task. The check of a
    # damaged one is left to `restore`, which may take an older one.
    path, name = checkpoints.find_latest(output_dir), next(iter(head.shapes))
    with contextlib.suppress(checkpoints.DamagedCheckpointError):
      if path and name not in checkpoints.CheckpointReader(path).shapes:
        raise ValueError(
          f"{output_dir} holds a run of another task: {path} has no {name}. "
          "Choose another `output_dir`."
        )
    return train
  start = setup.start
  if start.path:
    takes_head = start.takes_head(
      task.model, task.labels, do_train, train.encoder_only
    )
    return dataclasses.replace(train, encoder_only=not takes_head)
  if not do_train:
    raise ValueError(
      f"There is no trained model, since {output_dir} has no checkpoint. Set "
      "`do_train`, or set `init_checkpoint` to a trained model."
    )
  logging.warning(
    "`init_checkpoint` is not set, so the whole model starts from RANDOM "
    "values instead of a pre-trained BERT."
  )
  return train
