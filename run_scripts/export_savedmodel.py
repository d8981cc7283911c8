"""Runs bert_tf.cli.export_savedmodel."""

from bert_tf.cli import export_savedmodel

if __name__ == "__main__":
  export_savedmodel.run()
