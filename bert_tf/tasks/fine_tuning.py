"""Fine-tuning: the steps that all tasks share.

`run` resolves the settings, reads the splits, trains, evaluates, predicts and
writes the results. A base.Task supplies the rest.
"""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from bert_tf import checkpoints, heads, modeling, settings, tokenization
from bert_tf.model_folder import letter_case, run_folder, run_info
from bert_tf.tasks import base, registry, start_model, step_errors
from bert_tf.tasks import class_weights as class_weights_lib
from bert_tf.tasks import config as config_lib
from bert_tf.tasks import splits as splits_lib
from bert_tf.training import config as training_config
from bert_tf.training import estimator, evaluator, results
from bert_tf.training import evaluation as evaluation_lib

# Names of a task's metrics and their names in the original's result files.
_EVAL_NAMES = {
  "example_loss": "eval_loss",
  "token_loss": "eval_loss",
  "accuracy": "eval_accuracy",
}


def build_model(setup: base.Setup, task: base.Task) -> keras.Model:
  """Returns the model of a task, with random values."""
  num_labels = task.labels.num_outputs if task.labels else 0
  return heads.build_model(task.model, setup.bert_config, num_labels)


def run(
  config: base.Config,
  task_class: type[base.Task] | None = None,
  encode: Callable[..., splits_lib.Data] = splits_lib.encode,
  build_model: Callable[..., keras.Model] = build_model,
) -> base.Results | None:
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
  task_class = task_class or registry.load(registry.TASKS[config.task].task)
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
  start = start_model.StartModel(
    config.train.init_checkpoint, config.train.lora_adapter
  )
  bert_config = modeling.BertConfig.from_json_file(config.bert_config_file)
  # Settings that the user does not give are those of the resumed run; else
  # those of the run that trained init_checkpoint, if it had the same task.
  run, where = folder.info, os.path.join(folder.path, run_info.RUN_FILE)
  if not run:
    run, where = start.run, start.path or ""
  case = letter_case.resolve(config, run and run.settings, config.vocab_file)
  config = dataclasses.replace(config, **dataclasses.asdict(case))
  saved = None
  if run and run.task == config.task:
    saved = {**vars(run.training), **vars(run.settings)}
  config = settings.resolve(config, saved, where)
  assert config.do_lower_case is not None and config.max_seq_length is not None
  tokenizer = letter_case.make_tokenizer(config.vocab_file, config)
  tokenization.validate_case_matches_checkpoint(
    config.do_lower_case, config.train.init_checkpoint
  )
  bert_config.check_lengths(config.max_seq_length, config.bert_config_file)
  if (config.train.freeze_layers or 0) > bert_config.num_hidden_layers:
    raise ValueError(
      f"freeze_layers {config.train.freeze_layers} exceeds num_hidden_layers "
      f"{bert_config.num_hidden_layers} of {config.bert_config_file}. Lower it."
    )
  bert_config.check_vocab(
    len(tokenizer.vocab), config.vocab_file, config.bert_config_file
  )
  return base.Setup(config, bert_config, tokenizer, folder, start)


def run_on_splits(
  setup: base.Setup[base.Config],
  task: base.Task,
  splits: Mapping[str, splits_lib.Split],
  encode: Callable[..., splits_lib.Data] = splits_lib.encode,
  build_model: Callable[..., keras.Model] = build_model,
) -> base.Results | None:
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
    driver = _Run(task, config, train, folder, splits, data, runner)
    all_results: base.Results = {}
    if config.do_train and not driver.train():
      return None
    if config.do_eval or config.do_predict:
      runner.load_for_inference()
    if config.do_eval:
      all_results |= driver.evaluate()
    if config.do_predict:
      all_results |= driver.predict()
    if config.do_train:
      driver.log_served_folder()
    return all_results


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
  folder.prepare(info, setup.bert_config, config.vocab_file)
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


