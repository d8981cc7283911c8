"""Masked-LM and next-sentence pre-training (Devlin et al. 2019, 3.1)."""

import dataclasses
import math
import os
from collections.abc import Mapping

import tensorflow as tf
from absl import logging

from bert_tf import (
  estimator,
  heads,
  input_pipeline,
  modeling,
  output_dirs,
  tokenization,
)
from bert_tf.heads import Sums
from bert_tf.modeling import Tensor

# What an evaluation reports.
_RESULTS = (
  "masked_lm_loss",
  "masked_lm_accuracy",
  "perplexity",
  "next_sentence_loss",
  "next_sentence_accuracy",
  "loss",
)


@dataclasses.dataclass(frozen=True)
class PretrainingConfig:
  """What `run_pretraining.py` is asked for.

  Attributes:
    bert_config_file: the model's sizes.
    input_file: TFRecord files and globs, separated by commas.
    eval_input_file: what is evaluated on; input_file if None.
    vocab_file: checked against the model's vocab_size where it is given.
    max_seq_length: word pieces a record, as it was made.
    max_predictions_per_seq: masked words a record, as it was made.
    do_train: whether to train.
    do_eval: whether to evaluate, after training if both.
    eval_batch_size: records a batch of the evaluation.
    max_eval_steps: batches of the evaluation.
    no_nsp: whether to leave the next-sentence loss out.
    train: how to train.
  """

  bert_config_file: str
  input_file: str
  train: estimator.TrainConfig
  eval_input_file: str | None = None
  vocab_file: str | None = None
  max_seq_length: int = 128
  max_predictions_per_seq: int = 20
  do_train: bool = False
  do_eval: bool = False
  eval_batch_size: int = 8
  max_eval_steps: int = 100
  no_nsp: bool = False


def run(config: PretrainingConfig) -> None:
  """Trains and evaluates as asked; writes `eval_results.txt`.

  Raises:
    ValueError: if flags, config, vocabulary, records or output_dir do not
      fit one another, before the first step.
  """
  bert_config = modeling.BertConfig.from_json_file(config.bert_config_file)
  _check(config, bert_config)
  spec = input_pipeline.pretraining_spec(
    config.max_seq_length, config.max_predictions_per_seq
  )
  vocab_size = bert_config.vocab_size
  train_files = (
    _open(config.input_file, spec, vocab_size) if config.do_train else None
  )
  eval_input = config.eval_input_file or config.input_file
  evaluates_in_between = config.do_train and config.train.eval_every_steps
  eval_files = None
  if config.do_eval or evaluates_in_between:
    eval_files = _open(eval_input, spec, vocab_size)
  output_dirs.claim(config.train.output_dir, bert_config)

  runner = build_estimator(bert_config, config.train, config.no_nsp)

  def evaluate() -> dict[str, float | int]:
    return _evaluate(config, runner, eval_files, spec, vocab_size)

  if train_files:
    train = config.train
    logging.info(
      "%d records, %d steps of %d: %.1f epochs.",
      train_files.num_records,
      train.num_train_steps,
      train.train_batch_size,
      train.num_train_steps * train.train_batch_size / train_files.num_records,
    )

    def training_batches(steps_done: int) -> tf.data.Dataset:
      return input_pipeline.training_dataset(
        train_files,
        spec,
        train.train_batch_size,
        train.seed,
        steps_done,
        vocab_size,
      )

    runner.train(training_batches, evaluate)
    if runner.was_interrupted:
      return
  if config.do_eval:
    path = os.path.join(config.train.output_dir, "eval_results.txt")
    output_dirs.write_results(path, evaluate())


def build_estimator(
  bert_config: modeling.BertConfig,
  train_config: estimator.TrainConfig,
  no_nsp: bool = False,
) -> estimator.Estimator:
  """Returns the Estimator of a pre-training model.

  Args:
    bert_config: the model's sizes.
    train_config: how to train.
    no_nsp: whether the next-sentence loss is left out.
  """

  def loss_fn(
    outputs: heads.PretrainingOutput, features: Mapping[str, Tensor]
  ) -> Sums:
    losses = heads.pretraining_loss(outputs, features)
    if no_nsp:
      del losses["next_sentence_loss"]
    return losses

  return estimator.Estimator(
    lambda: heads.PretrainingModel(bert_config),
    loss_fn,
    heads.pretraining_metrics,
    train_config,
  )


def _check(config: PretrainingConfig, bert_config: modeling.BertConfig) -> None:
  """Raises ValueError where flags, config and vocabulary do not fit."""
  if not config.do_train and not config.do_eval:
    raise ValueError("nothing to do: set --do_train or --do_eval, or both.")
  metric = config.train.best_metric
  if metric and metric not in _RESULTS:
    raise ValueError(
      f"best_metric {metric!r} is no result of pre-training; use "
      f"{', '.join(_RESULTS)}."
    )
  bert_config.check_lengths(config.max_seq_length, config.bert_config_file)
  if config.max_predictions_per_seq > config.max_seq_length:
    raise ValueError(
      f"max_predictions_per_seq {config.max_predictions_per_seq} exceeds "
      f"max_seq_length {config.max_seq_length}; lower the flag."
    )
  if config.vocab_file:
    bert_config.check_vocab(
      len(tokenization.load_vocab(config.vocab_file)),
      config.vocab_file,
      config.bert_config_file,
    )
  if config.do_train:
    train = config.train
    if train.num_warmup_steps >= train.num_train_steps:
      logging.warning(
        "num_warmup_steps %d is not below num_train_steps %d: the learning "
        "rate only rises.",
        train.num_warmup_steps,
        train.num_train_steps,
      )


def _open(
  patterns: str, spec: input_pipeline.Spec, vocab_size: int
) -> input_pipeline.RecordFiles:
  """Finds the records and checks the first of every file."""
  files = input_pipeline.open_records(patterns)
  flags = {
    name: "max_predictions_per_seq"
    if name.startswith("masked_lm")
    else "max_seq_length"
    for name in spec
  }
  input_pipeline.check_first_records(files, spec, flags, vocab_size)
  return files


def _evaluate(
  config: PretrainingConfig,
  runner: estimator.Estimator,
  files: input_pipeline.RecordFiles,
  spec: input_pipeline.Spec,
  vocab_size: int,
) -> dict[str, float | int]:
  """Returns the results of the newest checkpoint; in training, of that."""
  batches = input_pipeline.evaluation_dataset(
    files, spec, config.eval_batch_size, vocab_size
  )
  results = runner.evaluate(batches, config.max_eval_steps)
  # Of the masked words, given all the others.
  results["perplexity"] = math.exp(min(results["masked_lm_loss"], 700.0))
  return results
