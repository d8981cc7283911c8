"""Scores predicted answers to the questions of SQuAD.

  bert-tf squad-evaluate PREDICTIONS DATA [--null_odds_file=FILE]

PREDICTIONS is a JSON object with the answer to each question id. For an
ensemble, give the nbest_predictions.json of each run, comma-separated or as a
glob in quotation marks; the answer with the highest mean probability counts.
DATA is a file of SQuAD 1.1 or 2.0 with the right answers.
"""

import dataclasses

from bert_tf import settings
from bert_tf.cli import command


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
  """Optional input of the evaluation."""

  null_odds_file: str | None = settings.setting(
    None,
    "The null odds by question id, as bert-tf squad writes them for SQuAD 2.0. "
    "With them, the best thresholds are printed as well.",
  )


@command.of(EvaluationConfig, arguments="PREDICTIONS DATA")
def run(
  config: EvaluationConfig, predictions_file: str, data_file: str
) -> None:
  """Prints the scores, sorted by name."""
  from bert_tf.tasks.squad import metrics

  results = metrics.evaluate_files(
    predictions_file, data_file, config.null_odds_file
  )
  for name in sorted(results):
    print(f"{name} = {results[name]}")
