"""Question answering: fine-tuning, prediction and scores on SQuAD."""

import dataclasses
import itertools
import os
import random
import sys
from collections.abc import Iterator, Sequence

import numpy as np
import tqdm
from absl import logging

from bert_tf import (
  checkpoints,
  estimator,
  heads,
  input_pipeline,
  metrics,
  modeling,
  output_dirs,
  tokenization,
)
from bert_tf.tasks import squad_data, squad_features, squad_predictions

# Of the order of the training questions, fixed in the original.
_SHUFFLE_SEED = 12345


@dataclasses.dataclass(frozen=True)
class SquadConfig:
  """What `run_squad.py` is asked for.

  Attributes:
    bert_config_file: the model's sizes.
    vocab_file: the model's vocabulary.
    train: how to train; its numbers of steps are set from the data.
    windows: how contexts are cut.
    predictions: how answers are chosen.
    do_lower_case: whether the vocabulary is of lower-cased text.
    train_file: SQuAD JSON, needed to train.
    predict_file: SQuAD JSON, needed to predict.
    do_train: whether to train.
    do_predict: whether to predict, after training if both.
    predict_batch_size: windows a batch.
    num_train_epochs: passes over the training questions.
    warmup_proportion: share of the steps that warm up, [0, 1].
  """

  bert_config_file: str
  vocab_file: str
  train: estimator.TrainConfig
  windows: squad_features.WindowConfig
  predictions: squad_predictions.PredictionConfig
  do_lower_case: bool = True
  train_file: str | None = None
  predict_file: str | None = None
  do_train: bool = False
  do_predict: bool = False
  predict_batch_size: int = 8
  num_train_epochs: float = 3.0
  warmup_proportion: float = 0.1


def run(config: SquadConfig) -> None:
  """Trains, predicts and scores as asked, into output_dir.

  Raises:
    ValueError: if flags, config, vocabulary, data or checkpoint do not fit
      one another, before the first step.
  """
  bert_config = modeling.BertConfig.from_json_file(config.bert_config_file)
  _check(config, bert_config)
  tokenizer = tokenization.FullTokenizer(
    config.vocab_file, config.do_lower_case
  )
  bert_config.check_vocab(
    len(tokenizer.vocab), config.vocab_file, config.bert_config_file
  )
  train_examples = _training_examples(config) if config.do_train else []
  # Read now: its faults should not show after hours of training.
  predict_examples = _prediction_examples(config) if config.do_predict else []
  train = _with_steps(config, len(train_examples))
  output_dirs.claim(train.output_dir, bert_config)
  runner = build_estimator(bert_config, train)
  if train_examples:
    steps_done = _train(config, train, runner, tokenizer, train_examples)
    if steps_done < train.num_train_steps:
      return
    train_examples = []
  if predict_examples:
    _predict(config, runner, tokenizer, predict_examples)


def build_estimator(
  bert_config: modeling.BertConfig, train_config: estimator.TrainConfig
) -> estimator.Estimator:
  """Returns the Estimator of a model that finds spans."""
  return estimator.Estimator(
    lambda: heads.SpanModel(bert_config),
    heads.span_loss,
    # Answers are scored by their texts, which takes more than the logits.
    lambda unused_outputs, unused_features: {},
    train_config,
  )


def _check(config: SquadConfig, bert_config: modeling.BertConfig) -> None:
  """Raises ValueError where flags and config do not fit."""
  if not config.do_train and not config.do_predict:
    raise ValueError("nothing to do: set --do_train or --do_predict, or both.")
  if config.do_train and not config.train_file:
    raise ValueError("--do_train needs --train_file, a SQuAD JSON file.")
  if config.do_predict and not config.predict_file:
    raise ValueError("--do_predict needs --predict_file, a SQuAD JSON file.")
  bert_config.check_lengths(
    config.windows.max_seq_length, config.bert_config_file
  )
  tokenization.validate_case_matches_checkpoint(
    config.do_lower_case, config.train.init_checkpoint
  )
  if not config.do_train:
    _check_can_predict(config.train)


def _check_can_predict(train: estimator.TrainConfig) -> None:
  """Raises ValueError if there is no fine-tuned checkpoint."""
  if checkpoints.listed(train.output_dir):
    return
  if not train.init_checkpoint:
    raise ValueError(
      f"there is nothing to predict with: {train.output_dir} has no "
      "checkpoint; set --do_train, or --init_checkpoint to a fine-tuned one."
    )
  reader = checkpoints.CheckpointReader(train.init_checkpoint)
  name = "cls/squad/output_weights"
  if name not in reader.shapes:
    raise ValueError(
      f"{train.init_checkpoint} has no {name}: it was not fine-tuned to answer "
      "questions; set --do_train."
    )


def _training_examples(config: SquadConfig) -> list[squad_data.SquadExample]:
  """Reads the training questions, in the order to train in."""
  examples = squad_data.read_squad_examples(
    config.train_file,
    is_training=True,
    version_2_with_negative=config.predictions.version_2_with_negative,
    verbose_logging=config.predictions.verbose_logging,
  )
  random.Random(_SHUFFLE_SEED).shuffle(examples)
  return examples


def _prediction_examples(config: SquadConfig) -> list[squad_data.SquadExample]:
  """Reads the questions to answer."""
  examples = squad_data.read_squad_examples(
    config.predict_file,
    is_training=False,
    verbose_logging=config.predictions.verbose_logging,
  )
  num_impossible = sum(bool(e.is_impossible) for e in examples)
  if num_impossible and not config.predictions.version_2_with_negative:
    logging.warning(
      "%s: %d of %d questions have no answer, but all will be given one; set "
      "--version_2_with_negative for data of SQuAD 2.0.",
      config.predict_file,
      num_impossible,
      len(examples),
    )
  return examples


