"""Runs bert_tf.cli.download."""

from bert_tf.cli import download

if __name__ == "__main__":
  download.run()
