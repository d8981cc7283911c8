"""Compilation modes: how much of a training step XLA compiles.

PLAIN: TensorFlow runs the step op by op.
WHOLE: on one accelerator XLA compiles the whole step. On a CPU, or on several
  devices, it compiles the gradients of each micro-batch.
CLUSTERED: XLA compiles the clusters of ops between the matrix products.
  TensorFlow computes the products, since on a CPU its own are faster than XLA's
  and only they use the bfloat16 units.

On a CPU the original's optimizers compile the update of each variable in all
modes; see `optimization`.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from bert_tf import distribution, names, optimization
from bert_tf.model.kernels import backend, clusters
from bert_tf.model.losses import Sums
from bert_tf.model.tensor import Tensor
from bert_tf.training.config import TrainConfig
from bert_tf.training.objective import Features

# Computes the gradients of (features, weights, micro_batch).
GradientsFn = Callable[
  [Features, dict[str, Tensor], tf.Tensor], tuple[Sums, optimization.Gradients]
]

# The largest hidden size for which WHOLE is the fastest mode on a CPU in
# float32. The products of wider models take most of a step, and XLA's are
# slower than TensorFlow's. docs/speed.md has the measurements.
_MAX_HIDDEN_SIZE_OF_WHOLE = 256

# Shorter runs on a CPU end before the 5 to 40 seconds of compiling pay off.
_MIN_STEPS = 200
_MIN_SECONDS = 120.0


class Mode(enum.Enum):
  """The part of a training step that XLA compiles."""

  PLAIN = "plain"
  CLUSTERED = "clustered"
  WHOLE = "whole"

  def compile_gradients(self, function: GradientsFn) -> GradientsFn:
    """Returns a function that computes the gradients of a micro-batch."""
    if self.compiles_step:
      # A tf.function inside the compiled step would be compiled anew at every
      # step whose batch has another width than the last.
      return function
    if self is Mode.CLUSTERED:
      if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return clusters.compiled(function)
      # With several replicas TensorFlow inlines the function, so Grappler's
      # passes cannot be switched off for it only.
      function = clusters.marked(function)
    # None leaves the choice to TensorFlow, which always compiles for a TPU.
    jit_compile = True if self is Mode.WHOLE else None
    if jit_compile:
      function = _for_gpus(function)
    compiled: GradientsFn = tf.function(
      function, jit_compile=jit_compile, autograph=False
    )
    return compiled

  def mark_step(self, function: Callable[..., Sums]) -> Callable[..., Sums]:
    """Tells kernels if XLA compiles the function, a whole step, for a GPU."""
    return _for_gpus(function) if self.compiles_step else function

  @property
  def compiles_step(self) -> bool:
    """Whether XLA compiles the whole step, on one accelerator."""
    num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
    is_whole = self is Mode.WHOLE and num_replicas == 1
    return is_whole and distribution.has_accelerator()


def choose_mode(
  config: TrainConfig,
  hidden_size: int | None,
  element_spec: Mapping[str, tf.TensorSpec],
) -> Mode:
  """Returns the mode of a run, which depends on its settings only.

  XLA would compile a program for each batch width, so on a CPU `auto` compiles
  only if `element_spec` has fixed shapes. There, XLA fuses the many small
  operations of a narrow model. A wide model spends its time in products, and in
  16 bits those of XLA are several times slower than TensorFlow's.
  `hidden_size` is None without BERT.
  """
  if config.use_xla is not None:
    return Mode.WHOLE if config.use_xla else Mode.PLAIN
  if distribution.device_kind() != "CPU":
    return Mode.WHOLE
  is_short = config.num_train_steps < _MIN_STEPS
  if config.train_seconds:
    is_short = config.train_seconds < _MIN_SECONDS
  is_fixed = all(s.shape.is_fully_defined() for s in element_spec.values())
  if is_short or not is_fixed or hidden_size is None:
    return Mode.PLAIN
  is_float32 = names.PRECISIONS[config.precision] == "float32"
  is_narrow = hidden_size <= _MAX_HIDDEN_SIZE_OF_WHOLE
  return Mode.WHOLE if is_float32 and is_narrow else Mode.CLUSTERED


def _for_gpus(function: Callable[..., Any]) -> Callable[..., Any]:
  if tf.config.list_logical_devices("GPU"):
    return backend.gpu_program()(function)
  return function
