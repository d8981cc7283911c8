"""Runs bert_tf.cli.extend_vocab."""

from bert_tf.cli import extend_vocab

if __name__ == "__main__":
  extend_vocab.run()
