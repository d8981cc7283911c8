"""Results and files of predictions of multiple choice."""

from collections.abc import Sequence

import numpy as np

from bert_tf.tasks.swag import examples
from bert_tf.training import results

# What an evaluation reports beside the step; the first decides on the best.
RESULTS = ("eval_accuracy", "eval_loss", "loss")


def write_predictions(
  output_dir: str,
  predicted: Sequence[examples.ChoiceExample],
  probabilities: np.ndarray,
  label_type: str,
) -> None:
  """Writes test_results.tsv and predictions.jsonl.

  The probabilities are float32 [B, C]; label_type is one of config.LABEL_TYPES.
  """
  objects = (
    _prediction(example, row, label_type)
    for example, row in zip(predicted, probabilities)
  )
  results.write_probabilities(output_dir, probabilities, objects)


def _prediction(
  example: examples.ChoiceExample, probabilities: np.ndarray, label_type: str
) -> dict[str, object]:
  """Returns the object of one line of predictions.jsonl."""
  chosen = int(probabilities.argmax())
  label = examples.label_names(example.choices, label_type)[chosen]
  return {
    "id": example.guid,
    "text": example.context,
    "text_b": example.continuations()[chosen],
    "label": int(label) if label_type.startswith("number") else label,
    # The digits of a float32.
    "probabilities": [float(str(p)) for p in probabilities],
  }
