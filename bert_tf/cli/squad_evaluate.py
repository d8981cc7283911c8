"""Scores answers to SQuAD's questions; prints `key = value` lines.

  squad_evaluate.py PREDICTIONS DATA [--null_odds_file=FILE]

PREDICTIONS is JSON with a text by question id, DATA the SQuAD JSON, 1.1 or
2.0, with answers.
"""

from absl import flags

from bert_tf.cli import command
from bert_tf.tasks.squad import official_evaluation as squad_evaluation

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "null_odds_file",
  None,
  "JSON with the null odds by question id, as run_squad.py writes for 2.0: "
  'adds the best null thresholds. Answers that are "" already stay so: for '
  "all thresholds make the predictions with a high "
  "--null_score_diff_threshold.",
)


def main(predictions_file: str, data_file: str) -> None:
  """Prints the scores in the order of their names."""
  results = squad_evaluation.evaluate_files(
    predictions_file, data_file, FLAGS.null_odds_file
  )
  for name in sorted(results):
    print(f"{name} = {results[name]}")


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  command.run(main, __doc__, ["PREDICTIONS", "DATA"])
