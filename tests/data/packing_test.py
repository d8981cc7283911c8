"""The model's input: special tokens, truncation, padding."""

from bert_tf.data import packing
from bert_tf.tasks import base


def truncated_one_by_one(a, b, max_length):
  """Drops the last id of the longer text, or of b if both are equally long."""
  a, b = list(a), list(b)
  while len(a) + len(b) > max_length:
    (a if len(a) > len(b) else b).pop()
  return a, b


def test_a_pair_is_cut_from_the_end_of_the_longer_one():
  for size_a in range(1, 9):
    for size_b in range(1, 9):
      for max_length in range(2, 18):
        a, b = range(size_a), range(10, 10 + size_b)
        cut = packing.truncate_pair(a, b, max_length)
        assert [list(ids) for ids in cut] == list(
          truncated_one_by_one(a, b, max_length)
        )


def test_inputs_have_special_tokens_and_padding():
  def build(ids_a, ids_b, length):
    row = base.model_input(*packing.assemble(ids_a, ids_b, 1, 2, length))
    return {n: list(a[0]) for n, a in base.batch([row], length).items()}

  assert build([5, 6], None, 6) == {
    "input_ids": [1, 5, 6, 2, 0, 0],
    "input_mask": [1, 1, 1, 1, 0, 0],
    "segment_ids": [0, 0, 0, 0, 0, 0],
  }
  assert build([5, 6, 7], [8, 9], 7) == {
    "input_ids": [1, 5, 6, 2, 8, 9, 2],
    "input_mask": [1] * 7,
    "segment_ids": [0, 0, 0, 0, 1, 1, 1],
  }
  for nothing in (None, []):  # An empty second text counts as no text.
    assert build([5, 6, 7], nothing, 4)["input_ids"] == [1, 5, 6, 2]
