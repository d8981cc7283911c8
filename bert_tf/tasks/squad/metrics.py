"""Computes SQuAD's scores by the rules of its official evaluation scripts."""

import collections
import dataclasses
import re
import string
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from bert_tf.files import json_files, paths, shard_files
from bert_tf.tasks.rows import Row
from bert_tf.tasks.squad.examples import read_squad_examples

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def result_names(version_2_with_negative: bool) -> tuple[str, ...]:
  """Returns the names of the scores. The first is the default best_metric."""
  names = ["f1", "exact_match"]
  if version_2_with_negative:
    # At the best threshold, of questions with answers, of questions without.
    for kind in ("best", "HasAns", "NoAns"):
      names += [f"{kind}_f1", f"{kind}_exact"]
  return tuple(names)


@dataclasses.dataclass(frozen=True)
class SquadAnswers:
  """The accepted answers of a SQuAD file."""

  # The accepted answers by question id; none if a question has no answer.
  texts: Mapping[str, Sequence[str]]
  is_v2: bool  # Whether the rules are those of SQuAD 2.0.


def correct_answers(
  rows: Sequence[Row], version_2_with_negative: bool = False
) -> SquadAnswers | None:
  """Returns the accepted answers; None for a file without answers.

  Data with a question that is marked impossible count as SQuAD 2.0. So do data
  with an empty list of answers if `version_2_with_negative` is set. Questions
  without the field are left out, with a warning. The file counts as without
  answers if all lists are empty and no question is marked impossible.
  """
  texts = {r["id"]: r["answers"] for r in rows if r["answers"] is not None}
  is_marked = any(row.get("is_impossible") for row in rows)
  if not is_marked and not any(texts.values()):
    return None
  if unanswered := [row["id"] for row in rows if row["answers"] is None]:
    logging.warning(
      f"{len(unanswered)} of {len(rows)} questions have no `answers`, such as "
      f"{unanswered[0]}. They are not scored."
    )
  is_v2 = is_marked or (version_2_with_negative and [] in texts.values())
  return SquadAnswers(texts, is_v2)


def normalize_answer(text: str) -> str:
  """Returns lower-cased text without punctuation, articles, extra spaces."""
  text = text.lower().translate(_PUNCTUATION)
  return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(prediction: str, answer: str) -> float:
  """Returns 1.0 if both normalized texts are equal, else 0.0."""
  return float(normalize_answer(prediction) == normalize_answer(answer))


def token_f1(prediction: str, answer: str) -> float:
  """Returns the F1 of the words of both texts, in [0, 1]."""
  predicted = normalize_answer(prediction).split()
  expected = normalize_answer(answer).split()
  common = collections.Counter(predicted) & collections.Counter(expected)
  num_common = sum(common.values())
  if not num_common:
    return 0.0
  precision = num_common / len(predicted)
  recall = num_common / len(expected)
  return 2 * precision * recall / (precision + recall)


def squad_scores(
  answers: SquadAnswers, predictions: Mapping[str, str]
) -> dict[str, tuple[float, float]]:
  """Returns (exact match, F1), each in [0, 1], of every question by id.

  A question that has no prediction scores 0.
  """
  scores = {}
  for qas_id, texts in answers.texts.items():
    prediction = predictions.get(qas_id)
    if answers.is_v2:
      # 2.0 drops answers that contain only articles and punctuation.
      texts = [text for text in texts if normalize_answer(text)]
    if prediction is None:
      scores[qas_id] = (0.0, 0.0)
    elif texts:
      scores[qas_id] = (
        max(exact_match(prediction, text) for text in texts),
        max(token_f1(prediction, text) for text in texts),
      )
    else:
      is_right = exact_match(prediction, "")
      scores[qas_id] = (is_right, is_right)
  return scores


def squad_summary(
  answers: SquadAnswers, predictions: Mapping[str, str]
) -> dict[str, float | int]:
  """Returns the mean scores in percent, with 2.0 also by kind of question.

  Returns:
    `exact_match`, `f1`, `total`; for 2.0 also `HasAns_exact`, `HasAns_f1`,
    `HasAns_total` for questions with an answer, and `NoAns_*` for others.
  """
  scores = squad_scores(answers, predictions)
  parts = {"": [*scores.values()], "HasAns_": [], "NoAns_": []}
  for qas_id, score in scores.items() if answers.is_v2 else ():
    prefix = "HasAns_" if answers.texts[qas_id] else "NoAns_"
    parts[prefix].append(score)
  summary: dict[str, float | int] = {}
  for prefix, part in parts.items():
    if part:
      exact, f1 = zip(*part)
      exact_name = f"{prefix}exact" if prefix else "exact_match"
      summary[exact_name] = 100.0 * sum(exact) / len(part)
      summary[f"{prefix}f1"] = 100.0 * sum(f1) / len(part)
      summary[f"{prefix}total"] = len(part)
  return summary


