"""Compilation modes: how much of a training step XLA compiles.

PLAIN: TensorFlow runs the step op by op.
WHOLE: on one accelerator XLA compiles the whole step. On a CPU, or on several
  devices, it compiles the gradients of each micro-batch.
CLUSTERED: XLA compiles the clusters of ops between the matrix products.
  TensorFlow computes the products, since on a CPU its own are faster than XLA's
  and only they use the bfloat16 units.

On a CPU the update of each variable is compiled in all modes; see
`optimization`.
"""

import abc
import os
from collections.abc import Callable
from typing import Any, ClassVar

import tensorflow as tf

from bert_tf import distribution, gradients
from bert_tf.kernels import backend, clusters
from bert_tf.losses import Sums
from bert_tf.tensor import Tensor
from bert_tf.training import objective
from bert_tf.training.objective import Features

_SumsAndGradients = tuple[Sums, gradients.Gradients]

# Computes the gradients of (features, weights, micro_batch, half).
_HalfFn = Callable[
  [Features, dict[str, Tensor], tf.Tensor, tf.Tensor | int], _SumsAndGradients
]
# Computes the gradients of (features, weights, micro_batch).
GradientsFn = Callable[
  [Features, dict[str, Tensor], tf.Tensor], _SumsAndGradients
]


class Mode(abc.ABC):
  """The part of a training step that XLA compiles.

  Attributes:
    name: the mode's name.
    use_xla: value of the mode in use_xla.json.
    time_key: key of the milliseconds of a step in use_xla.json.
  """

  name: ClassVar[str]
  use_xla: ClassVar[bool | str]
  time_key: ClassVar[str]

  @property
  def compiles_dropout_masks(self) -> bool:
    """Whether XLA compiles each dropout mask, although not the step itself."""
    return False

  @abc.abstractmethod
  def compile_gradients(self, function: _HalfFn) -> GradientsFn:
    """Returns a function that computes the gradients of a micro-batch.

    Call it in the scope of the strategy.
    """

  def compile_step(self, function: Callable[[Features], Sums]) -> Any:
    """Returns a tf.function of the whole step on all replicas."""
    return _function(function)


class _Plain(Mode):
  name = "plain"
  use_xla = False
  time_key = "plain_ms"

  @property
  def compiles_dropout_masks(self) -> bool:
    return not distribution.has_accelerator()

  def compile_gradients(self, function: _HalfFn) -> GradientsFn:
    return _undivided(_function(function))


class _Clustered(Mode):
  name = "clustered"
  use_xla = "pieces"
  time_key = "pieces_ms"

  def compile_gradients(self, function: _HalfFn) -> GradientsFn:
    if _num_replicas() == 1:
      return _undivided(clusters.compiled(function))
    # With several replicas TensorFlow inlines the function, so Grappler's
    # passes cannot be switched off for it only.
    return _undivided(_function(clusters.marked(function)))


class _Whole(Mode):
  name = "whole"
  use_xla = True
  time_key = "compiled_ms"

  @property
  def _compiles_step(self) -> bool:
    return _num_replicas() == 1 and distribution.has_accelerator()

  def compile_gradients(self, function: _HalfFn) -> GradientsFn:
    if tf.config.list_logical_devices("GPU"):
      function = _for_gpus(function)
    if self._compiles_step:
      # A tf.function inside the compiled step would be compiled anew at every
      # step whose batch has another width than the last.
      return _undivided(function)
    compiled = _function(function, jit_compile=True)
    return _undivided(compiled) if _num_replicas() > 1 else _in_halves(compiled)

  def compile_step(self, function: Callable[[Features], Sums]) -> Any:
    return _function(function, jit_compile=self._compiles_step or None)


PLAIN = _Plain()
CLUSTERED = _Clustered()
WHOLE = _Whole()
MODES: tuple[Mode, ...] = (PLAIN, CLUSTERED, WHOLE)


def mode_by_use_xla(use_xla: object) -> Mode:
  """Returns the mode of a value in use_xla.json.

  Raises:
    ValueError: if the value names no mode.
  """
  for mode in MODES:
    if use_xla == mode.use_xla:
      return mode
  allowed = [mode.use_xla for mode in MODES]
  raise ValueError(f"use_xla is {use_xla!r}; allowed are {allowed}.")


def compiles_each_width(use_xla: bool | None) -> bool:
  """Returns whether XLA compiles a program for each width of a batch.

  Args:
    use_xla: the setting in TrainConfig.
  """
  return bool(use_xla) or distribution.has_accelerator()


def prepare() -> None:
  """Prepares TensorFlow for a step that may be switched to CLUSTERED later.

  Call it before the first call of a step in any mode.
  """
  clusters.name_rewrites()
  if tf.config.list_logical_devices("GPU"):
    _add_bias_in_products()


def _add_bias_in_products() -> None:
  """Lets XLA use cuBLASLt, which adds the bias of a dense layer itself.

  A step of BERT-Base, 256 x 128, took 47.4 ms instead of 50.6 on an H200.
  XLA reads its flags when it compiles the first program of the process.
  """
  name, flags = "--xla_gpu_enable_cublaslt", os.environ.get("XLA_FLAGS", "")
  # XLA_FLAGS may also name a file of flags.
  if name not in flags and (not flags or flags.startswith("--")):
    os.environ["XLA_FLAGS"] = f"{flags} {name}=true".strip()


def _function(function: Callable, jit_compile: bool | None = None) -> Any:
  # None leaves the choice to TensorFlow, which always compiles for a TPU.
  return tf.function(function, jit_compile=jit_compile, autograph=False)


def _for_gpus(function: _HalfFn) -> _HalfFn:
  """Returns the function with the forms of kernels that GPUs compute."""

  def call(*args: Any) -> _SumsAndGradients:
    with backend.gpu_program():
      return function(*args)

  return call


def _undivided(function: _HalfFn) -> GradientsFn:
  """Returns a function that computes a micro-batch in one call."""
  return lambda features, weights, micro_batch: function(
    features, weights, micro_batch, 0
  )


def _in_halves(function: _HalfFn) -> GradientsFn:
  """Returns a function that computes both halves of a micro-batch in parallel.

  On one core, or without static shapes and an even number of rows, the function
  computes the micro-batch in one call.

  A program of XLA for a CPU leaves cores idle between its matrix products. Two
  programs that run at the same time fill these gaps.
  """

  def compute(
    features: Features, weights: dict[str, Tensor], micro_batch: tf.Tensor
  ) -> _SumsAndGradients:
    if not _has_halves(features) or _num_cores() == 1:
      return function(features, weights, micro_batch, 0)
    # As tensors, the indices are arguments of one compiled program. Python
    # numbers would be constants of two programs.
    first, second = (
      function(
        distribution.select_part(features, i, 2), weights, micro_batch, i
      )
      for i in tf.unstack(tf.range(2))
    )
    return objective.add(first, second)

  return compute


def _has_halves(features: Features) -> bool:
  """Returns whether the shapes are static and the number of rows is even."""
  return all(
    tensor.shape.is_fully_defined() and tensor.shape[0] % 2 == 0
    for tensor in features.values()
  )


def _num_cores() -> int:
  """Returns the number of cores that this process may use."""
  if hasattr(os, "sched_getaffinity"):  # Only on Linux.
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def _num_replicas() -> int:
  return tf.distribute.get_strategy().num_replicas_in_sync
