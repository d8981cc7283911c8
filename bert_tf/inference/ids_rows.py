"""Rows of word-piece ids, which a model computes as they are."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.inference import ids_functions
from bert_tf.tasks import base
from bert_tf.tasks.rows import Answer, Row


class IdsRows:
  """Returns what the model itself returns for rows of word-piece ids.

  A row has `input_ids`, `input_mask` and `segment_ids`, and for a pre-trained
  model `masked_lm_positions`; for multiple choice lists of them. An answer has
  the outputs of the model, by name.
  """

  width = None

  def __init__(self, function: ids_functions.IdsFunction) -> None:
    names = function.inputs.keys()
    self.fields = tuple(n for n in base.ModelInput._fields if n in names)
    self.num_required = len(self.fields)
    self.outputs = tuple(function.outputs)
    self._has_choices = function.inputs["input_ids"].shape.rank == 3
    self._by_length = {
      name
      for name, spec in function.outputs.items()
      if len(spec.shape) > 1 + self._has_choices and spec.shape[1] is None
    }

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields each row as a sequence, or as one for each choice."""
    for row in rows:
      columns = [row[name] for name in self.fields]
      if not self._has_choices:
        columns = [[column] for column in columns]
      sequences = [base.ModelInput(*values) for values in zip(*columns)]
      for each in (columns, *sequences):
        if len({*map(len, each[:3])}) > 1:
          raise ValueError(f"{', '.join(self.fields[:3])} differ in length.")
      yield base.Inputs(sequences, is_one_record=self._has_choices)

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the outputs, without those of padding."""
    if self._has_choices:
      logits = np.concatenate([output["logits"] for output in outputs])
      [row] = base.probabilities(logits[None])
      return {
        "logits": logits.tolist(),
        "probabilities": row.tolist(),
        "choice": int(logits.argmax()),
      }
    [sequence], [output] = inputs.sequences, outputs
    length = len(sequence.masked_lm_positions or sequence.input_ids)
    return {
      name: (value[:length] if name in self._by_length else value).tolist()
      for name, value in output.items()
    }


# What turns rows into a model's inputs, and its outputs into answers.
RowReader = base.Task[Any] | IdsRows
