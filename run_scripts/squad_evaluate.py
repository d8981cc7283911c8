"""Scores a predictions.json on SQuAD data; prints `key = value` lines."""

import common_flags
from absl import flags

from bert_tf.tasks import squad_evaluation

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "predictions_file", None, "JSON with a text by question id."
)
flags.DEFINE_string("data_file", None, "SQuAD JSON, 1.1 or 2.0, with answers.")
flags.DEFINE_string(
  "null_odds_file",
  None,
  "JSON with the null odds by question id, as run_squad.py writes for 2.0: "
  'adds the best null thresholds. Answers that are "" already stay so: for '
  "all thresholds make the predictions with a high "
  "--null_score_diff_threshold.",
)


def main() -> None:
  """Prints the scores in the order of their names."""
  results = squad_evaluation.evaluate_files(
    FLAGS.predictions_file, FLAGS.data_file, FLAGS.null_odds_file
  )
  for name in sorted(results):
    print(f"{name} = {results[name]}")


if __name__ == "__main__":
  flags.mark_flags_as_required(["predictions_file", "data_file"])
  common_flags.run(main)
