"""Question answering: fine-tuning, prediction and scores on SQuAD."""

import dataclasses
import itertools
import os
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tqdm
from absl import logging

from bert_tf import heads, losses, modeling, tokenization
from bert_tf.data import input_pipeline, record_cache
from bert_tf.tasks import base, fine_tuning
from bert_tf.tasks import batches as batches_lib
from bert_tf.tasks.squad import config as config_lib
from bert_tf.tasks.squad import decoding, examples, metrics, windows
from bert_tf.tasks.squad.examples import SquadExample
from bert_tf.training import config as training_config
from bert_tf.training import estimator, results

# Shuffles the training questions; fixed in the original.
_SHUFFLE_SEED = 12345


def run(config: config_lib.SquadConfig) -> base.Results | None:
  """Trains, predicts and scores as asked; see fine_tuning.run.

  The scores are of the predictions, and there are none without answers to
  score by.
  """
  return fine_tuning.run(config, _make_task)


def _make_task(
  config: config_lib.SquadConfig,
  bert_config: modeling.BertConfig,
  tokenizer: tokenization.FullTokenizer,
) -> "SquadTask":
  return SquadTask(
    config.train_file,
    config.predict_file,
    bert_config,
    tokenizer,
    window_config(config),
    prediction_config(config),
    pads_dynamically=config.cut_padding,
    needs_answers=config.do_eval or config.train.eval_every_steps > 0,
  )


def window_config(config: config_lib.SquadConfig) -> windows.WindowConfig:
  """Returns how contexts are cut, by a settled config."""
  assert config.max_seq_length is not None and config.doc_stride is not None
  assert config.max_query_length is not None
  return windows.WindowConfig(
    config.max_seq_length, config.doc_stride, config.max_query_length
  )


def prediction_config(
  config: config_lib.SquadConfig,
) -> decoding.PredictionConfig:
  """Returns how answers are chosen."""
  return decoding.PredictionConfig(
    n_best_size=config.n_best_size,
    max_answer_length=config.max_answer_length,
    version_2_with_negative=bool(config.version_2_with_negative),
    null_score_diff_threshold=config.null_score_diff_threshold,
    verbose_logging=config.verbose_logging,
  )


@dataclasses.dataclass(frozen=True)
class Questions:
  """The questions of a file.

  Attributes:
    examples: the questions.
    windower: makes their windows.
  """

  examples: Sequence[SquadExample]
  windower: windows.Windower


