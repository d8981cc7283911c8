"""Scores the SQuAD predictions of a file."""

import json
from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf.tasks.squad import examples as squad_data
from bert_tf.tasks.squad import metrics


def evaluate_files(
  predictions_file: str, data_file: str, null_odds_file: str | None = None
) -> dict[str, float | int]:
  """Returns the scores of `metrics.squad_summary`.

  A question without a prediction counts as wrong, with a warning.

  Args:
    predictions_file: JSON, a text by question id.
    data_file: SQuAD JSON with answers.
    null_odds_file: JSON, a number by question id; brings the figures of
      `metrics.best_null_thresholds` too.

  Raises:
    ValueError: a file is not as described, or they are of different data.
    OSError: a file cannot be read.
  """
  answers = squad_data.correct_answers(
    squad_data.read_squad_examples(data_file, is_training=False)
  )
  if answers is None:
    raise ValueError(f"{data_file} has no answers to score by.")
  predictions = _read_values(predictions_file, str)
  missing = answers.texts.keys() - predictions.keys()
  if len(missing) == len(answers.texts):
    raise ValueError(
      f"{predictions_file} answers no question of {data_file}: no id is in "
      "both; take the data that the predictions were made for."
    )
  if missing:
    logging.warning(
      "%s lacks %d of %d questions, such as %s; they count as wrong.",
      predictions_file,
      len(missing),
      len(answers.texts),
      min(missing),
    )
  results = metrics.squad_summary(answers, predictions)
  if null_odds_file:
    null_odds = _read_values(null_odds_file, (int, float))
    if absent := answers.texts.keys() - null_odds.keys():
      raise ValueError(
        f"{null_odds_file} lacks {len(absent)} questions of {data_file}, "
        f"such as {min(absent)}; a threshold needs all."
      )
    results |= metrics.best_null_thresholds(answers, predictions, null_odds)
  return results


def _read_values(path: str, kind: type | tuple[type, ...]) -> dict[str, Any]:
  """Reads a JSON object whose values are of one kind."""
  try:
    with tf.io.gfile.GFile(path, "rb") as reader:
      values = json.loads(reader.read())
  except ValueError as error:
    raise ValueError(f"{path} is not JSON: {error}.") from None
  expected = "a text" if kind is str else "a number"
  if not isinstance(values, dict):
    raise ValueError(f"{path} is not an object of {expected} by question id.")
  for qas_id, value in values.items():
    if not isinstance(value, kind):
      raise ValueError(f"{path}: {qas_id} is {value!r}, expected {expected}.")
  return values
