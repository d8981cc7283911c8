"""Examples from a class with the interface of the original's DataProcessor."""

import contextlib
import importlib
import os
import sys
import traceback
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import bert_tf
from bert_tf.formats import tables
from bert_tf.tasks.classification.examples import InputExample

# Modules of the original release. `bert` is the module that bert-tensorflow on
# PyPI installs.
_ORIGINAL_MODULES = (
  "bert",
  "create_pretraining_data",
  "extract_features",
  "modeling",
  "optimization",
  "run_classifier",
  "run_pretraining",
  "run_squad",
  "tokenization",
)

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

  Args:
    processor: MODULE is a module that Python finds or a file in the current
      folder. CLASS needs no arguments.

  Raises:
    ValueError: if there is no such module or class, if the module cannot be
      imported, or if the class needs arguments.
  """
  name, colon, class_name = processor.partition(":")
  if not (name and colon and class_name):
    raise ValueError(
      f"processor {processor!r} is not of the form MODULE:CLASS, such as "
      "my_module:MyProcessor."
    )
  with _explain_errors(f"processor {processor!r}"):
    module = _import_module(name, processor)
  processor_class = getattr(module, class_name, None)
  if not isinstance(processor_class, type):
    raise ValueError(
      f"processor {processor!r}: {name} has no class {class_name}."
    )
  try:
    return processor_class()
  except TypeError as error:
    raise ValueError(f"processor {processor!r} cannot be made: {error}.") from (
      error
    )


def _import_module(name: str, processor: str) -> types.ModuleType:
  """Imports the module of a processor; ValueError if it does not exist."""
  folder = os.getcwd()
  if folder not in sys.path:
    sys.path.insert(0, folder)
  try:
    return importlib.import_module(name)
  except ModuleNotFoundError as error:
    if error.name not in (name, name.partition(".")[0]):
      raise
    raise ValueError(
      f"processor {processor!r}: module {name} is neither in {folder} nor "
      "installed."
    ) from None


@contextlib.contextmanager
def _explain_errors(processor: str) -> Iterator[None]:
  """Turns an error in the user's code into one line that names the place.

  ValueError, OSError and NotImplementedError pass: their own messages suffice.
  """
  try:
    yield
  except (ValueError, OSError, NotImplementedError):
    raise
  except Exception as error:
    frame = _frame_of_user(error)
    reason = f"{type(error).__name__}: {error}".rstrip(".")
    if not isinstance(error, SyntaxError):  # Its text names the place.
      reason += f" ({os.path.basename(frame.filename)}:{frame.lineno})"
    if _is_of_original(error):
      reason += (
        ". Code of the 2019 release runs after a few edits: see Processors in "
        "docs/coming_from_2019.md"
      )
    raise ValueError(f"{processor}: {reason}.") from error


def _frame_of_user(error: Exception) -> traceback.FrameSummary:
  """Returns the innermost frame of the user's code, or else of any code."""
  frames = traceback.extract_tb(error.__traceback__)
  installed = (sys.prefix, sys.base_prefix, "<", _PACKAGE)
  own = [f for f in frames if not f.filename.startswith(installed)]
  return (own or frames)[-1]


def _is_of_original(error: Exception) -> bool:
  """Returns whether an error is due to code of 2019 or for TensorFlow 1."""
  if isinstance(error, ImportError):
    top_name = (error.name or "").split(".")[0]
    return top_name in (*_ORIGINAL_MODULES, "tensorflow")
  if isinstance(error, AttributeError):
    name = getattr(error.obj, "__name__", "")
    return isinstance(name, str) and name.split(".")[0] == "tensorflow"
  # Modules of the original define flags that this command has, too.
  return type(error).__module__.startswith("absl.flags")


def labels(processor: DataProcessor) -> tuple[str, ...]:
  """Returns a processor's labels; whole numbers become text.

  Raises:
    ValueError: if a label is neither a string nor a whole number, if there are
      fewer than two labels, or if labels are equal.
  """
  values = _call(processor, "get_labels")
  if (
    not isinstance(values, list | tuple)
    or not all(isinstance(label, str | int) for label in values)
    or len(set(map(str, values))) < max(2, len(values))
    or not all(tables.is_unicode(str(label)) for label in values)
  ):
    raise ValueError(
      f"{_name(processor)}.get_labels() returns {values!r}; return a list of "
      "two or more different strings."
    )
  return tuple(map(str, values))


def read_examples(
  processor: DataProcessor, split: str, data_dir: str, labels: Sequence[str]
) -> list[InputExample]:
  """Returns the processor's examples of a split.

  Unknown labels of "test" become None.

  Raises:
    ValueError: if an object is not an example or has an unknown label; names
      it. Also if there are no examples.
  """
  method = f"get_{split}_examples"
  where = f"{_name(processor)}.{method}()"
  examples = []
  for index, value in enumerate(_call_for_list(processor, method, data_dir)):
    try:
      label = value.label
      if isinstance(label, int):
        label = str(label)
      if split == "test" and label not in labels:
        label = None
      # As in the original, an empty second text means a single text.
      text_b = value.text_b or None
      example = InputExample(str(value.guid), value.text_a, text_b, label)
    except AttributeError:
      raise ValueError(
        f"{where} returns {value!r}, number {index}; return objects of "
        "bert_tf.InputExample."
      ) from None
    _check(example, where, labels, needs_label=split != "test")
    examples.append(example)
  if not examples:
    raise ValueError(f"{where} returns no example.")
  return examples


def _check(
  example: InputExample, where: str, labels: Sequence[str], needs_label: bool
) -> None:
  """Raises ValueError for an unknown label or a text that is not a string."""
  texts = (example.text_a, example.text_b or "")
  if not all(isinstance(text, str) for text in texts):
    raise ValueError(f"{where}: the texts of {example.guid} are not strings.")
  if needs_label and example.label not in labels:
    raise ValueError(
      f"{where}: the label {example.label!r} of {example.guid} is not in "
      f"get_labels(): {', '.join(labels)}."
    )


def _call(processor: DataProcessor, method: str, *arguments: str) -> Any:
  """Calls a method; raises ValueError if the processor does not have it."""
  function = getattr(processor, method, None)
  if not function:
    _refuse_missing(processor, method)
  with _calling(processor, method):
    return function(*arguments)


@contextlib.contextmanager
def _calling(processor: DataProcessor, method: str) -> Iterator[None]:
  """Explains the errors of a method, also if it is that of DataProcessor."""
  try:
    with _explain_errors(f"{_name(processor)}.{method}()"):
      yield
  except NotImplementedError:
    _refuse_missing(processor, method)


def _refuse_missing(processor: DataProcessor, method: str) -> NoReturn:
  raise ValueError(
    f"{_name(processor)} has no {method}; write it, as bert_tf.DataProcessor "
    "describes it."
  )


def _call_for_list(
  processor: DataProcessor, method: str, data_dir: str
) -> list[Any]:
  """Calls a method that returns a list or is a generator."""
  values = _call(processor, method, data_dir)
  if isinstance(values, str) or not isinstance(values, Iterable):
    raise ValueError(
      f"{_name(processor)}.{method}() returns {values!r}; return a list of "
      "bert_tf.InputExample."
    )
  with _calling(processor, method):  # A generator runs only now.
    return list(values)


def _name(processor: DataProcessor) -> str:
  return type(processor).__qualname__
