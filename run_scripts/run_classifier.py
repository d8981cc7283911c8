"""Runs bert_tf.cli.run_classifier."""

from bert_tf.cli import run_classifier

if __name__ == "__main__":
  run_classifier.run()
