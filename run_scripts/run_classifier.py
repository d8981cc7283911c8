"""Runs bert-tf classifier."""

from bert_tf.cli import fine_tune
from bert_tf.tasks import registry

if __name__ == "__main__":
  fine_tune.run(registry.CLASSIFICATION)
