"""Runs bert_tf.cli.benchmark."""

from bert_tf.cli import benchmark

if __name__ == "__main__":
  benchmark.run()
