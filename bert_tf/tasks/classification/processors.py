"""Examples from a class with the interface of the original's DataProcessor."""

import contextlib
import dataclasses
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import bert_tf
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


def load(processor: str) -> DataProcessor:
  """Returns a new processor of a class that is given as MODULE:CLASS.

  MODULE is a module that Python finds or a file in the current folder. CLASS
  needs no arguments.
  """
  name, _, class_name = processor.partition(":")
  if not (name and class_name):
    raise ValueError(
      f"processor {processor!r} is not of the form MODULE:CLASS, such as "
      "my_module:MyProcessor."
    )
  sys.path.insert(0, os.getcwd())
  with _explained(f"processor {processor!r}"):
    return getattr(importlib.import_module(name), class_name)()


@contextlib.contextmanager
def _explained(where: str) -> Iterator[None]:
  """Turns an error in the user's code into one line that names the place."""
  try:
    yield
  except (ValueError, OSError):
    raise
  except Exception as error:
    frames = traceback.extract_tb(error.__traceback__)
    package = os.path.dirname(bert_tf.__file__)
    installed = (sys.prefix, sys.base_prefix, "<", package)
    own = [f for f in frames if not f.filename.startswith(installed)]
    reason = f"{type(error).__name__}: {error}".rstrip(".")
    if own and not isinstance(error, SyntaxError):  # Its text names the place.
      reason += f" ({os.path.basename(own[-1].filename)}:{own[-1].lineno})"
    if getattr(error, "name", "") == "tokenization":  # That of 2018.
      reason += "; write `from bert_tf import tokenization`"
    raise ValueError(f"{where}: {reason}.") from error


def _call(processor: DataProcessor, name: str, *arguments: str) -> list[Any]:
  # The list that a method of the processor returns or generates.
  with _explained(f"{type(processor).__qualname__}.{name}()"):
    return list(getattr(processor, name)(*arguments))


def labels(processor: DataProcessor) -> tuple[str, ...]:
  """Returns a processor's two or more labels; whole numbers become text."""
  values = _call(processor, "get_labels")
  names = tuple(map(str, values))
  if not all(isinstance(label, str | int) for label in values) or len(
    set(names)
  ) < max(2, len(names)):
    raise ValueError(
      f"{type(processor).__qualname__}.get_labels() returns {values!r} instead "
      "of a list of two or more different strings."
    )
  return names


def read_rows(
  processor: DataProcessor, split: str, data_dir: str, labels: Sequence[str]
) -> list[Row]:
  """Returns the processor's examples of a split as rows.

  Rows of "test" have no label that is unknown. Raises ValueError that names an
  object that is no example.
  """
  method = f"get_{split}_examples"
  where = f"{type(processor).__qualname__}.{method}()"
  rows: list[Row] = []
  for value in _call(processor, method, data_dir):
    try:
      # As in the original, an empty second text means a single text.
      guid, texts = str(value.guid), (value.text_a, value.text_b or None)
      label = value.label
    except AttributeError:
      raise ValueError(
        f"{where} returns {value!r} instead of a bert_tf.InputExample."
      ) from None
    if not all(isinstance(text, str) for text in (texts[0], texts[1] or "")):
      raise ValueError(f"{where}: the texts of {guid} are not strings.")
    label = str(label) if isinstance(label, int) else label
    if label not in labels:
      if split != "test":
        raise ValueError(
          f"{where}: the label {label!r} of {guid} is not in get_labels(): "
          f"{', '.join(labels)}."
        )
      label = None
    text, text_b = texts
    row = {"id": guid, "text": text, "text_b": text_b, "label": label}
    rows.append({name: x for name, x in row.items() if x is not None})
  if not rows:
    raise ValueError(f"{where} returns no examples.")
  return rows