class SquadTask(base.Task[SquadExample, Questions]):
  """Finding the answers to questions in texts.

  Args:
    train_file: SQuAD JSON, None if it is not needed.
    predict_file: SQuAD JSON, None if it is not needed.
    bert_config: the model's sizes.
    tokenizer: of the model's vocabulary.
    window_config: how contexts are cut.
    prediction_config: how answers are chosen.
    pads_dynamically: whether batches are padded to their longest window only.
    needs_answers: whether predict_file is evaluated on.
  """

  model = heads.SpanModel
  # Counted in questions though batches are of windows, as the original does.
  noun = "training questions"
  predicted_split = "dev"

  def __init__(
    self,
    train_file: str | None,
    predict_file: str | None,
    bert_config: modeling.BertConfig,
    tokenizer: tokenization.FullTokenizer,
    window_config: windows.WindowConfig,
    prediction_config: decoding.PredictionConfig,
    pads_dynamically: bool,
    needs_answers: bool,
  ) -> None:
    self._files = {"train": train_file, "dev": predict_file}
    self._bert_config = bert_config
    self._tokenizer = tokenizer
    self._windows = window_config
    self._predictions = prediction_config
    self._pads_dynamically = pads_dynamically
    self._needs_answers = needs_answers

  def file(self, split: str) -> base.SplitFile:
    """Returns train_file or predict_file."""
    flag = "train_file" if split == "train" else "predict_file"
    return base.SplitFile(self._files[split], flag)

  def read(self, split: str, path: str) -> list[SquadExample]:
    """Reads the questions of a file, those of training in their order."""
    if split == "train":
      found = examples.read_squad_examples(
        path,
        is_training=True,
        version_2_with_negative=self._predictions.version_2_with_negative,
        verbose_logging=self._predictions.verbose_logging,
      )
      random.Random(_SHUFFLE_SEED).shuffle(found)
      return found
    found = examples.read_squad_examples(
      path,
      is_training=False,
      verbose_logging=self._predictions.verbose_logging,
    )
    num_impossible = sum(bool(e.is_impossible) for e in found)
    if num_impossible and not self._predictions.version_2_with_negative:
      logging.warning(
        "%s: %d of %d questions have no answer, but all will be given one; set "
        "--version_2_with_negative for data of SQuAD 2.0.",
        path,
        num_impossible,
        len(found),
      )
    if self._needs_answers and examples.correct_answers(found) is None:
      raise ValueError(
        f"{path} has no answers to evaluate by; leave out --eval_every_steps "
        "or give another --predict_file."
      )
    return found

  def prepare(self, split: str, examples: Sequence[SquadExample]) -> Questions:
    """Returns the questions with their windower."""
    return Questions(examples, windows.Windower(self._tokenizer, self._windows))

  def num_inputs(self, data: Questions) -> int:
    """Returns the number of questions."""
    return len(data.examples)

  def write_records(
    self, split: str, path: str, data: Questions
  ) -> input_pipeline.RecordFiles:
    """Writes a record for each window."""
    is_training = split == "train"
    contexts = {example.context: None for example in data.examples}
    numbers = {context: i for i, context in enumerate(contexts)}
    settings = {
      "contexts": record_cache.content_hash([c.text for c in contexts]),
      "questions": record_cache.content_hash(
        [
          (
            *(e.question_text, numbers[e.context]),
            *(e.start_position, e.end_position),
            *((e.answers or ())[:1], e.is_impossible),
          )
          for e in data.examples
        ]
      ),
      "is_training": is_training,
      **record_cache.tokenizer_settings(self._tokenizer),
      **dataclasses.asdict(self._windows),
    }
    found = record_cache.write(
      path,
      settings,
      lambda writer: windows.write_windows(
        writer,
        data.examples,
        data.windower,
        self._windows.max_seq_length,
        is_training,
      ),
    )
    logging.info(
      "%d questions, %d windows.", len(data.examples), found.num_records
    )
    return found

  def batches(self, split: str) -> batches_lib.Batches:
    """Returns how the records of a split become batches."""
    length, vocab_size = (
      self._windows.max_seq_length,
      len(self._tokenizer.vocab),
    )
    spec = windows.spec(length, is_training=split == "train")
    if self._pads_dynamically:
      return batches_lib.dynamic_padding(spec, vocab_size, length)
    return batches_lib.Batches(
      spec, vocab_size, lambda batches: batches, group_by_length=False
    )

  def build_estimator(
    self, train: training_config.TrainConfig
  ) -> estimator.Estimator:
    """Returns the Estimator of a model that finds spans."""
    return estimator.Estimator(
      lambda: heads.SpanModel(self._bert_config),
      losses.span_loss,
      losses.span_weights,
      # Answers are scored by their texts, which takes more than the logits.
      lambda unused_outputs, unused_features: {},
      train,
    )

  def result_names(self) -> tuple[str, ...]:
    """Returns the names of the scores."""
    return metrics.result_names(self._predictions.version_2_with_negative)

  def rows(self, outputs: Any) -> base.Rows:
    """Returns the logits of each window, [2, F], -inf where padding was cut."""
    logits = np.stack(outputs, axis=1)  # [B, 2, F]
    room = self._windows.max_seq_length - logits.shape[2]
    padding = ((0, 0), (0, 0), (0, room))
    return np.pad(logits, padding, constant_values=-np.inf)

  def evaluate(
    self,
    runner: estimator.Estimator,
    batches: tf.data.Dataset,
    data: Questions,
  ) -> tuple[base.Results, list[np.ndarray]]:
    """Returns the scores of the answers; the rows are not kept."""
    rows = itertools.chain.from_iterable(
      map(self.rows, runner.predict(batches))
    )
    predictions = {
      example.qas_id: answer for example, answer in self._answers(data, rows)
    }
    return runner.report(self._scores(data, predictions)), []

  def write_predictions(
    self, output_dir: str, data: Questions, rows: base.Rows
  ) -> base.Results:
    """Writes the answers and, if they are known, the scores."""
    predictions = {}
    with decoding.open_predictions(
      output_dir, self._predictions.version_2_with_negative
    ) as writer:
      for example, answer in self._answers(data, rows):
        writer.write(example.qas_id, answer)
        # Without the n best, which would add up.
        predictions[example.qas_id] = dataclasses.replace(answer, nbest=())
    found = self._scores(data, predictions)
    if found:
      path = os.path.join(output_dir, "eval_results.txt")
      results.write_results(path, found)
    else:
      logging.info("The predict_file has no answers, so there are no scores.")
    return found

  def run_info(self) -> dict[str, Any]:
    """Returns the settings of windows and answers for run.json."""
    info = {
      **dataclasses.asdict(self._windows),
      **dataclasses.asdict(self._predictions),
    }
    return {
      name: value
      for name, value in info.items()
      if name not in ("max_seq_length", "verbose_logging")
    }

  def _answers(
    self, data: Questions, rows: base.Rows
  ) -> Iterator[tuple[SquadExample, decoding.Prediction]]:
    """Yields each question with its answer."""
    rows = iter(rows)
    predictor = decoding.Predictor(self._tokenizer, self._predictions)
    bar = tqdm.tqdm(
      zip(data.examples, data.windower.windows(data.examples)),
      total=len(data.examples),
      desc="answering",
      unit="question",
      disable=not sys.stderr.isatty(),
    )
    for example, found in bar:
      # [windows, 2, F], or [0, 2, 0] for a context without a word.
      logits = list(itertools.islice(rows, len(found))) or np.zeros((0, 2, 0))
      starts, ends = np.swapaxes(logits, 0, 1)
      yield example, predictor.predict(example, found, starts, ends)

  def _scores(
    self, data: Questions, predictions: dict[str, decoding.Prediction]
  ) -> base.Results:
    """Returns the scores, none if the questions come without their answers."""
    answers = examples.correct_answers(data.examples)
    if answers is None:
      return {}
    found = metrics.squad_summary(
      answers, {qas_id: p.text for qas_id, p in predictions.items()}
    )
    if answers.is_v2 and self._predictions.version_2_with_negative:
      # Of what would be answered at any threshold, not at the one that was set.
      found |= metrics.best_null_thresholds(
        answers,
        {qas_id: p.span_text for qas_id, p in predictions.items()},
        {qas_id: p.null_odds or 0.0 for qas_id, p in predictions.items()},
      )
    return found
