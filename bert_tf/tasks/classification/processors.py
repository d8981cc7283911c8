"""Examples from a class with the interface of the original's DataProcessor."""

import contextlib
import dataclasses
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import bert_tf
from bert_tf.formats import tables
from bert_tf.tasks.classification.examples import InputExample

_PACKAGE = os.path.dirname(bert_tf.__file__)


class DataProcessor:
  """Interface of the original's run_classifier.py for examples and labels.

  A subclass implements `get_labels` and the method of each split it supports.
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
    """Returns the cells of each line of a tab-separated file."""
    cells = tables.csv_cells(input_file, "\t", quotechar, strict=False)
    return [row for _, row in cells]


def load(processor: str) -> DataProcessor:
  """Returns a new processor of a class that is given as MODULE:CLASS.

  MODULE is a module that Python finds or a file in the current folder. CLASS
  needs no arguments.
  """
  name, colon, class_name = processor.partition(":")
  if not (name and colon and class_name):
    raise ValueError(
      f"processor {processor!r} is not of the form MODULE:CLASS, such as "
      "my_module:MyProcessor."
    )
  folder = os.getcwd()
  if folder not in sys.path:
    sys.path.insert(0, folder)
  if not importlib.util.find_spec(name.partition(".")[0]):
    raise ValueError(
      f"processor {processor!r}: there is no module {name} in {folder}."
    )
  with _explained(f"processor {processor!r}"):
    module = importlib.import_module(name)
  processor_class = getattr(module, class_name, None)
  if not isinstance(processor_class, type):
    raise ValueError(
      f"processor {processor!r}: {name} has no class {class_name}."
    )
  with _explained(f"processor {processor!r}"):
    return processor_class()


@contextlib.contextmanager
def _explained(where: str) -> Iterator[None]:
  """Turns an error in the user's code into one line that names the place."""
  try:
    yield
  except (ValueError, OSError):
    raise
  except NotImplementedError:
    raise ValueError(
      f"{where} is missing; write it, as bert_tf.DataProcessor describes it."
    ) from None
  except Exception as error:
    frames = traceback.extract_tb(error.__traceback__)
    installed = (sys.prefix, sys.base_prefix, "<", _PACKAGE)
    own = [f for f in frames if not f.filename.startswith(installed)]
    reason = f"{type(error).__name__}: {error}".rstrip(".")
    if own and not isinstance(error, SyntaxError):  # Its text names the place.
      reason += f" ({os.path.basename(own[-1].filename)}:{own[-1].lineno})"
    raise ValueError(f"{where}: {reason}.") from error


def _call(processor: DataProcessor, name: str, *arguments: str) -> list[Any]:
  """Returns the list that a method of the processor returns or generates."""
  method = getattr(processor, name, None)
  with _explained(f"{type(processor).__qualname__}.{name}()"):
    if method is None:
      raise NotImplementedError
    return list(method(*arguments))


def labels(processor: DataProcessor) -> tuple[str, ...]:
  """Returns a processor's two or more labels; whole numbers become text."""
  values = _call(processor, "get_labels")
  if (
    not all(isinstance(label, str | int) for label in values)
    or len(set(map(str, values))) < max(2, len(values))
    or not all(tables.is_unicode(str(label)) for label in values)
  ):
    raise ValueError(
      f"{type(processor).__qualname__}.get_labels() returns {values!r}; return "
      "a list of two or more different strings."
    )
  return tuple(map(str, values))


def read_examples(
  processor: DataProcessor, split: str, data_dir: str, labels: Sequence[str]
) -> list[InputExample]:
  """Returns the processor's examples of a split; names an object that is none.

  Unknown labels of "test" become None.
  """
  method = f"get_{split}_examples"
  where = f"{type(processor).__qualname__}.{method}()"
  examples = []
  for index, value in enumerate(_call(processor, method, data_dir)):
    try:
      label = value.label
      if isinstance(label, int):
        label = str(label)
      # As in the original, an empty second text means a single text.
      text_b = value.text_b or None
      example = InputExample(str(value.guid), value.text_a, text_b, label)
    except AttributeError:
      raise ValueError(
        f"{where} returns {value!r}, number {index}; return objects of "
        "bert_tf.InputExample."
      ) from None
    texts = (example.text_a, example.text_b or "")
    if not all(isinstance(text, str) for text in texts):
      raise ValueError(f"{where}: the texts of {example.guid} are not strings.")
    if label not in labels:
      if split != "test":
        raise ValueError(
          f"{where}: the label {label!r} of {example.guid} is not in "
          f"get_labels(): {', '.join(labels)}."
        )
      example = dataclasses.replace(example, label=None)
    examples.append(example)
  if not examples:
    raise ValueError(f"{where} returns no example.")
  return examples
