"""Calibration: probabilities that are as high as the model is often right.

Guo et al. 2017, arXiv 1706.04599: dividing all logits by one temperature, which
is fitted to held-out data, changes no decision between classes.
"""

import numpy as np
from scipy import optimize

from bert_tf.checkpoint import run_info
from bert_tf.model import losses
from bert_tf.tasks import base

_NUM_BINS = 15  # As in the paper, section 5.


def to_logits(probabilities: np.ndarray, problem_type: str) -> np.ndarray:
  """Returns logits, float32 [B, C], whose probabilities these are."""
  # They may have been rounded to 0 or 1.
  values = np.clip(probabilities, np.finfo(np.float32).tiny, 1 - 2.0**-24)
  is_softmax = problem_type == run_info.CLASSIFICATION
  return np.log(values) - (not is_softmax) * np.log1p(-values)


def soften(
  probabilities: np.ndarray, temperature: float, problem_type: str
) -> np.ndarray:
  """Returns the probabilities, [B, C], of the logits / temperature."""
  logits = to_logits(probabilities, problem_type)
  return base.probabilities(logits / temperature, problem_type)


def calibrate(
  probabilities: np.ndarray, label_ids: np.ndarray, problem_type: str
) -> dict[str, float]:
  """Returns the `temperature` with the least loss on held-out examples.

  Also returns the expected calibration errors without and with it, `ece_before`
  and `ece_after`. The arguments are float [B, C] and those of
  `losses.per_example_loss`.
  """
  logits = to_logits(probabilities, problem_type)

  def mean_loss(log_temperature: float) -> float:
    scaled = (logits / np.exp(log_temperature)).astype(np.float32)
    values = losses.per_example_loss(scaled, label_ids, problem_type)
    return float(np.mean(values))

  fitted = optimize.minimize_scalar(mean_loss, bounds=(-3, 3), method="bounded")
  temperature = float(np.exp(fitted.x))
  softened = soften(probabilities, temperature, problem_type)
  return {
    "temperature": temperature,
    "ece_before": calibration_error(probabilities, label_ids, problem_type),
    "ece_after": calibration_error(softened, label_ids, problem_type),
  }


def calibration_error(
  probabilities: np.ndarray, label_ids: np.ndarray, problem_type: str
) -> float:
  """Returns the mean difference of confidence and accuracy over 15 bins.

  In multilabel, each label is a decision of its own. See `calibrate`.
  """
  if problem_type == run_info.MULTILABEL:
    confidences = np.maximum(probabilities, 1 - probabilities).ravel()
    is_right = ((probabilities > 0.5) == label_ids).ravel()
  else:
    confidences = probabilities.max(axis=-1)
    is_right = probabilities.argmax(axis=-1) == label_ids[:, 0]
  bins = np.minimum((confidences * _NUM_BINS).astype(int), _NUM_BINS - 1)
  differences = np.bincount(bins, confidences - is_right)
  return float(np.abs(differences).sum() / len(confidences))
