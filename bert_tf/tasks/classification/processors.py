"""Examples from a class with the interface of the original's DataProcessor."""

import dataclasses
import importlib
import os
import sys
from collections.abc import Sequence

from bert_tf.files import tables
from bert_tf.tasks.rows import Row


@dataclasses.dataclass(frozen=True)
class InputExample:
  """A text, or a pair of texts, to classify, as DataProcessors return it.

  Args:
    guid: name of the example: its split and its line or index.
    text_a: the text, or the first of a pair.
    text_b: the second of a pair, or None.
    label: the class; None if it is not known.

  Examples:
    >>> bert_tf.InputExample("train-0", "He left.", "He went.", "same").label
    'same'
  """

  guid: str
  text_a: str
  text_b: str | None = None
  label: str | None = None


class DataProcessor:
  """What gives run_classifier.py of 2018 its examples and labels.

  A subclass implements `get_labels` and the method of each split it supports.

  Examples:
    >>> class Reviews(bert_tf.DataProcessor):
    ...   def get_train_examples(self, data_dir):
    ...     rows = self._read_tsv(f"{data_dir}/train.tsv")
    ...     return [
    ...       bert_tf.InputExample(f"train-{i}", text, label=label)
    ...       for i, (text, label) in enumerate(rows)
    ...     ]
    >>> len(Reviews().get_train_examples("reviews"))
    2
  """

  def get_train_examples(self, data_dir: str) -> list[InputExample]:
    """Returns the examples to train on."""
    raise NotImplementedError

  def get_dev_examples(self, data_dir: str) -> list[InputExample]:
    """Returns the examples to evaluate on."""
    raise NotImplementedError

  def get_test_examples(self, data_dir: str) -> list[InputExample]:
    """Returns the examples to predict."""
    raise NotImplementedError

  def get_labels(self) -> list[str]:
    """Returns the labels, in the order of their ids."""
    raise NotImplementedError

  @classmethod
  def _read_tsv(
    cls, input_file: str, quotechar: str | None = None
  ) -> list[list[str]]:
    cells = tables.csv_cells(input_file, "\t", quotechar, strict=False)
    return [row for _, row in cells]


def load_processor(processor: str) -> DataProcessor:
  """Returns a new processor of a class that is given as MODULE:CLASS.

  MODULE is a module that Python finds or a file in the current folder. CLASS
  needs no arguments. Raises ValueError if there is no such class.
  """
  name, _, class_name = processor.partition(":")
  sys.path.insert(0, os.getcwd())
  try:
    return getattr(importlib.import_module(name), class_name)()
  except (ImportError, AttributeError, ValueError) as error:
    raise ValueError(
      f"processor {processor!r} is not of the form MODULE:CLASS, such as "
      f"my_module:MyProcessor: {error}."
    ) from error


def get_labels(processor: DataProcessor) -> tuple[str, ...]:
  """Returns a processor's two or more labels; whole numbers become text."""
  names = tuple(map(str, processor.get_labels()))
  if len(set(names)) < max(2, len(names)):
    raise ValueError(
      f"{type(processor).__qualname__}.get_labels() returns {names!r} instead "
      "of two or more different labels."
    )
  return names


def read_examples(
  processor: DataProcessor, split: str, data_dir: str, labels: Sequence[str]
) -> list[Row]:
  """Returns the processor's examples of a split as rows.

  Rows of "test" have no label, since those of 2018's processors mean nothing.
  Raises ValueError for a label that is unknown, or if there are no examples.
  """
  method = f"get_{split}_examples"
  where = f"{type(processor).__qualname__}.{method}()"
  rows: list[Row] = []
  for example in getattr(processor, method)(data_dir):
    row = {"id": str(example.guid), "text": example.text_a}
    if example.text_b:  # As in the original, "" means a single text.
      row["text_b"] = example.text_b
    if split != "test":
      row["label"] = str(example.label)
      if row["label"] not in labels:
        raise ValueError(
          f"{where}: the label {example.label!r} of {example.guid} is not in "
          f"get_labels(): {', '.join(labels)}."
        )
    rows.append(row)
  if not rows:
    raise ValueError(f"{where} returns no examples.")
  return rows
