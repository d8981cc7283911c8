"""Fine-tuning: the sequence of steps that all tasks share.

`run` checks the settings, reads the splits that are needed, trains,
evaluates, predicts and writes the results; a base.Task says what is its own.
"""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import model_folder, modeling, settings, tokenization
from bert_tf.data import input_pipeline
from bert_tf.files import paths
from bert_tf.model_folder import label_map, letter_case, run_folder, run_info
from bert_tf.tasks import (
  base,
  findings,
  run_start,
  split_summary,
)
from bert_tf.tasks import config as config_lib
from bert_tf.training import compilation, estimator, results, run_log
from bert_tf.training import config as training_config

# The records of each split, in the folder of the run.
_RECORD_FILES = {
  "train": "train.tf_record",
  "dev": "eval.tf_record",
  "test": "predict.tf_record",
}


def run(
  config: base.Config,
  make_task: Callable[
    [base.Setup[base.Config]], base.Task[base.Example, base.Data]
  ],
) -> base.Results | None:
  """Trains, evaluates and predicts as asked; writes the result files.

  Returns:
    The results of the evaluation and of the predictions, as far as there are
    any; None if a signal ended the training.

  Raises:
    ValueError: if flags, config, vocabulary, data, checkpoint and output_dir do
      not fit one another, before the first step.
  """
  setup = load(config)
  task = make_task(setup)
  if task.label_spec:  # Before others are read.
    setup.folder.check_labels(task.label_spec)
  examples = _read(setup, task)
  sources = {split: task.file(split).path or "" for split in examples}
  return run_on_examples(setup, task, examples, sources)


def load(config: base.Config) -> base.Setup[base.Config]:
  """Opens the run's folder, loads model config and tokenizer, checks settings.

  Raises:
    ValueError: if flags, config and vocabulary do not fit one another.
  """
  if not (config.do_train or config.do_eval or config.do_predict):
    raise ValueError(
      "nothing to do: set `do_train`, `do_eval` or `do_predict`."
    )
  folder = run_folder.RunFolder.open(config.train.output_dir, config.task)
  bert_config = _with_bilstm(config, folder)
  config = dataclasses.replace(config, bilstm=bert_config.bilstm)
  config = settle(config, folder)
  assert config.do_lower_case is not None and config.max_seq_length is not None
  tokenization.validate_case_matches_checkpoint(
    config.do_lower_case, config.train.init_checkpoint
  )
  bert_config.check_lengths(config.max_seq_length, config.bert_config_file)
  freeze_layers = config.train.freeze_layers or 0
  if freeze_layers > bert_config.num_hidden_layers:
    raise ValueError(
      f"freeze_layers {freeze_layers} exceeds num_hidden_layers "
      f"{bert_config.num_hidden_layers} of {config.bert_config_file}; lower it."
    )
  tokenizer = letter_case.tokenizer_of(config.vocab_file, config)
  bert_config.check_vocab(
    len(tokenizer.vocab), config.vocab_file, config.bert_config_file
  )
  return base.Setup(config, bert_config, tokenizer, folder)


def _with_bilstm(
  config: config_lib.FineTuningConfig, folder: run_folder.RunFolder
) -> modeling.BertConfig:
  """Returns the config of the model, with `bilstm` as it is set.

  Left out, that is as in the folder of the run, else as in the file.

  Raises:
    ValueError: if what is set contradicts one of them.
  """
  path = config.bert_config_file
  bert_config = modeling.BertConfig.from_json_file(path)
  # A file of the original's says nothing.
  known: bool | None = bert_config.bilstm or None
  if folder.bert_config:
    path = folder.config_file
    known = folder.bert_config.bilstm
  elif config.train.encoder_only and config.bilstm is not None:
    known = config.bilstm  # That of the file belongs to the head.
  if None not in (config.bilstm, known) and config.bilstm != known:
    raise ValueError(
      f"bilstm {config.bilstm} contradicts {path}, whose model was made "
      f"{'with' if known else 'without'} one; leave `bilstm` out, or choose "
      "another model or `output_dir`."
    )
  value = config.bilstm if known is None else known
  return dataclasses.replace(bert_config, bilstm=bool(value))


def settle(config: base.Config, folder: run_folder.RunFolder) -> base.Config:
  """Fills settings that were left out, from run.json or the vocabulary.

  The case is that of the model in init_checkpoint. If that model is of the
  same task, what else is left out is as in its run; what is given may differ.

  Raises:
    ValueError: for a given value that differs from a saved one, or a case that
      is not the vocabulary's.
  """
  if folder.info:
    return settings.settle(config, folder.info.saved(), folder.run_file)
  start = config.train.init_checkpoint
  model = model_folder.ModelFolder(start) if start else None
  given = model.run if model else None
  where = model.run_file if model else config.vocab_file
  case = letter_case.settle(
    letter_case.of(config), letter_case.of(given), where, config.vocab_file
  )
  saved = dataclasses.asdict(case)
  if given and given.task == config.task:
    saved = {**given.saved(), **saved}
  left_out = {n: v for n, v in saved.items() if getattr(config, n, 0) is None}
  return settings.settle(config, left_out, where)


