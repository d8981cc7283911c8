"""Predicts masked words from Python.

filler = bert_tf.MaskFiller(
  "uncased/bert_config.json", "uncased/vocab.txt",
  init_checkpoint="uncased/bert_model.ckpt",
)
filler.predict("The capital of France is [MASK].")[0][0].token
"""

import dataclasses
from typing import Any

from bert_tf import tokenization
from bert_tf.inference import task_models


@dataclasses.dataclass(frozen=True)
class Prediction:
  """A word piece predicted for a mask."""

  token: str
  probability: float  # Softmax over the whole vocabulary.


class MaskFiller(task_models.TaskModel):
  """A BERT that predicts masked words.

  A row is a text with one or more "[MASK]". `predict` returns for each mask the
  `top_k` (default 5) Predictions, the best first. For the arguments see
  TaskModel.
  """

  task = "pretraining"

  def _row(self, index: int, row: Any) -> dict[str, Any]:
    texts = super()._row(index, row)
    check_has_mask(f"text of row {index}", texts["text"])
    return texts

  def _answer(self, answer: dict[str, Any]) -> list[list[Prediction]]:
    return [[Prediction(**p) for p in mask] for mask in answer["masks"]]


def check_has_mask(name: str, text: str) -> None:
  """Raises ValueError, with the name of the text, if it has no [MASK]."""
  if tokenization.MASK not in text:
    raise ValueError(f"{name} has no {tokenization.MASK}: {text!r:.60}")
