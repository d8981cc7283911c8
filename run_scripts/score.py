"""Runs bert_tf.cli.score."""

from bert_tf.cli import score

if __name__ == "__main__":
  score.run()
