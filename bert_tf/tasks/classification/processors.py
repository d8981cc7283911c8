"""Examples from a class with the interface of the original's DataProcessor."""

import dataclasses
import importlib
import os
import sys

from bert_tf.files import tables


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
    raise self._missing("get_train_examples")

  def get_dev_examples(self, data_dir: str) -> list[InputExample]:
    """Returns the examples to evaluate on."""
    raise self._missing("get_dev_examples")

  def get_test_examples(self, data_dir: str) -> list[InputExample]:
    """Returns the examples to predict."""
    raise self._missing("get_test_examples")

  def get_labels(self) -> list[str]:
    """Returns the labels, in the order of their ids."""
    raise self._missing("get_labels")

  def _missing(self, name: str) -> ValueError:
    return ValueError(
      f"{type(self).__name__} has no {name}, which this step needs."
    )

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
      f"cannot import processor {processor!r}, whose form is MODULE:CLASS: "
      f"{error}."
    ) from error
