"""Labels texts and pairs, as the predictions of a run do."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf import losses
from bert_tf.model_folder import run_info
from bert_tf.tasks import prediction
from bert_tf.tasks.classification import config, records


class TextAnswerer(prediction.Answerer):
  """Labels a text or a pair; an answer is one of `labelled`."""

  fields = ("text", "text_b")

  def prepare(self, row: Mapping[str, Any]) -> prediction.Prepared:
    """Returns one input; several if `long_text` reads a text in windows."""
    ids_a = self.tokenize(row["text"])
    if "text_b" in row:
      ids_b = self.tokenize(row["text_b"])
      return prediction.Prepared([self.pack(ids_a, ids_b)])
    long_text = self.info.long_text or config.LONG_TEXT_MODES[0]
    windows = records.cut_windows(ids_a, self.max_seq_length - 2, long_text)
    return prediction.Prepared([self.pack(window) for window in windows])

  def answer(
    self, prepared: prediction.Prepared, outputs: Sequence[prediction.Outputs]
  ) -> dict[str, Any]:
    """Returns the label for the mean logits of the windows."""
    spec = self.info.label_spec
    assert spec is not None
    logits = np.stack([output["logits"] for output in outputs])
    pooled = records.mean_over_windows(logits, [len(outputs)])
    probabilities = losses.probabilities(pooled, spec.problem_type)
    [answer] = labelled(spec, np.asarray(probabilities))
    return answer


def decide(probabilities: np.ndarray, problem_type: str) -> np.ndarray:
  """Returns the predictions for probabilities, float32 [B, C].

  Returns:
    int [B], the most probable class; float32 [B], the number of a regression;
    or int [B, C], 1 for each label with a probability above 0.5.
  """
  if problem_type == "regression":
    return probabilities[:, 0]
  if problem_type == "multilabel":
    return (probabilities > 0.5).astype(int)
  return probabilities.argmax(axis=-1)


def labelled(
  spec: run_info.LabelSpec, probabilities: np.ndarray
) -> list[dict[str, Any]]:
  """Returns `label` and `probabilities` for probabilities, float32 [B, C].

  The label is a list for multilabel, and for regression a number; then
  `probabilities` are empty.
  """
  answers: list[dict[str, Any]] = []
  predicted = decide(probabilities, spec.problem_type)
  for value, row in zip(predicted, probabilities):
    if spec.problem_type == "regression":
      answers.append({"label": float(str(value)), "probabilities": {}})
      continue
    label: Any = None
    if spec.problem_type == "multilabel":
      label = [name for name, applies in zip(spec.labels, value) if applies]
    else:
      label = spec.labels[int(value)]
    by_label = dict(zip(spec.labels, prediction.digits(row)))
    answers.append({"label": label, "probabilities": by_label})
  return answers
