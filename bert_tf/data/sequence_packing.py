"""Which short instances share a row of the model's input.

Attention, positions and labels are kept inside each of them, so a row is
computed as its instances would be, without the padding.
"""

from collections.abc import Sequence


def max_instances(max_seq_length: int) -> int:
  """Returns how many instances a row holds at most, K."""
  # Rows of much shorter instances would be all [CLS] and [SEP].
  return max(1, max_seq_length // 8)


def rows(lengths: Sequence[int], max_seq_length: int) -> list[list[int]]:
  """Returns the numbers of the instances in each row.

  The longest is placed first, and each into the fullest row that it fits in
  (best fit decreasing; Krell et al. 2021, arXiv 2107.02027). Instances of one
  length are placed in the given order.

  Args:
    lengths: tokens of each instance, at most `max_seq_length`.
    max_seq_length: tokens of a row.
  """
  most = max_instances(max_seq_length)
  found: list[list[int]] = []
  # Rows by the room that is left in them, and the bits of the rooms there are.
  by_room: list[list[list[int]]] = [[] for _ in range(max_seq_length + 1)]
  rooms = 0
  for number in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
    length = lengths[number]
    fitting = rooms >> length
    if fitting:
      room = length + (fitting & -fitting).bit_length() - 1
      row = by_room[room].pop()
      if not by_room[room]:
        rooms ^= 1 << room
    else:
      room, row = max_seq_length, []
      found.append(row)
    row.append(number)
    if len(row) < most:
      by_room[room - length].append(row)
      rooms |= 1 << (room - length)
  return found
