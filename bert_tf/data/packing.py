"""Packs word pieces as the model's input: special tokens, cutting, padding."""

from collections.abc import Sequence


def truncate_pair(
  ids_a: Sequence[int], ids_b: Sequence[int], max_length: int
) -> tuple[Sequence[int], Sequence[int]]:
  """Cuts two texts to max_length together, from the end of the longer one.

  That is one id at a time from the one that is longer then, from the second
  where both are equally long.
  """
  kept_a = min(len(ids_a), max(max_length - len(ids_b), (max_length + 1) // 2))
  return ids_a[:kept_a], ids_b[: max_length - kept_a]


def is_cut(
  ids_a: Sequence[int], ids_b: Sequence[int] | None, max_seq_length: int
) -> bool:
  """Returns whether `pack` drops some of the word pieces."""
  if ids_b:
    return len(ids_a) + len(ids_b) > max_seq_length - 3
  return len(ids_a) > max_seq_length - 2


def add_special_tokens(
  ids_a: Sequence[int], ids_b: Sequence[int] | None, cls_id: int, sep_id: int
) -> tuple[list[int], int]:
  """Returns `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`.

  Returns:
    The ids, and how many of them, the first ones, are of segment 0.
  """
  ids = [cls_id, *ids_a, sep_id]
  num_first = len(ids)
  if ids_b is not None:
    ids += ids_b
    ids.append(sep_id)
  return ids, num_first


def mask_and_segments(
  num_tokens: int, num_first: int, max_seq_length: int
) -> dict[str, list[int]]:
  """Returns input_mask and segment_ids, each padded with 0.

  The first `num_first` of `num_tokens` tokens are of segment 0.
  """
  padding = [0] * (max_seq_length - num_tokens)
  return {
    "input_mask": [1] * num_tokens + padding,
    "segment_ids": [0] * num_first + [1] * (num_tokens - num_first) + padding,
  }


def pad(
  ids: Sequence[int], num_first: int, max_seq_length: int
) -> dict[str, list[int]]:
  """Returns input_ids, input_mask and segment_ids, each padded with 0.

  The first `num_first` ids, special tokens included, are of segment 0.
  """
  return {
    "input_ids": [*ids, *[0] * (max_seq_length - len(ids))],
    **mask_and_segments(len(ids), num_first, max_seq_length),
  }


def pack(
  ids_a: Sequence[int],
  ids_b: Sequence[int] | None,
  cls_id: int,
  sep_id: int,
  max_seq_length: int,
) -> dict[str, list[int]]:
  """Returns the model's input for a text or a pair, cut and padded.

  A second text without word pieces counts as none, as in the original.

  Returns:
    input_ids, input_mask and segment_ids, each of length max_seq_length (at
    least 2, or 3 for a pair), padded with 0.
  """
  if ids_b:
    ids_a, ids_b = truncate_pair(ids_a, ids_b, max_seq_length - 3)
  else:
    ids_a, ids_b = ids_a[: max_seq_length - 2], None
  return pad(*add_special_tokens(ids_a, ids_b, cls_id, sep_id), max_seq_length)
