"""Precision of matrix products: float32, TF32 and 16 bits; the loss scale.

Variables, moments, losses, softmax and the statistics of layer norm stay
float32. TF32 keeps the range of float32 and 10 of its 23 bits of mantissa, in
the factors of products only.
"""

import contextlib
import functools
from collections.abc import Iterator

import keras
import tensorflow as tf
from keras import ops

from bert_tf import names
from bert_tf.model.tensor import Tensor

# Names of a LossScale's state in checkpoints.
STATE = ("loss_scale", "loss_scale_good_steps")

_STEPS_UNTIL_DOUBLED = 2000


@contextlib.contextmanager
def policy_scope(precision: str) -> Iterator[None]:
  """Within this scope, new layers compute in one of names.PRECISIONS."""
  before = keras.config.dtype_policy()
  keras.config.set_dtype_policy(names.PRECISIONS[precision])
  try:
    yield
  finally:
    keras.config.set_dtype_policy(before)


def set_tf32(precision: str) -> None:
  """Rounds float32 products on GPUs to TF32 only if the precision is TF32.

  TensorFlow rounds them by default on GPUs since Ampere. The setting is one of
  the process. It has no effect on other devices.
  """
  is_tf32 = precision == names.TF32
  tf.config.experimental.enable_tensor_float_32_execution(is_tf32)


def check_devices(precision: str) -> None:
  """Raises ValueError if a GPU or TPU cannot compute in a precision.

  CPUs compute in every precision, but slowly in 16 bits without 16-bit units,
  and TF32 is float32 there.
  """
  if precision == "float16" and tf.config.list_logical_devices("TPU"):
    raise ValueError("TPUs have no float16; set `precision=bfloat16`.")
  # The lowest compute capability of GPUs that multiply in each type.
  lowest = {"float16": (7, 0), "bfloat16": (8, 0), names.TF32: (8, 0)}
  needed = lowest.get(precision, (0, 0))
  for device in tf.config.list_physical_devices("GPU"):
    details = tf.config.experimental.get_device_details(device)
    if details.get("compute_capability", needed) < needed:
      raise ValueError(
        f"{details.get('device_name', device.name)} does not compute in "
        f"`precision={precision}`; set `precision=float32`."
      )


class LossScale:
  """The factor of a loss that keeps its gradients in the range of float16.

  The factor is halved when a gradient overflows; that step changes no variable.
  It is doubled after 2,000 consecutive steps without an overflow. This is the
  loss scaling of Micikevicius et al. 2018, section 3.2, with the values of
  Keras' LossScaleOptimizer.
  """

  def __init__(self) -> None:
    make = functools.partial(
      keras.Variable, trainable=False, aggregation="only_first_replica"
    )
    self.scale = make(2.0**15, dtype="float32", name=STATE[0])
    self.good_steps = make(0, dtype="int32", name=STATE[1])

  def variables(self) -> dict[str, keras.Variable]:
    """The state's variables by their names in checkpoints."""
    return {v.name: v for v in (self.scale, self.good_steps)}

  def update(self, is_finite: Tensor) -> None:
    """Adapts the scale, given whether all gradients of a step are finite."""
    scale, good_steps = self.scale.value, self.good_steps.value + 1
    doubles = good_steps >= _STEPS_UNTIL_DOUBLED
    grown = ops.where(doubles, scale * 2.0, scale)
    shrunk = ops.maximum(scale / 2.0, 1.0)
    counted = ops.where(doubles, 0, good_steps)
    self.scale.assign(ops.where(is_finite, grown, shrunk))
    self.good_steps.assign(ops.where(is_finite, counted, 0))
