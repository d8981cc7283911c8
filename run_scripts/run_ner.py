"""Runs bert_tf.cli.run_ner."""

from bert_tf.cli import run_ner

if __name__ == "__main__":
  run_ner.run()