def run_on_examples(
  setup: base.Setup[base.Config],
  task: base.Task[base.Example, base.Data],
  examples: Mapping[str, Sequence[base.Example]],
  sources: Mapping[str, str],
) -> base.Results | None:
  """Trains, evaluates and predicts on examples in memory; as `run`.

  The config is settled, its files of examples are not read; the task's labels
  are known. Examples are of "train", "dev" and "test", where they are needed;
  `sources` says where those of each come from, for the log.
  """
  config = setup.config
  found = findings.of_data(task, examples, config.num_run_examples)
  summaries = {
    split: split_summary.summarize(task, split, sources[split], e)
    for split, e in examples.items()
  }
  data = {split: task.prepare(split, e) for split, e in examples.items()}
  train = _with_steps(config, task, data.get("train"))
  train = run_start.with_start(setup, task, train)
  with setup.folder.exclusive(config.do_train) as folder:
    info = _run_info(config, task, folder, found)
    folder.prepare(info, setup.bert_config, config.vocab_file, task.label_spec)
    return _run(config, train, task, folder, data, summaries)


def _run(
  config: config_lib.FineTuningConfig,
  train: training_config.FineTuningTrainConfig,
  task: base.Task[base.Example, base.Data],
  folder: run_folder.RunFolder,
  data: dict[str, base.Data],
  summaries: Mapping[str, split_summary.SplitSummary],
) -> base.Results | None:
  """Does the same as `run_on_examples`, of prepared examples that fit."""
  # As it was set, not as it was decided.
  logged = dataclasses.replace(train, encoder_only=config.train.encoder_only)
  run_log.add(folder.path, dataclasses.replace(config, train=logged))
  runner = task.build_estimator(train)
  work = _Work(task, runner, folder.path, data, summaries)
  evaluate = functools.partial(work.evaluate, config.eval_batch_size)
  if config.do_train:
    if train.eval_every_steps:
      work.records("dev")  # Its faults should not show during training.
    work.train(train.train_batch_size, train.seed, lambda: evaluate()[0])
    if work.runner.was_interrupted:
      return None
    data.pop("train")
  if config.do_eval or config.do_predict:
    work.runner.load_for_inference()
  found: base.Results = {}
  if config.do_eval:
    found, rows = evaluate()
    path = os.path.join(folder.path, "eval_results.txt")
    results.write_results(path, found, first=task.first_results)
    task.write_evaluation(folder.path, data["dev"], rows)
    run_folder.write_scores(folder.path, found)
  if config.do_predict:
    predicted = work.predict(config.predict_batch_size)
    found |= predicted
    if task.predicted_split == "dev" and predicted:
      run_folder.write_scores(folder.path, predicted)
  work.runner.check_files()
  return found


def _run_info(
  config: config_lib.FineTuningConfig,
  task: base.Task,
  folder: run_folder.RunFolder,
  found: Mapping[str, Any],
) -> run_info.RunInfo:
  """Returns the content of run.json, with what the run found before."""
  saved = {n: getattr(folder.info, n, None) for n in run_info.FINDINGS}
  return run_info.RunInfo(
    task=task.model.task,
    do_lower_case=config.do_lower_case,
    strip_accents=config.strip_accents,
    max_seq_length=config.max_seq_length,
    lora_rank=config.train.lora_rank or None,
    lora_alpha=config.train.lora_alpha if config.train.lora_rank else None,
    **task.run_info(),
    **{**saved, **found},
  )


