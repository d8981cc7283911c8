"""Rows in memory: from Python's types to texts by name, and to answers.

A row is a text, a tuple of texts in the order of the model's inputs, or a dict
of texts by name. Several rows are a list, iterator, NumPy array, pandas Series,
or a DataFrame with the names of the inputs as columns.
"""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import messages, tables
from bert_tf.inference.ids_functions import TEXT, IdsFunction, RowReader
from bert_tf.tasks.base import Inputs, ModelInput, Outputs, Task
from bert_tf.tasks.rows import Row
from bert_tf.text.unknown_pieces import PieceCounts
from bert_tf.training import progress

# Number of rows to sort by length at a time. A larger number needs more memory
# and saves little more padding.
BLOCK_SIZE = 1024

T = TypeVar("T")


def as_list(values: Any) -> list[Any]:
  """Returns a list of Python values, without NumPy scalars and arrays."""
  return [_as_python(value) for value in _as_python(values)]


def _as_python(value: Any) -> Any:
  if isinstance(value, list):
    return [_as_python(item) for item in value]
  return value.tolist() if hasattr(value, "tolist") else value


def to_rows(inputs: Any) -> tuple[list[Any], bool]:
  """Returns the rows of inputs, and whether the inputs are a single row.

  Raises:
    ValueError: if inputs are neither a row nor several.
  """
  if isinstance(inputs, str | tuple | Mapping):
    return [inputs], True
  if hasattr(inputs, "columns"):  # A DataFrame.
    inputs = inputs.to_dict("records")
  if isinstance(inputs, bytes) or not hasattr(inputs, "__iter__"):
    raise ValueError(
      "give a text, a tuple or a dict of texts, or a list of them, not "
      f"{_short(inputs)}."
    )
  return as_list(inputs), False


def map_rows(convert: Callable[..., T], *columns: Iterable[Any]) -> Iterator[T]:
  """Yields the results of `convert` for each row, as `map` does.

  Its ValueErrors get the number of the row.
  """
  for index, values in enumerate(zip(*columns)):
    try:
      yield convert(*values)
    except ValueError as error:
      raise ValueError(f"row {index}: {error}") from error


def texts_by_name(
  row: Any, names: Sequence[str], num_required: int = 1
) -> dict[str, Any]:
  """Returns the texts of a row by name, checked.

  Args:
    row: a text, texts in the order of `names`, or texts by name.
    names: the names of the inputs.
    num_required: how many of the first inputs a row must have.

  Raises:
    ValueError: if the row has other inputs, or one is not a Unicode text.
  """
  parts, given = [row] if isinstance(row, str) else row, names
  if isinstance(row, Mapping):
    given, parts = list(row), list(row.values())
  is_row = isinstance(parts, list | tuple) and len(parts) <= len(given)
  texts = dict(zip(given, map(_as_python, parts))) if is_row else {}
  needed = names[:num_required]
  if not set(needed) <= texts.keys() <= set(names):
    raise ValueError(
      f"it must be {' and '.join(names)}, or texts by these names, with at "
      f"least {' and '.join(needed)}, not {_short(row)}."
    )
  for name, value in texts.items():
    # A second text may be a list of texts to sort.
    is_list = name == "text_b" and isinstance(value, list)
    check_texts(name, value, is_list or name == "choices")
  return texts


def _short(value: Any) -> str:
  return messages.shorten(repr(value), 60)


def read_rows(reader: RowReader, rows: Iterable[Any]) -> Iterator[Row]:
  """Yields the texts of rows by the names of a reader's fields, checked."""
  return map_rows(
    lambda row: texts_by_name(row, reader.fields, reader.num_required), rows
  )


def check_texts(name: str, value: Any, is_list: bool) -> None:
  """Raises ValueError unless a value is a text, or a list of texts."""
  if is_list:
    if not isinstance(value, list | tuple) or not value:
      raise ValueError(f"{name} is not a list of texts: {_short(value)}")
    for item in value:
      check_texts(name, item, is_list=False)
  elif not isinstance(value, str):
    raise ValueError(f"{name} is not a text: {_short(value)}")
  elif not tables.is_unicode(value):
    raise ValueError(f"{name} is not a Unicode text: {_short(value)}")


class RowAnswers(Generic[T]):
  """The answers of rows, each made as soon as all outputs of its row are known.

  So the outputs do not pile up.

  Args:
    rows: the rows.
    answer: returns the answer of a row from the outputs of its sequences.
  """

  def __init__(
    self,
    rows: Sequence[Inputs],
    answer: Callable[[Inputs, list[Outputs]], T],
  ) -> None:
    self._rows, self._answer = rows, answer
    # The outputs of each row without an answer, by the number of the sequence.
    self._outputs: list[dict[int, Outputs]] = [{} for _ in rows]
    self._answers = {
      i: answer(row, []) for i, row in enumerate(rows) if not row.sequences
    }

  def add(self, row: int, sequence: int, output: Outputs) -> T | None:
    """Adds an output; returns the answer of its row if it is the last one."""
    outputs = self._outputs[row]
    outputs[sequence] = output
    if len(outputs) < len(self._rows[row].sequences):
      return None
    in_order = [outputs[number] for number in sorted(outputs)]
    outputs.clear()  # Frees the memory.
    self._answers[row] = self._answer(self._rows[row], in_order)
    return self._answers[row]

  def are_complete(self) -> bool:
    """Returns whether all rows have answers."""
    return len(self._answers) == len(self._rows)

  def in_order(self) -> list[T]:
    """Returns the answers of all rows."""
    return [self._answers[i] for i in range(len(self._rows))]


