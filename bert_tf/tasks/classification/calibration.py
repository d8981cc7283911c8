"""Calibration: probabilities that are as high as the model is often right.

Guo et al. 2017, arXiv 1706.04599: dividing all logits by one temperature, which
is fitted to held-out data, changes no decision.
"""

import numpy as np

from bert_tf.tasks import base

_NUM_BINS = 15  # As in the paper, section 5.


def soften(probabilities: np.ndarray, temperature: float) -> np.ndarray:
  """Returns the probabilities, float32 [B, C], of the logits / temperature."""
  # Some may have been rounded to 0.
  logits = np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))
  return base.probabilities(logits / temperature)


def calibrate(
  probabilities: np.ndarray, label_ids: np.ndarray
) -> dict[str, float]:
  """Returns the `temperature` with the least loss for int [B] labels.

  Also returns the expected calibration errors without and with it, `ece_before`
  and `ece_after`.
  """
  # Importing them takes a moment, which a prediction can spare.
  from scipy import optimize
  from sklearn import metrics

  def mean_loss(log_temperature: float) -> float:
    softened = soften(probabilities, np.exp(log_temperature))
    classes = range(probabilities.shape[1])
    return metrics.log_loss(label_ids, softened, labels=classes)

  fitted = optimize.minimize_scalar(mean_loss, bounds=(-3, 3), method="bounded")
  temperature = float(np.exp(fitted.x))
  softened = soften(probabilities, temperature)
  return {
    "temperature": temperature,
    "ece_before": calibration_error(probabilities, label_ids),
    "ece_after": calibration_error(softened, label_ids),
  }


def calibration_error(
  probabilities: np.ndarray, label_ids: np.ndarray
) -> float:
  """Returns the mean difference of confidence and accuracy over 15 bins."""
  confidences = probabilities.max(axis=-1)
  is_right = probabilities.argmax(axis=-1) == label_ids
  bins = np.minimum((confidences * _NUM_BINS).astype(int), _NUM_BINS - 1)
  differences = np.bincount(bins, confidences - is_right)
  return float(np.abs(differences).sum() / len(confidences))
