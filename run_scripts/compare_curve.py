"""Runs bert_tf.cli.compare_curve."""

from bert_tf.cli import compare_curve

if __name__ == "__main__":
  compare_curve.run()
