"""Runs bert_tf.cli.run_squad."""

from bert_tf.cli import run_squad

if __name__ == "__main__":
  run_squad.run()
