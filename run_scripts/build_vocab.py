"""Runs bert_tf.cli.build_vocab."""

from bert_tf.cli import build_vocab

if __name__ == "__main__":
  build_vocab.run()
