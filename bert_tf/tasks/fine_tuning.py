"""Fine-tuning: the steps that all tasks share.

`run` resolves the settings, reads the splits, trains, evaluates, predicts and
writes the results. A base.Task supplies the rest.
"""

import contextlib
import dataclasses
import functools
import itertools
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import checkpoints
from bert_tf.data import input_pipeline
from bert_tf.model_folder import run_folder
from bert_tf.model_folder.folder import ModelFolder
from bert_tf.tasks import base, start_model, step_errors
from bert_tf.tasks import splits as splits_lib
from bert_tf.training import compilation, results
from bert_tf.training import config as training_config
from bert_tf.training import evaluation as evaluation_lib


def run(
  config: base.Config,
  make_task: Callable[[base.Setup[base.Config]], base.Task[base.Example]],
) -> base.Results | None:
  """Trains, evaluates and predicts as configured; writes the result files.

  Returns:
    The results of the evaluation and of the predictions, if any; None if a
    signal ended the training.

  Raises:
    ValueError: before the first step, if flags, config, vocabulary, data,
      checkpoint and output_dir do not fit together.
  """
  setup = load(config)
  config = setup.config
  task = make_task(setup)
  if task.label_spec:  # Fails early, before the data are read.
    setup.folder.check_labels(task.label_spec)
  flags = {}
  if config.do_train:
    flags["train"] = "do_train"
    if config.train.eval_every_steps > 0:
      flags["dev"] = "eval_every_steps"
  if config.do_eval:
    flags["dev"] = "do_eval"
  if config.do_predict:
    flags[task.predicted_split] = "do_predict"
  splits = splits_lib.read(task, flags, setup.folder.path)
  return run_on_splits(splits)


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
  splits: splits_lib.Splits[base.Example],
) -> base.Results | None:
  """Trains, evaluates and predicts as `run` does, on examples in memory.

  Does not read the files that the config names. The task's labels must be
  known.
  """
  task, examples = splits.task, splits.examples
  setup, config = task.setup, task.config
  train = _with_steps(splits)
  started = _with_start(task, train)
  if config.do_train:
    task.set_class_weights(examples["train"])
  with (
    setup.folder.exclusive(config.do_train) as folder,
    folder.open_records_dir() as records_dir,
  ):
    info = task.run_info()
    training = dataclasses.replace(
      info.training,
      lora_rank=train.lora_rank or None,
      lora_alpha=train.lora_alpha if train.lora_rank else None,
      **results.arithmetic_fields(train, folder.info, config.do_train),
    )
    # Counts, examples and scores of earlier commands stay if nothing is new.
    earlier = folder.info or info
    info = dataclasses.replace(
      info,
      training=training,
      examples=dataclasses.replace(
        earlier.examples, **splits.run_fields(config.num_run_examples)
      ),
      scores=earlier.scores,
    )
    folder.prepare(info, setup.start.model)
    if "dev" in examples and info.examples.shown and folder.is_writable:
      logging.info(
        f"run.json keeps {len(info.examples.shown)} dev texts as examples for "
        "the server's page; `num_run_examples=0` leaves them out."
      )
    results.add_command(
      folder.path,
      dataclasses.replace(config, train=train),
      splits.fingerprint("train"),
    )
    runner = task.build_estimator(started)
    records_of = functools.partial(splits.records, folder=records_dir)
    few_widths = compilation.compiles_each_width(train.use_xla)
    vocab_size = setup.bert_config.vocab_size
    explained = functools.partial(
      step_errors.explained, config, max_seq_length=task.max_seq_length
    )

    def batches(split: str, batch_size: int) -> tf.data.Dataset:
      once = input_pipeline.finite_dataset(
        records_of(split), task.spec(split), batch_size, vocab_size
      )
      return task.finish(once, few_widths)

    def evaluate() -> tuple[base.Results, list[np.ndarray]]:
      dev = batches("dev", config.eval_batch_size)
      with explained("eval_batch_size"):
        return task.evaluate(runner, dev, examples["dev"])

    if config.do_train:
      records, spec = records_of("train"), task.spec("train")
      if train.eval_every_steps:
        records_of("dev")  # Reports faults before the training.

      def train_batches(steps_done: int) -> tf.data.Dataset:
        shuffled = input_pipeline.training_dataset(
          records,
          spec,
          train.train_batch_size,
          train.seed,
          steps_done,
          vocab_size,
          config.group_by_length,
        )
        return task.finish(shuffled, few_widths)

      with explained("train_batch_size"):
        runner.train(train_batches, lambda: evaluate()[0])
      if runner.was_interrupted:
        return None
    if config.do_eval or config.do_predict:
      runner.load_for_inference()
    all_results: base.Results = {}
    if config.do_eval:
      evaluation, dev_rows = evaluate()
      all_results |= evaluation
      path = os.path.join(folder.path, "eval_results.txt")
      results.write_results(path, evaluation, first=task.first_results)
      if folder.is_writable:
        task.write_evaluation(folder.path, examples["dev"], dev_rows)
      accuracy = evaluation.get("eval_accuracy", 1.0)
      scores = dict(evaluation)
      if chance := task.near_chance(examples["dev"], accuracy):
        logging.warning(
          f"eval_accuracy {accuracy:.3g} is close to chance: the most frequent "
          f"label alone would give {chance:.3g}."
        )
        scores = {"eval_accuracy": accuracy, "near_chance": chance, **scores}
      run_folder.write_scores(folder.path, scores)
    if config.do_predict:
      split = task.predicted_split
      outputs = runner.predict(batches(split, config.predict_batch_size))
      rows = itertools.chain.from_iterable(
        itertools.starmap(task.rows, outputs)
      )
      with explained("predict_batch_size"):
        scores = task.write_predictions(folder.path, examples[split], rows)
      if split == "dev":  # Without answers, removes earlier scores.
        run_folder.write_scores(folder.path, scores)
      all_results |= scores
    if config.do_train:
      served, best = folder.path, evaluation_lib.find_best_folder(folder.path)
      if best and train.eval_every_steps:
        scores = evaluation_lib.read_best_results(best)
        step, name = scores[checkpoints.GLOBAL_STEP], str(train.best_metric)
        if not str(checkpoints.find_latest(served)).endswith(f"-{step}"):
          logging.info(f"Step {step} was the best: {name} = {scores[name]:.4g}")
          served = best
      if type(task).__module__.startswith("bert_tf."):  # Else it is unknown.
        logging.info(f"To serve this model: bert-tf serve --model={served}")
    return all_results