def _with_steps(
  config: SquadConfig, num_examples: int
) -> estimator.TrainConfig:
  """Returns how to train, with the steps that the questions make."""
  train = config.train
  if not config.do_train:
    return train
  # Counted in questions though batches are of windows, as the original does.
  num_train_steps = int(
    num_examples / train.train_batch_size * config.num_train_epochs
  )
  if num_train_steps < 1:
    raise ValueError(
      f"{config.num_train_epochs} epochs of {num_examples} questions are less "
      f"than one batch of {train.train_batch_size}; lower --train_batch_size "
      "or raise --num_train_epochs."
    )
  return dataclasses.replace(
    train,
    num_train_steps=num_train_steps,
    num_warmup_steps=int(num_train_steps * config.warmup_proportion),
  )


def _train(
  config: SquadConfig,
  train: estimator.TrainConfig,
  runner: estimator.Estimator,
  tokenizer: tokenization.FullTokenizer,
  examples: Sequence[squad_data.SquadExample],
) -> int:
  """Writes train.tf_record and trains on it; returns the steps done."""
  length = config.windows.max_seq_length
  path = os.path.join(train.output_dir, "train.tf_record")
  num_records = squad_features.write_records(
    path,
    examples,
    squad_features.Windower(tokenizer, config.windows),
    length,
    is_training=True,
  )
  logging.info(
    "%d questions, %d windows, %d steps of %d.",
    len(examples),
    num_records,
    train.num_train_steps,
    train.train_batch_size,
  )
  files = input_pipeline.RecordFiles((path,), num_records)
  return runner.train(
    lambda steps_done: input_pipeline.training_dataset(
      files,
      squad_features.spec(length, is_training=True),
      train.train_batch_size,
      train.seed,
      steps_done,
      len(tokenizer.vocab),
    )
  )


def _predict(
  config: SquadConfig,
  runner: estimator.Estimator,
  tokenizer: tokenization.FullTokenizer,
  examples: Sequence[squad_data.SquadExample],
) -> None:
  """Writes eval.tf_record, the predictions and, if it can, the scores."""
  output_dir = config.train.output_dir
  is_v2 = config.predictions.version_2_with_negative
  length = config.windows.max_seq_length
  path = os.path.join(output_dir, "eval.tf_record")
  windower = squad_features.Windower(tokenizer, config.windows)
  num_records = squad_features.write_records(
    path, examples, windower, length, is_training=False
  )
  logging.info("%d questions, %d windows.", len(examples), num_records)
  batches = input_pipeline.finite_dataset(
    input_pipeline.RecordFiles((path,), num_records),
    squad_features.spec(length, is_training=False),
    config.predict_batch_size,
    len(tokenizer.vocab),
  )
  rows = (row for output in runner.predict(batches) for row in zip(*output))
  predictor = squad_predictions.Predictor(tokenizer, config.predictions)
  predictions = {}
  with squad_predictions.open_predictions(output_dir, is_v2) as writer:
    for example, prediction in _answers(examples, windower, rows, predictor):
      writer.write(example.qas_id, prediction)
      # Without the n best, which would add up.
      predictions[example.qas_id] = dataclasses.replace(prediction, nbest=())
  _score(examples, predictions, is_v2, output_dir)


def _answers(
  examples: Sequence[squad_data.SquadExample],
  windower: squad_features.Windower,
  rows: Iterator[tuple[np.ndarray, np.ndarray]],
  predictor: squad_predictions.Predictor,
) -> Iterator[tuple[squad_data.SquadExample, squad_predictions.Prediction]]:
  """Yields each question with its answer.

  Args:
    examples: questions.
    windower: that made the records.
    rows: the start and the end logits of each window, in their order.
    predictor: chooses.
  """
  bar = tqdm.tqdm(
    zip(examples, windower.windows(examples)),
    total=len(examples),
    desc="answering",
    unit="question",
    disable=not sys.stderr.isatty(),
  )
  for example, windows in bar:
    # [windows, 2, F], or [0, 2, 0] for a context without a word.
    logits = list(itertools.islice(rows, len(windows))) or np.zeros((0, 2, 0))
    starts, ends = np.swapaxes(logits, 0, 1)
    yield example, predictor.predict(example, windows, starts, ends)


def _score(
  examples: Sequence[squad_data.SquadExample],
  predictions: dict[str, squad_predictions.Prediction],
  version_2_with_negative: bool,
  output_dir: str,
) -> None:
  """Writes eval_results.txt if the questions come with their answers."""
  answers = squad_data.correct_answers(examples)
  if answers is None:
    logging.info("The predict_file has no answers, so there are no scores.")
    return
  results = metrics.squad_summary(
    answers, {qas_id: p.text for qas_id, p in predictions.items()}
  )
  if answers.is_v2 and version_2_with_negative:
    # Of what would be answered at any threshold, not at the one that was set.
    results |= metrics.best_null_thresholds(
      answers,
      {qas_id: p.span_text for qas_id, p in predictions.items()},
      {qas_id: p.null_odds for qas_id, p in predictions.items()},
    )
  output_dirs.write_results(
    os.path.join(output_dir, "eval_results.txt"), results
  )
