"""Runs `python -m bert_tf COMMAND`, the same as `bert-tf COMMAND`."""

from bert_tf.cli import main

if __name__ == "__main__":
  main.run()
