"""Examples from a class with the interface of the original's DataProcessor."""

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import bert_tf
from bert_tf.formats import tables
from bert_tf.tasks.classification.examples import InputExample

# Modules of the original release, and its package on PyPI.
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
  """A task's examples and labels, as the original's run_classifier.py asks.

  A subclass has `get_labels` and a method for each split that is used.
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
    """Returns the cells of each line of a file with tabs between them."""
    cells = tables.csv_cells(input_file, "\t", quotechar, strict=False)
    return [row for _, row in cells]


def load(processor: str) -> DataProcessor:
  """Returns a new processor of a class that is given as MODULE:CLASS.

  Args:
    processor: the module is one that Python finds, or a file of the current
      folder; the class can be made without arguments.

  Raises:
    ValueError: if there is no such module or class, or it needs arguments.
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
  with _explain_errors(f"processor {processor!r}"):
    try:
      module = importlib.import_module(name)
    except ModuleNotFoundError as error:
      if error.name not in (name, name.partition(".")[0]):
        raise
      raise ValueError(
        f"processor {processor!r}: there is no module {name}, neither in "
        f"{folder} nor among those installed."
      ) from None
  found = getattr(module, class_name, None)
  if not isinstance(found, type):
    raise ValueError(f"processor {processor!r}: {name} has no such class.")
  try:
    return found()
  except TypeError as error:
    raise ValueError(f"processor {processor!r} cannot be made: {error}.") from (
      error
    )


@contextlib.contextmanager
def _explain_errors(processor: str) -> Iterator[None]:
  """Turns an error in the user's code into one line that names the place.

  Errors of values and files pass, since they name what is wrong themselves.
  """
  try:
    yield
  except (ValueError, OSError, NotImplementedError):
    raise
  except Exception as error:
    frame = _frame_of_user(error)
    reason = f"{type(error).__name__}: {error}".rstrip(".")
    if not isinstance(error, SyntaxError):  # It names its place itself.
      reason += f" ({os.path.basename(frame.filename)}:{frame.lineno})"
    if _is_of_original(error):
      reason += (
        ". Code of the 2019 release runs after a few edits: see Processors in "
        "docs/coming_from_2019.md"
      )
    raise ValueError(f"{processor}: {reason}.") from error


def _frame_of_user(error: Exception) -> traceback.FrameSummary:
  """Returns the innermost frame that is not in an installed package."""
  frames = traceback.extract_tb(error.__traceback__)
  installed = (sys.prefix, sys.base_prefix, "<", _PACKAGE)
  own = [f for f in frames if not f.filename.startswith(installed)]
  return (own or frames)[-1]


def _is_of_original(error: Exception) -> bool:
  """Returns whether code needs modules of 2019 or TensorFlow 1."""
  if isinstance(error, ImportError):
    top_name = (error.name or "").split(".")[0]
    return top_name in (*_ORIGINAL_MODULES, "tensorflow")
  if isinstance(error, AttributeError):
    name = getattr(error.obj, "__name__", "")
    return isinstance(name, str) and name.split(".")[0] == "tensorflow"
  # Its flags have the names of the command's.
  return type(error).__module__.startswith("absl.flags")


def labels(processor: DataProcessor) -> tuple[str, ...]:
  """Returns a processor's labels; whole numbers become text.

  Raises:
    ValueError: if they are neither strings nor whole numbers, fewer than two,
      or one is there twice.
  """
  found = _call(processor, "get_labels")
  if (
    not isinstance(found, list | tuple)
    or not all(isinstance(label, str | int) for label in found)
    or len(set(map(str, found))) < max(2, len(found))
    or not all(tables.is_unicode(str(label)) for label in found)
  ):
    raise ValueError(
      f"{_name(processor)}.get_labels() returns {found!r}; return a list of "
      "two or more different strings."
    )
  return tuple(map(str, found))


def read_examples(
  processor: DataProcessor, split: str, data_dir: str, labels: Sequence[str]
) -> list[InputExample]:
  """Returns the processor's examples of a split; labels of "test" do not count.

  Raises:
    ValueError: naming the example that is none, or whose label is none of the
      task's; or if there are no examples.
  """
  method = f"get_{split}_examples"
  where = f"{_name(processor)}.{method}()"
  examples = []
  for index, found in enumerate(_call(processor, method, data_dir)):
    try:
      label = found.label
      if isinstance(label, int):
        label = str(label)
      if split == "test" and label not in labels:
        label = None
      # An empty second text is none, as in the original.
      text_b = found.text_b or None
      example = InputExample(str(found.guid), found.text_a, text_b, label)
    except AttributeError:
      raise ValueError(
        f"{where} returns {found!r}, number {index}; return objects of "
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
  """Raises ValueError if a text is no text, or the label none of these."""
  texts = (example.text_a, example.text_b or "")
  if not all(isinstance(text, str) for text in texts):
    raise ValueError(f"{where}: the texts of {example.guid} are no strings.")
  if needs_label and example.label not in labels:
    raise ValueError(
      f"{where}: the label {example.label!r} of {example.guid} is none of "
      f"get_labels(): {', '.join(labels)}."
    )


def _call(processor: DataProcessor, method: str, *arguments: str) -> Any:
  """Calls a method; raises ValueError if the processor does not have it."""
  function = getattr(processor, method, None)
  if function:
    try:
      with _explain_errors(f"{_name(processor)}.{method}()"):
        return function(*arguments)
    except NotImplementedError:  # That of DataProcessor.
      pass
  raise ValueError(
    f"{_name(processor)} has no {method}; write it, as bert_tf.DataProcessor "
    "describes it."
  )


def _name(processor: DataProcessor) -> str:
  return type(processor).__qualname__
