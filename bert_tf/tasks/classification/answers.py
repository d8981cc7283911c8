"""Labels texts and pairs, as the predictions of a run do."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.model_folder import run_info
from bert_tf.tasks import prediction

# Keep the first 128 and the last 382 of 510 word pieces: the best method in the
# comparison of Sun et al. 2019 (arXiv 1905.05583, 5.3.1).
_HEAD, _WHOLE = 128, 510


class TextAnswerer(prediction.Answerer):
  """Labels a text or a pair; an answer is one of `labelled`."""

  fields = ("text", "text_b")

  def prepare(self, row: Mapping[str, Any]) -> prediction.Prepared:
    """Returns one input; several if `long_text` reads a text in windows."""
    ids_a, ids_b = self.tokenize(row["text"]), None
    windows: list[Sequence[int]] = [ids_a]
    if "text_b" in row:
      ids_b = self.tokenize(row["text_b"])
    else:
      room = self.max_seq_length - 2
      windows = cut_windows(ids_a, room, self.info.settings.long_text)
    return prediction.Prepared(
      [self.pack(window, ids_b) for window in windows],
      is_cut=self.is_cut(ids_a, ids_b),
    )

  def answer(
    self, prepared: prediction.Prepared, outputs: Sequence[prediction.Outputs]
  ) -> dict[str, Any]:
    """Returns the label for the mean logits of the windows."""
    spec = self.info.labels
    assert spec is not None
    logits = np.stack([output["logits"] for output in outputs])
    pooled = mean_over_windows(logits, [len(outputs)])
    probabilities = prediction.probabilities(pooled, spec.problem_type)
    return labelled(spec, probabilities)[0]


def decide(probabilities: np.ndarray, problem_type: str) -> np.ndarray:
  """Decides by probabilities, float32 [B, C].

  Returns int [B], the most probable class; float32 [B], the number of a
  regression; or int [B, C], 1 for each label with a probability above 0.5.
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
  answers = []
  predicted = decide(probabilities, spec.problem_type)
  for value, row in zip(predicted, probabilities):
    label: Any
    if spec.problem_type == "regression":
      label = float(str(value))  # Prints the digits of a float32.
    elif spec.problem_type == "multilabel":
      label = [name for name, applies in zip(spec.labels, value) if applies]
    else:
      label = spec.labels[value]
    by_label = dict(zip(spec.labels, prediction.digits(row)))
    answers.append({"label": label, "probabilities": by_label})
  return answers


def cut_windows(
  ids: Sequence[int], room: int, long_text: str | None
) -> list[Sequence[int]]:
  """Cuts the word pieces of a text into windows of at most `room` pieces.

  "head_tail" keeps the first room * 128 / 510 pieces, rounded down, and fills
  the rest with the last pieces. "windows" start room / 2 pieces apart; the last
  one ends with the text. Otherwise, it keeps the first pieces.
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


def mean_over_windows(
  logits: np.ndarray, num_windows: Sequence[int]
) -> np.ndarray:
  """Returns the mean logits of each example's windows, float32 [B, C].

  num_windows, int [B], are at least 1; logits are float32 [sum, C].
  """
  counts = np.asarray(num_windows)
  totals = np.add.reduceat(logits, np.cumsum(counts) - counts, axis=0)
  return totals / counts.astype(logits.dtype)[:, None]