def best_null_thresholds(
  answers: SquadAnswers,
  predictions: Mapping[str, str],
  null_odds: Mapping[str, float],
) -> dict[str, float]:
  """Finds the null thresholds with the highest exact match and F1.

  Args:
    answers: the accepted answers.
    predictions: texts by question id, preferably none of them "": a threshold
      cannot change "" to a text.
    null_odds: the score of "" minus the score of the text, by question id.

  Returns:
    `best_exact` and `best_f1` in percent; `best_exact_thresh` and
    `best_f1_thresh`, the null odds above which the answer is "".
  """
  ids = sorted(answers.texts, key=lambda qas_id: null_odds[qas_id])
  odds = np.array([null_odds[qas_id] for qas_id in ids], np.float64)
  # A threshold cannot separate questions with equal odds.
  is_reachable = np.concatenate([[True], odds[1:] != odds[:-1], [True]])
  num_unanswerable = sum(not texts for texts in answers.texts.values())
  scores = squad_scores(answers, predictions)
  best = {}
  for i, name in enumerate(("best_exact", "best_f1")):
    # The change of the total if a question is answered with its text.
    gains = [
      scores[qas_id][i]
      if answers.texts[qas_id]
      else -float(bool(predictions.get(qas_id)))
      for qas_id in ids
    ]
    # Totals for text answers to no question, the first, the first two, ...
    totals = num_unanswerable + np.concatenate([[0.0], np.cumsum(gains)])
    index = int(np.argmax(np.where(is_reachable, totals, -np.inf)))
    best[name] = 100.0 * float(totals[index]) / len(ids)
    threshold = odds[index - 1] if index else odds[0] - 1.0
    best[f"{name}_thresh"] = float(threshold)
  return best


@dataclasses.dataclass(frozen=True)
class _Candidate:
  text: str
  probability: float = 1.0


def read_predictions(files: str) -> dict[str, str]:
  """Returns the answers in predictions, by question id.

  Args:
    files: predictions.json, or nbest_predictions.json of several models: paths
      and globs, separated by commas. The answer to a question is then the text
      with the highest mean probability, which is 0 where a file lacks it. Of
      equal ones, the first counts.

  Raises:
    ValueError: if a file has another format.
  """
  patterns = [files] if paths.exists(files) else files.split(",")
  totals: dict[str, dict[str, float]] = {}
  for path in [f for p in patterns for f in shard_files.expand(p)]:
    answers = json_files.read(path, dict[str, str | list[_Candidate]])
    for qas_id, nbest in answers.items():
      texts = totals.setdefault(qas_id, {})
      for each in [_Candidate(nbest)] if isinstance(nbest, str) else nbest:
        texts[each.text] = texts.get(each.text, 0.0) + each.probability
  # The sums have the order of the means.
  return {
    qas_id: max(texts, key=texts.__getitem__)
    for qas_id, texts in totals.items()
    if texts
  }


def evaluate_files(
  predictions_file: str, data_file: str, null_odds_file: str | None = None
) -> dict[str, float | int]:
  """Returns the scores of `squad_summary` for files of `read_predictions`.

  A question without a prediction counts as wrong, with a warning. Null odds, by
  question id, add `best_null_thresholds`.

  Raises:
    ValueError: if a file has another format, or if they do not belong together.
  """
  # Only predictions of SQuAD 2.0 come with null odds.
  answers = correct_answers(
    read_squad_examples(data_file, is_training=False),
    version_2_with_negative=null_odds_file is not None,
  )
  if answers is None:
    raise ValueError(f"{data_file} has no answers to score against.")
  predictions = read_predictions(predictions_file)
  missing = answers.texts.keys() - predictions.keys()
  if len(missing) == len(answers.texts):
    raise ValueError(f"{predictions_file} answers no question of {data_file}.")
  if missing:
    logging.warning(
      f"{predictions_file} lacks {len(missing)} of {len(answers.texts)} "
      f"questions, such as {min(missing)}. They count as wrong."
    )
  results = squad_summary(answers, predictions)
  if null_odds_file:
    null_odds = json_files.read(null_odds_file, dict[str, float])
    if absent := answers.texts.keys() - null_odds.keys():
      raise ValueError(
        f"{null_odds_file} lacks {len(absent)} questions of {data_file}, "
        f"such as {min(absent)}."
      )
    results |= best_null_thresholds(answers, predictions, null_odds)
  return results
