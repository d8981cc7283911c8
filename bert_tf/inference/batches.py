"""Answers rows in memory, in batches of sequences of similar lengths."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from bert_tf.tasks.base import Inputs, ModelInput
from bert_tf.training import progress

# Number of rows to sort by length at a time. A larger number needs more memory
# and saves little more padding.
BLOCK_SIZE = 1024

Output = TypeVar("Output")
Answer = TypeVar("Answer")


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
    answer: returns the answer of a row from the outputs of its sequences. It is
      called when the last one is known, so that outputs do not pile up.
    batch_size: returns the number of sequences in a batch from the length of
      the longest.
    block_size: the number of rows in a block.
    label: the name of the progress bar, which a terminal shows.
  """
  rows = iter(rows)
  while block := list(itertools.islice(rows, block_size)):
    sequences = [(i, s) for i, row in enumerate(block) for s in row.sequences]
    order = sorted(
      range(len(sequences)), key=lambda n: -len(sequences[n][1].input_ids)
    )
    batches = []
    while order:
      size = batch_size(len(sequences[order[0]][1].input_ids))
      batches.append(order[:size])
      order = order[size:]
    # The outputs of each row by the number of the sequence in the block.
    outputs: list[dict[int, Output]] = [{} for _ in block]
    answers = {
      i: answer(row, []) for i, row in enumerate(block) if not row.sequences
    }
    for batch in progress.track(batches, label, "batch", len(batches)):
      computed = compute([sequences[number][1] for number in batch])
      for number, output in zip(batch, computed):
        i, _ = sequences[number]
        outputs[i][number] = output
        if len(outputs[i]) == len(block[i].sequences):
          in_order = [outputs[i][key] for key in sorted(outputs[i])]
          answers[i] = answer(block[i], in_order)
          outputs[i].clear()  # Frees the memory.
    yield from (answers[i] for i in range(len(block)))
