"""Runs bert_tf.cli.run_swag."""

from bert_tf.cli import run_swag

if __name__ == "__main__":
  run_swag.run()
