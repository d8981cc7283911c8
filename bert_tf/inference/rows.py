"""Rows in memory: from Python's types to texts by name, and to answers.

A row is a text, a tuple of texts in the order of the model's inputs, or a dict
of texts by name. Several rows are a list, iterator, NumPy array, pandas Series,
or a DataFrame with the names of the inputs as columns.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from bert_tf.files import messages, tables
from bert_tf.tasks.base import Inputs, ModelInput
from bert_tf.training import progress

# Number of rows to sort by length at a time. A larger number needs more memory
# and saves little more padding.
BLOCK_SIZE = 1024

T = TypeVar("T")
Output = TypeVar("Output")
Answer = TypeVar("Answer")


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
    check_texts(name, value, is_list=name == "choices")
  return texts


def _short(value: Any) -> str:
  return messages.shorten(repr(value), 60)


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


class RowAnswers(Generic[Output, Answer]):
  """The answers of rows, each made as soon as all outputs of its row are known.

  So the outputs do not pile up.

  Args:
    rows: the rows.
    answer: returns the answer of a row from the outputs of its sequences.
  """

  def __init__(
    self,
    rows: Sequence[Inputs],
    answer: Callable[[Inputs, list[Output]], Answer],
  ) -> None:
    self._rows, self._answer = rows, answer
    # The outputs of each row without an answer, by the number of the sequence.
    self._outputs: list[dict[int, Output]] = [{} for _ in rows]
    self._answers = {
      i: answer(row, []) for i, row in enumerate(rows) if not row.sequences
    }

  def add(self, row: int, sequence: int, output: Output) -> Answer | None:
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

  def in_order(self) -> list[Answer]:
    """Returns the answers of all rows."""
    return [self._answers[i] for i in range(len(self._rows))]


def answer_rows(
  rows: Iterable[Inputs],
  compute: Callable[[list[ModelInput]], Iterable[Output]],
  answer: Callable[[Inputs, list[Output]], Answer],
  batch_size: Callable[[int], int],
  block_size: int = BLOCK_SIZE,
  label: str = "predicting",
) -> Iterator[Answer]:
  """Yields the answer of each row, in order.

  The sequences of a block are computed by falling length: a batch then has
  little padding, and the first batch needs the most memory.

  Args:
    rows: the rows, of which a block is read at a time.
    compute: returns the outputs of the sequences of a batch, in order.
    answer: returns the answer of a row from the outputs of its sequences.
    batch_size: returns the number of sequences in a batch from the length of
      the longest.
    block_size: the number of rows in a block.
    label: the name of the progress bar, which a terminal shows.
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
    answers = RowAnswers(block, answer)
    for batch in progress.track(batches, label, "batch", len(batches)):
      computed = compute([sequence for _, _, sequence in batch])
      for (row, number, _), output in zip(batch, computed):
        answers.add(row, number, output)
    yield from answers.in_order()
