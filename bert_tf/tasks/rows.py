"""Rows, the only kind of example, and their answers. Imports no TensorFlow."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Row = dict[str, Any]  # Values by field; `id` and `label` are known names.
Answer = dict[str, Any]  # JSON values by name.
Results = dict[str, float | int]  # Of an evaluation, by name.


def labels_in(label: Any) -> Iterator[Any]:
  """Yields the names in a label, which may be a list; none for a number."""
  if isinstance(label, list | tuple | set):
    for item in label:
      yield from labels_in(item)
  elif not isinstance(label, float | None):
    yield label


def with_empty_text(rows: Iterable[Mapping[str, Any]]) -> list[int]:
  """Returns the indices of rows in which a text, or one of a list, is blank."""
  empty = []
  for index, row in enumerate(rows):
    texts = (
      [value] if isinstance(value, str) else value for value in row.values()
    )
    if not all(map(str.strip, itertools.chain.from_iterable(texts))):
      empty.append(index)
  return empty


def hold_out_texts(rows: Sequence[Row], fraction: float) -> list[int]:
  """Returns the indices of rows to evaluate on: all those of a `text`, or none.

  The hashes of the texts decide, so the same ones are held out in every run.
  """
  texts = {row["text"] for row in rows}
  ordered = sorted(texts, key=lambda t: hashlib.sha256(t.encode()).digest())
  held_out = {*ordered[: max(fraction > 0, round(fraction * len(texts)))]}
  return [i for i, row in enumerate(rows) if row["text"] in held_out]