def _with_steps(
  splits: splits_lib.Splits[base.Example],
) -> training_config.FineTuningTrainConfig:
  """Adds the numbers of steps and best_metric; without do_train, checks it."""
  task = splits.task
  config, train, known = task.config, task.config.train, task.result_names
  train.check_best_metric(known)
  if not config.do_train:
    return train
  num_inputs = task.num_inputs(splits.examples["train"])
  batch_size = train.train_batch_size
  # Steps and warm-up steps are rounded down, as in the original.
  num_train_steps = int(num_inputs / batch_size * config.num_train_epochs)
  if num_train_steps < 1:
    raise ValueError(
      f"num_train_epochs {config.num_train_epochs} of {num_inputs} {task.noun} "
      f"do not fill a batch of {batch_size}. Raise it."
    )
  train = dataclasses.replace(
    train,
    num_train_steps=num_train_steps,
    num_warmup_steps=int(num_train_steps * config.warmup_proportion),
    best_metric=train.best_metric or known[0],
  )
  logging.info(
    f"{num_inputs} {task.noun}, {num_train_steps} steps of {batch_size}, "
    f"{train.num_warmup_steps} of them warm-up."
  )
  return train


def _with_start(
  task: base.Task[base.Example],
  train: training_config.FineTuningTrainConfig,
) -> training_config.FineTuningTrainConfig:
  """Sets encoder_only if the head of init_checkpoint is not this run's."""
  setup, do_train = task.setup, task.config.do_train
  output_dir = setup.folder.path
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
      task.model, task.label_spec, do_train, train.encoder_only
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
