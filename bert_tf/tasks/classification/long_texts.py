"""Texts that are too long for the model: truncated, or read in windows."""

from collections.abc import Sequence

import numpy as np

# Of 510 word pieces the first 128 and the last 382: the best of the ways to
# cut that Sun et al. 2019 (arXiv 1905.05583, 5.3.1) compared.
_HEAD, _WHOLE = 128, 510


def windows(
  ids: Sequence[int], room: int, long_text: str
) -> list[Sequence[int]]:
  """Returns the inputs that a text becomes.

  Args:
    ids: word pieces of the text.
    room: how many fit into one input.
    long_text: one of config.LONG_TEXT_MODES. "head_tail" keeps the first
      room * 128 / 510, rounded down, and as many of the last as fit. "windows"
      gives inputs of `room` that start half a window apart, the last one at
      the text's end.

  Returns:
    One input; several only for "windows" and a text that does not fit.
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


def pooled(logits: np.ndarray, num_windows: Sequence[int]) -> np.ndarray:
  """Returns the mean of the logits of each example's windows, float32 [B, C].

  Args:
    logits: float32 [R, C], those of one example after another.
    num_windows: int [B], at least 1, of each example; their sum is R.
  """
  counts = np.asarray(num_windows)
  totals = np.add.reduceat(logits, np.cumsum(counts) - counts, axis=0)
  return totals / counts.astype(logits.dtype)[:, None]
