"""Runs bert_tf.cli.fill_mask."""

from bert_tf.cli import fill_mask

if __name__ == "__main__":
  fill_mask.run()
