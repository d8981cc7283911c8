"""Assembles the model's input: special tokens, truncation, padding, packing."""

from collections.abc import Sequence


def truncate_pair(
  ids_a: Sequence[int], ids_b: Sequence[int], max_length: int
) -> tuple[Sequence[int], Sequence[int]]:
  """Cuts two texts so that both together have at most max_length ids.

  The result is that of dropping last ids one by one until both fit: from the
  longer text, or from the second text if both are equally long. Short texts
  therefore stay whole (2018 release, run_classifier.py).
  """
  num_a = min(len(ids_a), max(max_length - len(ids_b), (max_length + 1) // 2))
  return ids_a[:num_a], ids_b[: max_length - num_a]


def is_cut(
  ids_a: Sequence[int], ids_b: Sequence[int] | None, max_seq_length: int
) -> bool:
  """Returns whether `assemble` drops some of the word pieces."""
  if ids_b:
    return len(ids_a) + len(ids_b) > max_seq_length - 3
  return len(ids_a) > max_seq_length - 2


def add_special_tokens(
  ids_a: Sequence[int], ids_b: Sequence[int] | None, cls_id: int, sep_id: int
) -> tuple[list[int], int]:
  """Returns `[CLS] a [SEP]`, plus `b [SEP]`, and the length of segment 0."""
  ids = [cls_id, *ids_a, sep_id]
  num_first = len(ids)
  if ids_b is not None:
    ids += ids_b
    ids.append(sep_id)
  return ids, num_first


def assemble(
  ids_a: Sequence[int],
  ids_b: Sequence[int] | None,
  cls_id: int,
  sep_id: int,
  max_seq_length: int,
) -> tuple[list[int], int]:
  """Returns `add_special_tokens` of a text or a pair, cut to max_seq_length.

  max_seq_length is at least 2, or 3 for a pair. An empty second text is none,
  as in the 2018 release.
  """
  if ids_b:
    ids_a, ids_b = truncate_pair(ids_a, ids_b, max_seq_length - 3)
  else:
    ids_a, ids_b = ids_a[: max_seq_length - 2], None
  return add_special_tokens(ids_a, ids_b, cls_id, sep_id)


def pad(
  ids: Sequence[int], num_first: int, max_seq_length: int
) -> dict[str, list[int]]:
  """Returns padded inputs; the first `num_first` ids are in segment 0."""
  padding = [0] * (max_seq_length - len(ids))
  return {
    "input_ids": [*ids, *padding],
    "input_mask": [1] * len(ids) + padding,
    "segment_ids": [0] * num_first + [1] * (len(ids) - num_first) + padding,
  }


def max_instances(max_seq_length: int) -> int:
  """Returns K, the largest number of instances in a packed row."""
  # Shorter instances would hold little more than [CLS] and [SEP].
  return max(1, max_seq_length // 8)


def assign_rows(lengths: Sequence[int], max_seq_length: int) -> list[list[int]]:
  """Assigns short instances to packed rows; returns each row's indices.

  Takes the instances from the longest to the shortest and puts each into the
  fullest row with room for it (best fit decreasing; Krell et al. 2021, arXiv
  2107.02027). Instances of the same length keep their order.
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
