"""Runs bert_tf.cli.serve."""

from bert_tf.cli import serve

if __name__ == "__main__":
  serve.run()
