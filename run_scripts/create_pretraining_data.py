"""Runs bert_tf.cli.create_pretraining_data."""

from bert_tf.cli import create_pretraining_data

if __name__ == "__main__":
  create_pretraining_data.run()
