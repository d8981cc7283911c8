"""Runs bert_tf.cli.extract_features."""

from bert_tf.cli import extract_features

if __name__ == "__main__":
  extract_features.run()
