"""Runs bert_tf.cli.inspect_checkpoint."""

from bert_tf.cli import inspect_checkpoint

if __name__ == "__main__":
  inspect_checkpoint.run()
