"""Runs bert_tf.cli.build_corpus."""

from bert_tf.cli import build_corpus

if __name__ == "__main__":
  build_corpus.run()