class _Work(Generic[base.Example, base.Data]):
  """Trains, evaluates and predicts; writes each split's records when needed."""

  def __init__(
    self,
    task: base.Task[base.Example, base.Data],
    runner: estimator.Estimator,
    output_dir: str,
    data: Mapping[str, base.Data],
    summaries: Mapping[str, split_summary.SplitSummary],
  ) -> None:
    self._task = task
    self._output_dir = output_dir
    self._data = data
    self._summaries = summaries
    self._records: dict[str, input_pipeline.RecordFiles] = {}
    self.runner = runner

  def records(self, split: str) -> input_pipeline.RecordFiles:
    """Returns the records of a split."""
    if split not in self._records:
      path = os.path.join(self._output_dir, _RECORD_FILES[split])
      found = self._task.write_records(split, path, self._data[split])
      logging.info("%s", self._summaries[split].line(found))
      self._records[split] = found
    return self._records[split]

  def train(
    self, batch_size: int, seed: int, evaluate: Callable[[], base.Results]
  ) -> None:
    """Trains on the training split."""
    records, batches = self.records("train"), self._task.batches("train")
    few = compilation.compiles_each_width(self.runner.config.use_xla)
    self.runner.train(
      lambda step: batches.for_training(records, batch_size, seed, step, few),
      evaluate,
    )

  def evaluate(self, batch_size: int) -> tuple[base.Results, list[np.ndarray]]:
    """Returns the results of the dev split and the rows behind them."""
    batches = self._batches("dev", batch_size)
    return self._task.evaluate(self.runner, batches, self._data["dev"])

  def predict(self, batch_size: int) -> base.Results:
    """Writes the predictions; returns their scores, if there are any."""
    split = self._task.predicted_split
    batches = self._batches(split, batch_size)
    rows = itertools.chain.from_iterable(
      map(self._task.rows, self.runner.predict(batches))
    )
    return self._task.write_predictions(
      self._output_dir, self._data[split], rows
    )

  def _batches(self, split: str, batch_size: int) -> tf.data.Dataset:
    """Returns every record of a split once."""
    return self._task.batches(split).once(
      self.records(split),
      batch_size,
      compilation.compiles_each_width(self.runner.config.use_xla),
    )


def _read(
  setup: base.Setup[base.Config], task: base.Task[base.Example, base.Data]
) -> dict[str, list[base.Example]]:
  """Returns the examples of the splits that are needed; sets the labels."""
  config = setup.config
  needed = {
    "train": config.do_train and "do_train",
    "dev": (config.do_eval and "do_eval")
    or (config.do_train and config.train.eval_every_steps > 0)
    and "eval_every_steps",
  }
  if config.do_predict:
    needed[task.predicted_split] = "do_predict"
  found = {split: task.file(split) for split, flag in needed.items() if flag}
  for split, (path, flag) in found.items():
    if not path:
      raise ValueError(
        f"`{needed[split]}` needs a {split} file, but there is none; set "
        f"`{flag}` or leave out `{needed[split]}`."
      )
  missing = [f for f in found.values() if not paths.exists(f.path or "")]
  if missing:
    raise ValueError(
      f"there is no {', no '.join(f.path or '' for f in missing)}; set "
      f"{' and '.join(dict.fromkeys(f'`{f.flag}`' for f in missing))}."
    )
  examples: dict[str, list[base.Example]] = {}
  if task.has_labels and task.label_spec is None:
    train = _read_labelled(task, setup.folder.path)
    if "train" in found:
      examples["train"] = train
  for split, (path, _) in found.items():
    if split not in examples:
      examples[split] = task.read(split, path or "")
  return examples


def _read_labelled(
  task: base.Task[base.Example, base.Data], output_dir: str
) -> list[base.Example]:
  """Reads the training examples and sets the task's labels from them."""
  path = task.file("train").path
  if not path or not paths.exists(path):
    raise ValueError(
      f"the labels are not known: {output_dir} has neither {run_info.RUN_FILE} "
      f"nor {label_map.FILE}, and there is no {path}; copy the "
      f"{label_map.FILE} of the run that trained the model into `output_dir`."
    )
  examples = task.read("train", path)
  task.set_labels(examples, path)
  return examples


def _with_steps(
  config: config_lib.FineTuningConfig,
  task: base.Task[base.Example, base.Data],
  data: base.Data | None,
) -> training_config.FineTuningTrainConfig:
  """Returns the training config with the number of steps set."""
  train, known = config.train, task.result_names()
  if train.best_metric and train.best_metric not in known:
    raise ValueError(
      f"best_metric {train.best_metric!r} is no result; use {', '.join(known)}."
    )
  if not config.do_train:
    return train
  assert data is not None
  num_inputs, batch_size = task.num_inputs(data), train.train_batch_size
  # As the original computed both: rounded down.
  num_train_steps = int(num_inputs / batch_size * config.num_train_epochs)
  if num_train_steps < 1:
    raise ValueError(
      f"num_train_epochs {config.num_train_epochs} of {num_inputs} {task.noun} "
      f"is less than one batch of {batch_size}; raise it."
    )
  num_warmup_steps = int(num_train_steps * config.warmup_proportion)
  counts = f"{num_inputs} {task.noun}"
  logging.info(
    f"{counts}, {num_train_steps} steps of {batch_size}, "
    f"{num_warmup_steps} of them warm-up."
  )
  if num_inputs < batch_size:
    logging.warning(
      f"{counts} are fewer than one batch of {batch_size}: they are repeated, "
      f"and a step is {batch_size / num_inputs:.1f} passes over them."
    )
  return dataclasses.replace(
    train,
    num_train_steps=num_train_steps,
    num_warmup_steps=num_warmup_steps,
    best_metric=train.best_metric or known[0],
  )
