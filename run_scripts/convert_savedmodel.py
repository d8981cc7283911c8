"""Runs bert_tf.cli.convert_savedmodel."""

from bert_tf.cli import convert_savedmodel

if __name__ == "__main__":
  convert_savedmodel.run()
