"""Question answering: fine-tuning, prediction and scores on SQuAD."""

import dataclasses
import itertools
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
import tqdm
from absl import logging

from bert_tf import checkpoints, heads, losses, modeling, tokenization
from bert_tf.data import input_pipeline, record_cache
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.squad import decoding as squad_predictions
from bert_tf.tasks.squad import examples as squad_data
from bert_tf.tasks.squad import metrics
from bert_tf.tasks.squad import windows as squad_features
from bert_tf.training import config as training_config
from bert_tf.training import estimator, run_dir
from bert_tf.training import results as results_lib

# Of the order of the training questions, fixed in the original.
_SHUFFLE_SEED = 12345

# Of 2.0's scores: at the best threshold, of questions with answers, of those
# without.
_KINDS = ("best", "HasAns", "NoAns")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadConfig(fine_tuning.FineTuningConfig):
  """What `run_squad.py` is asked for; batches are of windows.

  Attributes:
    windows: how contexts are cut.
    predictions: how answers are chosen.
    train_file: SQuAD JSON, needed to train.
    predict_file: SQuAD JSON, needed to predict.
    cut_padding: whether batches are cut to their longest window, and those of
      training hold windows of like length. The original's softmax is over
      the padding too.
  """

  windows: squad_features.WindowConfig
  predictions: squad_predictions.PredictionConfig
  train_file: str | None = None
  predict_file: str | None = None
  cut_padding: bool = False


@dataclasses.dataclass(frozen=True)
class QuestionSet:
  """Questions with their windows.

  Attributes:
    examples: the questions.
    windower: makes their windows.
    records: of these windows, in this order.
  """

  examples: Sequence[squad_data.SquadExample]
  windower: squad_features.Windower
  records: input_pipeline.RecordFiles


