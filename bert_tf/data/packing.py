"""Assembles the model's input: special tokens, truncation and packing."""

from collections.abc import Sequence


def truncate_pair(
  ids_a: Sequence[int], ids_b: Sequence[int], max_length: int
) -> tuple[Sequence[int], Sequence[int]]:
  """Cuts two texts so that both together have at most max_length ids.

  The 2018 release drops the last id of the longer text, or of the second if
  both are equally long, until both fit (run_classifier.py). This computes the
  same lengths at once. Short texts stay whole.
  """
  num_a = min(len(ids_a), max(max_length - len(ids_b), (max_length + 1) // 2))
  return ids_a[:num_a], ids_b[: max_length - num_a]


def add_special_tokens(
  ids_a: Sequence[int], ids_b: Sequence[int] | None, cls_id: int, sep_id: int
) -> tuple[list[int], int]:
  """Returns `[CLS] a [SEP]`, plus `b [SEP]`, and the length of segment 0."""
  ids = [cls_id, *ids_a, sep_id]
  num_first = len(ids)
  if ids_b is not None:
    ids += [*ids_b, sep_id]
  return ids, num_first


def assemble(
  ids_a: Sequence[int],
  ids_b: Sequence[int] | None,
  cls_id: int,
  sep_id: int,
  max_seq_length: int,
) -> tuple[list[int], int]:
  """Cuts a text or a pair to max_seq_length and adds the special tokens.

  As in the 2018 release, an empty second text counts as none.
  """
  if ids_b:
    ids_a, ids_b = truncate_pair(ids_a, ids_b, max_seq_length - 3)
  else:
    ids_a, ids_b = ids_a[: max_seq_length - 2], None
  return add_special_tokens(ids_a, ids_b, cls_id, sep_id)


def max_instances(max_seq_length: int) -> int:
  """K, the largest number of instances in a packed row."""
  # Shorter instances would hold little more than [CLS] and [SEP].
  return max(1, max_seq_length // 8)


def assign_rows(lengths: Sequence[int], max_seq_length: int) -> list[list[int]]:
  """Assigns short instances to packed rows; returns each row's indices.

  From the longest to the shortest, each instance goes into the fullest row that
  has room for it (best fit decreasing; Krell et al. 2021, arXiv 2107.02027).
  Instances of the same length keep their order.
  """
  row_limit = max_instances(max_seq_length)
  rows: list[list[int]] = []
  # Rows by remaining room. Bit r of `rooms` is set if by_room[r] has a row, so
  # the lowest set bit from `length` on is the best fit.
  by_room: list[list[list[int]]] = [[] for _ in range(max_seq_length + 1)]
  rooms = 0
  for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
    length = lengths[index]
    fitting = rooms >> length
    if fitting:
      room = length + (fitting & -fitting).bit_length() - 1
      row = by_room[room].pop()
      if not by_room[room]:
        rooms ^= 1 << room
    else:
      room, row = max_seq_length, []
      rows.append(row)
    row.append(index)
    if len(row) < row_limit:
      by_room[room - length].append(row)
      rooms |= 1 << (room - length)
  return rows
