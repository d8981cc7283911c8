"""Runs bert_tf.cli.ablations."""

from bert_tf.cli import ablations

if __name__ == "__main__":
  ablations.run()
