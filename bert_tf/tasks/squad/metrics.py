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


def has_answers(rows: Sequence[Row]) -> bool:
  """Returns whether questions can be scored.

  They cannot, as in a test set, if no question has an answer or is marked
  impossible.
  """
  return any(row["answers"] or row.get("is_impossible") for row in rows)


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


def compute_scores(
  rows: Sequence[Row],
  predictions: Mapping[str, str],
  version_2_with_negative: bool = False,
  null_odds: Mapping[str, float] | None = None,
  spans: Mapping[str, str] | None = None,
) -> dict[str, float | int]:
  """Returns the mean scores of predictions in percent.

  Data with a question that is marked impossible count as SQuAD 2.0. So do data
  with an empty list of answers if `version_2_with_negative` is set. Questions
  with no list at all are not scored, with a warning. A question without a
  prediction scores 0.

  Args:
    rows: the questions and their accepted answers.
    predictions: the texts of the answers, by question id; "" for none.
    version_2_with_negative: whether an empty list is a right answer.
    null_odds: the score of "" minus that of the text in `spans`, by question
      id.
    spans: the best texts besides "", by question id; by default the
      predictions.

  Returns:
    {} without answers; see `has_answers`. Otherwise `exact_match`, `f1`,
    `total`; for 2.0 also `HasAns_exact`, `HasAns_f1`, `HasAns_total` for
    questions with an answer, and `NoAns_*` for others. With null_odds, also
    `best_exact` and `best_f1` at the best thresholds, which are
    `best_exact_thresh` and `best_f1_thresh`: the odds above which the answer
    is "".
  """
  if not has_answers(rows):
    return {}
  texts = {r["id"]: r["answers"] for r in rows if r["answers"] is not None}
  if unanswered := [row["id"] for row in rows if row["answers"] is None]:
    logging.warning(
      f"{len(unanswered)} of {len(rows)} questions have no `answers`, such as "
      f"{unanswered[0]}. They are not scored."
    )
  is_v2 = any(row.get("is_impossible") for row in rows)
  is_v2 = is_v2 or (version_2_with_negative and [] in texts.values())
  scores = {
    qas_id: _score(predictions.get(qas_id), accepted, is_v2)
    for qas_id, accepted in texts.items()
  }
  groups = {"": [*scores.values()]}
  if is_v2:
    groups["HasAns_"] = [scores[i] for i, accepted in texts.items() if accepted]
    groups["NoAns_"] = [scores[i] for i in texts if not texts[i]]
  results: dict[str, float | int] = {}
  for prefix, group in groups.items():
    if group:
      exact, f1 = zip(*group)
      exact_name = f"{prefix}exact" if prefix else "exact_match"
      results[exact_name] = 100.0 * sum(exact) / len(group)
      results[f"{prefix}f1"] = 100.0 * sum(f1) / len(group)
      results[f"{prefix}total"] = len(group)
  if null_odds:
    spans = predictions if spans is None else spans
    # The change of both totals if a question is answered with its text.
    gains = {
      qas_id: _score(spans.get(qas_id), accepted, is_v2)
      if accepted
      else (-float(bool(spans.get(qas_id))),) * 2
      for qas_id, accepted in texts.items()
    }
    num_unanswerable = sum(not accepted for accepted in texts.values())
    results |= _best_null_thresholds(gains, null_odds, num_unanswerable)
  return results


def _score(
  prediction: str | None, texts: Sequence[str], is_v2: bool
) -> tuple[float, float]:
  """Returns the exact match and the F1 of a question, each in [0, 1]."""
  if prediction is None:
    return 0.0, 0.0
  if is_v2:
    # 2.0 drops answers that contain only articles and punctuation.
    texts = [text for text in texts if normalize_answer(text)]
  exact = max(exact_match(prediction, text) for text in texts or [""])
  f1 = max((token_f1(prediction, text) for text in texts), default=exact)
  return exact, f1


def _best_null_thresholds(
  gains: Mapping[str, tuple[float, float]],
  null_odds: Mapping[str, float],
  num_unanswerable: int,
) -> dict[str, float]:
  ids = sorted(gains, key=lambda qas_id: null_odds[qas_id])
  odds = np.array([null_odds[qas_id] for qas_id in ids], np.float64)
  # A threshold cannot separate questions with equal odds.
  is_reachable = np.concatenate([[True], odds[1:] != odds[:-1], [True]])
  best = {}
  for i, name in enumerate(("best_exact", "best_f1")):
    # Totals for text answers to no question, the first, the first two, ...
    sums = np.cumsum([0.0, *(gains[qas_id][i] for qas_id in ids)])
    totals = num_unanswerable + sums
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
  """Returns `compute_scores` of a file of `read_predictions`.

  A question without a prediction counts as wrong, with a warning.

  Raises:
    ValueError: if a file has another format, or if they do not belong together.
  """
  rows = read_squad_examples(data_file, is_training=False)
  if not has_answers(rows):
    raise ValueError(f"{data_file} has no answers to score against.")
  ids = {row["id"] for row in rows if row["answers"] is not None}
  predictions = read_predictions(predictions_file)
  missing = ids - predictions.keys()
  if missing == ids:
    raise ValueError(f"{predictions_file} answers no question of {data_file}.")
  if missing:
    logging.warning(
      f"{predictions_file} lacks {len(missing)} of {len(ids)} questions, such "
      f"as {min(missing)}. They count as wrong."
    )
  null_odds = None
  if null_odds_file:
    null_odds = json_files.read(null_odds_file, dict[str, float])
    if absent := ids - null_odds.keys():
      raise ValueError(
        f"{null_odds_file} lacks {len(absent)} questions of {data_file}, "
        f"such as {min(absent)}."
      )
  # Only predictions of SQuAD 2.0 come with null odds.
  return compute_scores(rows, predictions, null_odds is not None, null_odds)