def answer_rows(
  rows: Iterable[Inputs],
  compute: Callable[[list[ModelInput]], Iterable[Outputs]],
  postprocess: Callable[[Inputs, list[Outputs]], T],
  batch_size: Callable[[int], int],
  block_size: int = BLOCK_SIZE,
) -> Iterator[T]:
  """Yields the answer of each row, in order.

  The sequences of a block are computed by falling length: a batch then has
  little padding, and the first batch needs the most memory.

  Args:
    rows: the rows, of which a block is read at a time.
    compute: returns the outputs of the sequences of a batch, in order.
    postprocess: returns the answer of a row from the outputs of its sequences.
    batch_size: returns the number of sequences in a batch from the length of
      the longest.
    block_size: the number of rows in a block.
  """
  rows = iter(rows)
  while block := list(itertools.islice(rows, block_size)):
    waiting = [
      (row, number, sequence)
      for row, inputs in enumerate(block)
      for number, sequence in enumerate(inputs.sequences)
    ]
    waiting.sort(key=lambda each: -len(each[2].input_ids))
    batches = []
    while waiting:
      size = batch_size(len(waiting[0][2].input_ids))
      batches.append(waiting[:size])
      waiting = waiting[size:]
    answers = RowAnswers(block, postprocess)
    for batch in progress.track(batches, "predicting", "batch", len(batches)):
      computed = compute([sequence for _, _, sequence in batch])
      for (row, number, _), output in zip(batch, computed):
        answers.add(row, number, output)
    yield from answers.in_order()


def open_model(
  model: str | os.PathLike[str] | ModelFolder,
  task: str | None = None,
  **settings: Any,
) -> ModelFolder:
  """Opens a model, or gives an open one more settings of its task."""
  if not isinstance(model, ModelFolder):
    return ModelFolder.open(os.fspath(model), task=task, **settings)
  given = {**model.given, **settings}
  return dataclasses.replace(model, task=task or model.task, given=given)


class RowModel:
  """A model that is loaded once and answers rows; threads may share it.

  Args:
    tasks: what turns texts into answers, by name: TEXT, and other ways to read
      a text; {} if the model takes no texts.
    function: the model as a function on word-piece ids.
    max_batch_size: maximum number of sequences in a batch.
  """

  def __init__(
    self,
    tasks: Mapping[str, Task[Any]],
    function: IdsFunction,
    max_batch_size: int,
  ) -> None:
    if max_batch_size < 1:
      raise ValueError(f"max_batch_size {max_batch_size} must be at least 1.")
    self.tasks, self.max_batch_size = tasks, max_batch_size
    self._function = function
    self._counts: PieceCounts | None = None
    if tasks:
      self._counts = PieceCounts(self.task().tokenizer, "the texts")

  def task(self) -> Task[Any]:
    """Returns the task of texts; ValueError if the model takes no texts."""
    if not self.tasks:
      raise ValueError(
        "the model takes no texts, because its folder lacks vocab.txt."
      )
    return self.tasks[TEXT]

  def predict(self, inputs: Any) -> Any:
    """Returns the answer for a row, or a list of answers for several.

    Args:
      inputs: a row: a text, a tuple such as (text, text_b), (question, context)
        or (context, choices), or a dict by name, such as {"text": ...}. A model
        that ranks also sorts the texts of a row (query, texts). Or
        several rows: a list, iterator, NumPy array, pandas Series or DataFrame.

    Raises:
      ValueError: if a row does not match the inputs of the model, or if the
        model rejects a text, such as one that is too long or lacks [MASK].
    """
    rows, is_single = to_rows(inputs)
    task = self.task()
    texts = [*read_rows(task, rows)]
    task.check(texts)
    answers = [*self._answer(task, texts)]
    return answers[0] if is_single else answers

  def preprocess(self, reader: RowReader, row: Row) -> Inputs:
    """Returns the inputs of a row; ValueError if the model cannot read it."""
    [inputs] = reader.preprocess([row])
    if self._counts:
      for sequence in inputs.sequences:
        self._counts.add_ids(sequence.input_ids)
    return inputs

  def compute(
    self, sequences: Sequence[ModelInput], reader: RowReader
  ) -> list[Outputs]:
    """Returns the outputs for a batch; ValueError if the model rejects it."""
    return self._function.compute(sequences, reader.outputs, reader.width)

  def _batch_size(self, length: int) -> int:
    """Returns the number of sequences in a batch; the longest has `length`."""
    return self.max_batch_size

  def _answer(
    self,
    task: Task[Any],
    rows: Iterable[Row],
    postprocess: Callable[[Inputs, list[Outputs]], Any] | None = None,
    block_size: int = BLOCK_SIZE,
  ) -> Iterator[Any]:
    """Yields the answers of the task, or those that `postprocess` makes."""
    return answer_rows(
      map_rows(lambda row: self.preprocess(task, row), rows),
      lambda sequences: self.compute(sequences, task),
      postprocess or task.postprocess,
      self._batch_size,
      block_size,
    )
