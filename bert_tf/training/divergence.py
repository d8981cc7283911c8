"""Stops a diverged training before its weights are saved."""

import math
from collections.abc import Mapping
from typing import NoReturn

import tensorflow as tf

from bert_tf import checkpoints
from bert_tf.files import errors

# A loss is too high above this multiple of the first loss, or of 1 if the first
# is lower. An untrained model has a cross entropy of log(number of classes).
_FACTOR = 100

# A single high loss may be a batch with an outlier.
_NUM_IN_A_ROW = 3


class DivergedError(ValueError):
  """A loss is far above the run's first loss, or a value is not finite."""


class LossCheck:
  """Checks the losses and weights of a training in the folder `output_dir`."""

  def __init__(self, output_dir: str) -> None:
    self._output_dir = output_dir
    self._first: float | None = None
    self._num_high = 0

  def add(self, step: int, loss: float, gradient_norm: float) -> None:
    """Adds the mean loss and norm of a group of steps that ends at `step`.

    Raises:
      DivergedError: if the loss or the norm is not finite, or if the loss was
        too high three times in a row.
    """
    if self._first is None:
      self._first = loss
    is_high = loss > _FACTOR * max(1.0, self._first)
    self._num_high = self._num_high + 1 if is_high else 0
    if not math.isfinite(loss) or self._num_high >= _NUM_IN_A_ROW:
      self._stop(
        f"the loss rose from {self._first:.4g} to {loss:.4g} by step {step}"
      )
    # It makes every weight NaN, which the loss shows only one step later.
    if not math.isfinite(gradient_norm):
      self._stop(f"the gradients became {gradient_norm} by step {step}")

  def check_weights(self, step: int, tensors: Mapping[str, tf.Tensor]) -> None:
    """Raises DivergedError if a tensor to save is not finite."""
    floats = {n: t for n, t in tensors.items() if t.dtype.is_floating}
    # One call, since reading each result alone would wait for the device.
    are_finite = tf.stack(
      [tf.reduce_all(tf.math.is_finite(t)) for t in floats.values()]
    ).numpy()
    if bad := [n for n, is_finite in zip(floats, are_finite) if not is_finite]:
      self._stop(
        f"{errors.join_names(bad, 3)} are not finite after step {step}, which "
        "is not saved"
      )

  def _stop(self, what: str) -> NoReturn:
    raise DivergedError(
      f"{what}; the last checkpoint is "
      f"{checkpoints.find_latest(self._output_dir)}. Lower `learning_rate`."
    )
