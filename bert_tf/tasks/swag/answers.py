"""Chooses among texts, as the predictions of a run do."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.tasks import prediction


class ChoiceAnswerer(prediction.Answerer):
  """Chooses the continuation of a text.

  `choices` include the start that all of them have in common, as in SWAG. An
  answer has the index of the `choice` and the `probabilities` of all.
  """

  fields = ("context", "choices")
  num_required = 2

  def prepare(self, row: Mapping[str, Any]) -> prediction.Prepared:
    """Returns an input for each choice."""
    context = self.tokenize(row["context"])
    choices = [self.tokenize(text) for text in row["choices"]]
    return prediction.Prepared(
      [self.pack(context, choice) for choice in choices],
      is_cut=any(self.is_cut(context, choice) for choice in choices),
    )

  def answer(
    self, prepared: prediction.Prepared, outputs: Sequence[prediction.Outputs]
  ) -> dict[str, Any]:
    """Returns the most probable choice."""
    scores = np.concatenate([output["logits"] for output in outputs])  # [C]
    [row] = prediction.probabilities(scores[None])
    return {
      "choice": int(row.argmax()),
      "probabilities": prediction.digits(row),
    }
