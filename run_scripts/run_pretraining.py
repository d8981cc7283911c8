"""Runs bert_tf.cli.run_pretraining."""

from bert_tf.cli import run_pretraining

if __name__ == "__main__":
  run_pretraining.run()
