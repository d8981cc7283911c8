"""Runs bert_tf.cli.convert_checkpoint."""

from bert_tf.cli import convert_checkpoint

if __name__ == "__main__":
  convert_checkpoint.run()