@dataclasses.dataclass(frozen=True)
class _Run:
  """The steps of a run whose records are written."""

  task: base.Task
  config: config_lib.FineTuningConfig
  train_config: training_config.FineTuningTrainConfig
  folder: run_folder.RunFolder
  splits: Mapping[str, splits_lib.Split]
  data: Mapping[str, splits_lib.Data]
  runner: estimator.Estimator

  def train(self) -> bool:
    """Trains to the last step; returns False if a signal ended it."""

    def batches(steps_done: int) -> tf.data.Dataset:
      return self.data["train"].training(
        self.train_config, steps_done, self.config.group_by_length
      )

    with self._explained("train_batch_size"):
      self.runner.train(batches, lambda: self._evaluate_rows()[0])
    return not self.runner.was_interrupted

  def evaluate(self) -> base.Results:
    """Evaluates the dev split; writes and returns the results."""
    evaluation, answers = self._evaluate_rows()
    task, folder, rows = self.task, self.folder, self.splits["dev"].rows
    path = os.path.join(folder.path, "eval_results.txt")
    results.write_results(path, evaluation, first=task.first_results)
    if folder.is_writable:
      task.write_evaluation(folder.path, rows, answers)
    accuracy = evaluation.get("eval_accuracy", 1.0)
    scores = dict(evaluation)
    if chance := task.near_chance(rows, accuracy):
      logging.warning(
        f"eval_accuracy {accuracy:.3g} is close to chance: the most frequent "
        f"label alone would give {chance:.3g}."
      )
      scores = {"eval_accuracy": accuracy, "near_chance": chance, **scores}
    run_folder.write_scores(folder.path, scores)
    return evaluation

  def predict(self) -> base.Results:
    """Predicts the split that the task predicts; returns the scores, if any."""
    task, name = self.task, self.task.predicted_split
    rows = self.splits[name].rows
    batches = self.data[name].evaluation(self.config.predict_batch_size)
    with self._explained("predict_batch_size"):
      answers = self._answers(name, self.runner.predict(batches))
      scores = task.write_predictions(self.folder.path, rows, answers)
    if name == "dev":  # Without labels, removes earlier scores.
      run_folder.write_scores(self.folder.path, scores)
    return scores

  def log_served_folder(self) -> None:
    """Logs the command that serves the run's best or newest checkpoint."""
    path = self.folder.path
    best = evaluation_lib.find_best_folder(path)
    if best and self.train_config.eval_every_steps:
      scores = evaluation_lib.read_best_results(best)
      step = scores[checkpoints.GLOBAL_STEP]
      name = str(self.train_config.best_metric)
      if not str(checkpoints.find_latest(path)).endswith(f"-{step}"):
        logging.info(f"Step {step} was the best: {name} = {scores[name]:.4g}")
        path = best
    if type(self.task).__module__.startswith("bert_tf."):  # Else it is unknown.
      logging.info(f"To serve this model: bert-tf serve --model={path}")

  def _evaluate_rows(self) -> tuple[base.Results, list[base.Answer]]:
    task, rows = self.task, self.splits["dev"].rows
    answers: list[base.Answer] = []

    def score(batches: evaluator.Batches) -> base.Results:
      answers.extend(self._answers("dev", batches))
      return task.score(rows, answers)

    batches = self.data["dev"].evaluation(self.config.eval_batch_size)
    with self._explained("eval_batch_size"):
      if not task.has_loss:
        means = self.runner.report(score(self.runner.predict(batches)))
      else:
        means = self.runner.evaluate(batches, score=score)
    return {_EVAL_NAMES.get(n, n): value for n, value in means.items()}, answers

  def _answers(
    self, name: str, batches: evaluator.Batches
  ) -> Iterator[base.Answer]:
    outputs = itertools.chain.from_iterable(
      base.split_outputs(values) for values, _ in batches
    )
    return base.answer_rows(self.task, self.splits[name].rows, outputs)

  def _explained(
    self, batch_setting: str
  ) -> contextlib.AbstractContextManager[None]:
    length = self.task.max_seq_length
    return step_errors.explained(self.config, batch_setting, length)


def _with_class_weights(
  setup: base.Setup, task: base.TaskT, rows: Sequence[base.Row]
) -> base.TaskT:
  """Adds the class weights of the setting, else of the resumed run."""
  given = getattr(setup.config, "class_weights", ())
  run = setup.folder.info
  weights = run.training.class_weights if run else None
  if given:
    weights = class_weights_lib.compute(given, task, rows)
  return dataclasses.replace(task, class_weights=weights)


def _with_steps(
  config: base.Config, task: base.Task, rows: Sequence[base.Row]
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
