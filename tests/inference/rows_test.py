"""Tests that rows are answered in order, in batches of similar lengths."""

import pytest

from bert_tf.inference import rows
from bert_tf.tasks import base

# The lengths of the sequences of each row; a row may have none.
ROWS = [[3], [], [9, 1, 5], [2, 2], [7], [4]]


@pytest.mark.parametrize(
  ("block_size", "batch_size", "batch_lengths"),
  [
    (100, lambda length: 100, [[9, 7, 5, 4, 3, 2, 2, 1]]),
    (100, lambda length: 3, [[9, 7, 5], [4, 3, 2], [2, 1]]),
    (100, lambda length: 9 // length, [[9], [7], [5], [4, 3], [2, 2, 1]]),
    (2, lambda length: 3, [[3], [9, 5, 2], [2, 1], [7, 4]]),
  ],
)
def test_rows_are_answered_in_order_in_blocks(
  block_size, batch_size, batch_lengths
):
  num_read, seen = 0, []

  def read():
    nonlocal num_read
    for index, row in enumerate(ROWS):
      num_read += 1
      yield base.Inputs([base.model_input([index] * n, n) for n in row], index)

  def compute(sequences):
    seen.append([len(s.input_ids) for s in sequences])
    return [(s.input_ids[0], len(s.input_ids)) for s in sequences]

  answers = rows.answer_rows(
    read(),
    compute,
    lambda inputs, outputs: (inputs.state, outputs),
    batch_size,
    block_size,
  )
  assert num_read == 0
  first = next(answers)
  assert num_read == min(block_size, len(ROWS))
  assert [first, *answers] == [
    (index, [(index, n) for n in row]) for index, row in enumerate(ROWS)
  ]
  assert seen == batch_lengths
