"""Tasks of runs that read no files, and the records of rows in memory."""

import dataclasses
import types

import tensorflow as tf

from bert_tf import modeling, task_registry
from bert_tf.checkpoint import run_info
from bert_tf.tasks import base, splits
from bert_tf.tasks.setup import Setup
from bert_tf.training import config as training_config


class Texts(base.Task):
  """A task of texts with labels, without a model."""

  name = "classification"
  preprocess = postprocess = None


def make(
  config_class, tokenizer, max_seq_length, labels=None, train=(), **settings
):
  """Returns the task of a run without a folder; `labels` are their names."""
  config = config_class(
    bert_config_file="",
    vocab_file="",
    max_seq_length=max_seq_length,
    train=training_config.FineTuningTrainConfig(
      output_dir="", encoder_only=True, **dict(train)
    ),
    **settings,
  )
  folder = types.SimpleNamespace(labels=None)
  start = types.SimpleNamespace(make_tokenizer=lambda _: tokenizer)
  setup = Setup(config, folder, start)
  task = task_registry.load(task_registry.TASKS[config.task].task).create(setup)
  return with_labels(task, labels) if labels else task


def with_labels(task, labels):
  """Returns the task with labels of these names, in this order."""
  spec = run_info.LabelSpec(*task.spec.label_defaults, tuple(labels))
  return dataclasses.replace(task, labels=spec)


def encode(task, rows, folder, split="dev"):
  """Writes the records of rows to a folder; returns their Data."""
  config = modeling.BertConfig(len(task.tokenizer.vocab))
  rows = splits.Split(split, rows, "memory")
  return splits.encode(task, rows, str(folder), config)


def read(path, spec):
  """Yields the features of each record of a file, by name."""
  for record in tf.data.TFRecordDataset(str(path)):
    yield tf.io.parse_single_example(record, spec)
