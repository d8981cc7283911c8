"""Runs bert_tf.cli.squad_evaluate."""

from bert_tf.cli import squad_evaluate

if __name__ == "__main__":
  squad_evaluate.run()
