"""Runs bert-tf squad."""

from bert_tf import task_registry
from bert_tf.cli import fine_tune

if __name__ == "__main__":
  fine_tune.run(task_registry.SQUAD)
