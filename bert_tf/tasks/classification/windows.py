"""Windows of texts that are longer than the model's input."""

from collections.abc import Sequence

# Keep the first 128 and the last 382 of 510 word pieces: the best method in the
# comparison of Sun et al. 2019 (arXiv 1905.05583, 5.3.1).
_HEAD, _WHOLE = 128, 510


def cut_windows(
  ids: Sequence[int], room: int, long_text: str | None
) -> list[Sequence[int]]:
  """Cuts the word pieces of a text into windows of at most `room` pieces.

  "head_tail" keeps the first room * 128 / 510 pieces, rounded down, and fills
  the rest with the last pieces. "windows" start room / 2 pieces apart; the last
  one ends with the text. Otherwise, it keeps the first pieces.
  """
  if len(ids) <= room:
    return [ids]
  if long_text == "head_tail":
    head = room * _HEAD // _WHOLE
    return [[*ids[:head], *ids[len(ids) - room + head :]]]
  if long_text == "windows":
    last = len(ids) - room
    starts = [*range(0, last, max(1, room // 2)), last]
    return [ids[start : start + room] for start in starts]
  return [ids[:room]]