def run(config: SquadConfig) -> dict[str, float | int] | None:
  """Trains, predicts and scores as asked, into output_dir.

  Returns:
    The scores of the predictions, none without answers to score by; None if a
    signal ended the training.

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
  predict_examples = _prediction_examples(config)
  train = config.train
  if config.do_train:
    # Counted in questions though batches are of windows, as the original does.
    train = fine_tuning.train_config(
      config, len(train_examples), "training questions", result_names(False)[0]
    )
  info = run_dir.RunInfo(task="squad", do_lower_case=config.do_lower_case)
  run_dir.prepare_output_dir(
    train.output_dir, info, bert_config, config.vocab_file
  )
  runner = build_estimator(bert_config, train)
  asked = None
  if train.eval_every_steps:
    asked = _question_set(config, tokenizer, predict_examples)

  def evaluate() -> dict[str, float | int]:
    answers = _answers(config, runner, tokenizer, asked)
    predictions = {example.qas_id: answer for example, answer in answers}
    return runner.report(_scores(config, asked.examples, predictions))

  if config.do_train:
    trained = _question_set(config, tokenizer, train_examples, is_training=True)
    logging.info("%d windows.", trained.records.num_records)
    _train(config, runner, trained.records, len(tokenizer.vocab), evaluate)
    if runner.was_interrupted:
      return None
    del train_examples, trained
  if not config.do_predict:
    return {}
  runner.load_for_inference()
  asked = asked or _question_set(config, tokenizer, predict_examples)
  return _predict(config, runner, tokenizer, asked)


def result_names(version_2_with_negative: bool) -> tuple[str, ...]:
  """Returns the names of the scores, the one that decides on the best first."""
  names = ["f1", "exact_match"]
  if version_2_with_negative:
    names += [f"{kind}_{name}" for kind in _KINDS for name in ("f1", "exact")]
  return tuple(names)


def build_estimator(
  bert_config: modeling.BertConfig, train_config: training_config.TrainConfig
) -> estimator.Estimator:
  """Returns the Estimator of a model that finds spans."""
  return estimator.Estimator(
    lambda: heads.SpanModel(bert_config),
    losses.span_loss,
    losses.span_weights,
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
  _check_evaluation(config)
  bert_config.check_lengths(
    config.windows.max_seq_length, config.bert_config_file
  )
  tokenization.validate_case_matches_checkpoint(
    config.do_lower_case, config.train.init_checkpoint
  )
  if not config.do_train:
    _check_can_predict(config.train)


def _check_evaluation(config: SquadConfig) -> None:
  """Raises ValueError if evaluation while training cannot be."""
  if config.train.eval_every_steps and not config.predict_file:
    raise ValueError(
      "--eval_every_steps needs --predict_file, a SQuAD JSON file with answers."
    )
  known = result_names(config.predictions.version_2_with_negative)
  metric = config.train.best_metric
  if metric and metric not in known:
    raise ValueError(
      f"best_metric {metric!r} is no score; use {', '.join(known)}."
    )


def _check_can_predict(train: training_config.TrainConfig) -> None:
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
  """Reads the questions to answer, if that is asked for."""
  if not (config.do_predict or config.train.eval_every_steps):
    return []
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
  if config.train.eval_every_steps:
    if squad_data.correct_answers(examples) is None:
      raise ValueError(
        f"{config.predict_file} has no answers to evaluate by; leave out "
        "--eval_every_steps or give another --predict_file."
      )
  return examples


def _question_set(
  config: SquadConfig,
  tokenizer: tokenization.FullTokenizer,
  examples: Sequence[squad_data.SquadExample],
  is_training: bool = False,
) -> QuestionSet:
  """Writes train.tf_record or eval.tf_record, unless it is there already."""
  name = "train" if is_training else "eval"
  path = os.path.join(config.train.output_dir, f"{name}.tf_record")
  contexts = {example.context: None for example in examples}
  numbers = {context: i for i, context in enumerate(contexts)}
  settings = {
    "contexts": record_cache.content_hash([c.text for c in contexts]),
    "questions": record_cache.content_hash(
      [
        (e.question_text, numbers[e.context], e.start_position, e.end_position)
        + ((e.answers or ())[:1], e.is_impossible)
        for e in examples
      ]
    ),
    "is_training": is_training,
    **record_cache.tokenizer_settings(tokenizer),
    **dataclasses.asdict(config.windows),
  }
  windower = squad_features.Windower(tokenizer, config.windows)
  records = record_cache.write(
    path,
    settings,
    lambda writer: squad_features.write_windows(
      writer, examples, windower, config.windows.max_seq_length, is_training
    ),
  )
  return QuestionSet(examples, windower, records)


def _train(
  config: SquadConfig,
  runner: estimator.Estimator,
  records: input_pipeline.RecordFiles,
  vocab_size: int,
  evaluate_fn: Callable[[], dict[str, float | int]],
) -> None:
  """Trains on records."""
  length = config.windows.max_seq_length

  def training_batches(steps_done: int) -> tf.data.Dataset:
    batches = input_pipeline.training_dataset(
      records,
      squad_features.spec(length, is_training=True),
      runner.config.train_batch_size,
      runner.config.seed,
      steps_done,
      vocab_size,
      group_by_length=config.cut_padding,
    )
    if config.cut_padding:
      batches = input_pipeline.cut_padding(batches, length)
    return batches

  runner.train(training_batches, evaluate_fn)


def _predict(
  config: SquadConfig,
  runner: estimator.Estimator,
  tokenizer: tokenization.FullTokenizer,
  asked: QuestionSet,
) -> dict[str, float | int]:
  """Writes the predictions and, if it can, the scores, which it returns."""
  output_dir = config.train.output_dir
  num_windows = asked.records.num_records
  logging.info("%d questions, %d windows.", len(asked.examples), num_windows)
  predictions = {}
  with squad_predictions.open_predictions(
    output_dir, config.predictions.version_2_with_negative
  ) as writer:
    for example, answer in _answers(config, runner, tokenizer, asked):
      writer.write(example.qas_id, answer)
      # Without the n best, which would add up.
      predictions[example.qas_id] = dataclasses.replace(answer, nbest=())
  results = _scores(config, asked.examples, predictions)
  if not results:
    logging.info("The predict_file has no answers, so there are no scores.")
    return {}
  path = os.path.join(output_dir, "eval_results.txt")
  results_lib.write_results(path, results)
  return results


def _answers(
  config: SquadConfig,
  runner: estimator.Estimator,
  tokenizer: tokenization.FullTokenizer,
  asked: QuestionSet,
) -> Iterator[tuple[squad_data.SquadExample, squad_predictions.Prediction]]:
  """Yields each question with its answer."""
  length = config.windows.max_seq_length
  batches = input_pipeline.finite_dataset(
    asked.records,
    squad_features.spec(length, is_training=False),
    config.predict_batch_size,
    len(tokenizer.vocab),
  )
  if config.cut_padding:
    batches = input_pipeline.cut_padding(batches, length)
  # The logits of one window after the other, [2, F].
  rows = (
    np.pad(row, ((0, 0), (0, length - row.shape[1])), constant_values=-np.inf)
    for output in runner.predict(batches)
    for row in np.stack(output, axis=1)
  )
  predictor = squad_predictions.Predictor(tokenizer, config.predictions)
  bar = tqdm.tqdm(
    zip(asked.examples, asked.windower.windows(asked.examples)),
    total=len(asked.examples),
    desc="answering",
    unit="question",
    disable=not sys.stderr.isatty(),
  )
  for example, windows in bar:
    # [windows, 2, F], or [0, 2, 0] for a context without a word.
    logits = list(itertools.islice(rows, len(windows))) or np.zeros((0, 2, 0))
    starts, ends = np.swapaxes(logits, 0, 1)
    yield example, predictor.predict(example, windows, starts, ends)


def _scores(
  config: SquadConfig,
  examples: Sequence[squad_data.SquadExample],
  predictions: dict[str, squad_predictions.Prediction],
) -> dict[str, float | int]:
  """Returns the scores, none if the questions come without their answers."""
  answers = squad_data.correct_answers(examples)
  if answers is None:
    return {}
  results = metrics.squad_summary(
    answers, {qas_id: p.text for qas_id, p in predictions.items()}
  )
  if answers.is_v2 and config.predictions.version_2_with_negative:
    # Of what would be answered at any threshold, not at the one that was set.
    results |= metrics.best_null_thresholds(
      answers,
      {qas_id: p.span_text for qas_id, p in predictions.items()},
      {qas_id: p.null_odds for qas_id, p in predictions.items()},
    )
  return results
