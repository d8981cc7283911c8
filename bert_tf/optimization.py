"""The optimizer and learning-rate schedule of the original release.

    m = beta_1 * m + (1 - beta_1) * g
    v = beta_2 * v + (1 - beta_2) * g^2
    w -= lr * (m / (sqrt(v) + epsilon) + weight_decay_rate * w)

This is Adam with decoupled weight decay, but without Adam's bias correction.
The moments start at 0, so the first update is (1 - beta_1) / sqrt(1 - beta_2),
about 3, times as large as with the correction. Warm-up keeps these updates
small. Without the correction, fine-tuning on little data fails more often
(Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning", section 4).

Weight decay is added to the update, not to the loss: the gradient of an L2 loss
would be divided by sqrt(v) like any other, so weights with large gradients
would decay less (Loshchilov & Hutter 2019). Layer norms and biases do not
decay.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf import distribution, names
from bert_tf.model.kernels import backend
from bert_tf.model.tensor import Tensor


@keras.saving.register_keras_serializable("bert_tf")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
  """Rises linearly to init_lr, then falls linearly to 0.

  Devlin et al. 2019, appendix A.2. The line of the decay begins with init_lr at
  step 0, not at the end of the warm-up. The rate therefore jumps down a little
  when the warm-up ends, as in the original.

  Args:
    init_lr: peak learning rate.
    num_train_steps: steps until the rate is 0.
    num_warmup_steps: steps of the warm-up.
  """

  def __init__(
    self, init_lr: float, num_train_steps: int, num_warmup_steps: int
  ) -> None:
    self.init_lr = init_lr
    self.num_train_steps = num_train_steps
    self.num_warmup_steps = num_warmup_steps

  def __call__(self, step: Tensor) -> Tensor:
    """Returns the float32 learning rate of the update after `step` updates."""
    # The order of these operations gives the bits of TF 1, which folded the
    # constants: it rounded 1 / steps first and, in the warm-up, its product
    # with init_lr.
    inverse = np.float32(1.0) / np.float32(self.num_train_steps)
    num_steps = ops.cast(ops.minimum(step, self.num_train_steps), "float32")
    decayed = self.init_lr * (1.0 - num_steps * inverse)
    if not self.num_warmup_steps:
      return decayed
    inverse = np.float32(1.0) / np.float32(self.num_warmup_steps)
    slope = np.float32(self.init_lr) * inverse
    warming = ops.cast(step, "float32") * slope
    return ops.where(step < self.num_warmup_steps, warming, decayed)

  def get_config(self) -> dict[str, Any]:
    """Returns the constructor's arguments by name."""
    return dict(vars(self))


class Gradients(NamedTuple):
  """Gradients of a batch or micro-batch; fields add up over micro-batches."""

  # One gradient for each trained variable, of the same shape.
  dense: list[Tensor]
  # For each gradient that was sparse, by its index in `dense`: the sum of the
  # squares of its rows, float32 []. Rows of the same index are squared before
  # they are added, as in the original. In fine-tuning the gradient of the word
  # embeddings is sparse. In pre-training it is dense, since the output layer
  # shares them.
  row_squares: dict[int, Tensor]


def to_dense(gradients: Sequence[Any]) -> Gradients:
  """Makes tf.IndexedSlices dense and records the square sums of their rows."""
  dense, row_squares = [], {}
  for i, gradient in enumerate(gradients):
    if isinstance(gradient, tf.IndexedSlices):
      row_squares[i] = square_sum(gradient.values)
      # Adam's moments decay in every row, so sparse updates gain nothing.
      rows = ops.expand_dims(gradient.indices, -1)
      gradient = ops.scatter(rows, gradient.values, gradient.dense_shape)
    dense.append(gradient)
  return Gradients(dense, row_squares)


def global_norm(gradients: Gradients) -> Tensor:
  """Returns the float32 L2 norm of all gradients together."""
  squares = []
  for i, gradient in enumerate(gradients.dense):
    if i in gradients.row_squares:
      squares.append(gradients.row_squares[i])
    elif backend.in_gpu_program():
      square = ops.square(ops.cast(gradient, "float32"))
      squares.append(ops.sum(square, axis=tuple(range(1, len(square.shape)))))
    else:
      squares.append(square_sum(gradient))
  if backend.in_gpu_program():
    # One kernel adds up what would take XLA one or two for each gradient.
    flat = ops.concatenate([ops.reshape(x, [-1]) for x in squares])
    squares = [ops.sum(*backend.materialize(flat))]
  return ops.sqrt(sum(squares))


def clip_factor(norm: Tensor, clip_norm: float) -> Tensor:
  """Returns the factor that limits the global norm of gradients.

  One factor for all variables keeps the direction of the update, unlike
  clipping each gradient (Pascanu et al. 2013).

  The norm and the factor are float32 []; the factor of a norm that is not
  finite is NaN. The 2018 release has a clip_norm of 1.0.
  """
  factor = clip_norm * ops.minimum(1.0 / norm, 1.0 / clip_norm)
  return factor + (norm - norm)


def square_sum(values: Tensor) -> Tensor:
  """Returns the sum of squares, float32 []."""
  # As in the original's tf.global_norm; l2_loss reads the values once.
  return 2.0 * tf.nn.l2_loss(ops.cast(values, "float32"))


class Scaled(NamedTuple):
  """A gradient and its factor; the update multiplies them, to save a copy."""

  gradient: Tensor
  factor: Tensor  # float32 [].


@keras.saving.register_keras_serializable("bert_tf")
class AdamWeightDecayOptimizer(keras.optimizers.Optimizer):
  """Adam without bias correction, with decoupled weight decay.

  The module's docstring has the update. The defaults of beta_1 and beta_2 are
  those of Devlin et al. 2019, appendix A.2.

  Args:
    learning_rate: a number or a schedule.
    weight_decay_rate: fraction of a weight that an update of learning rate 1
      subtracts.
    beta_1: decay of the first moment, `adam_m`.
    beta_2: decay of the second moment, `adam_v`.
    epsilon: added to the square root of the second moment. The original's 1e-6.
    exclude_from_weight_decay: regular expressions. A variable whose name
      matches one of them does not decay.
    global_clipnorm: the largest global norm of the gradients; None for any. The
      original's is 1.0.
  """

  def __init__(
    self,
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
    weight_decay_rate: float = 0.0,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    exclude_from_weight_decay: Sequence[str] = (),
    global_clipnorm: float | None = 1.0,
    name: str = "AdamWeightDecayOptimizer",
  ) -> None:
    super().__init__(learning_rate, global_clipnorm=global_clipnorm, name=name)
    self.weight_decay_rate = weight_decay_rate
    self.beta_1 = beta_1
    self.beta_2 = beta_2
    self.epsilon = epsilon
    self.decay_exclusions = tuple(exclude_from_weight_decay)

  def get_config(self) -> dict[str, Any]:
    """Returns the constructor's arguments by name."""
    config = super().get_config()
    saved = ("learning_rate", "global_clipnorm", "name")
    numbers = ("weight_decay_rate", "beta_1", "beta_2", "epsilon")
    return {
      **{name: config[name] for name in saved},
      **{name: getattr(self, name) for name in numbers},
      "exclude_from_weight_decay": self.decay_exclusions,
    }

  def build(self, variables: Sequence[keras.Variable]) -> None:
    """Creates the moments of the trained variables, which start at 0."""
    if self.built:
      return
    super().build(variables)
    moments = self.add_optimizer_variables(variables, ["adam_m", "adam_v"])
    self.adam_m, self.adam_v = moments
    self.decays = [
      bool(self.weight_decay_rate)
      and not any(re.search(e, v.path) for e in self.decay_exclusions)
      for v in variables
    ]

  def update_step(
    self,
    gradient: Tensor | Scaled,
    variable: keras.Variable,
    learning_rate: Tensor,
  ) -> None:
    """Updates one variable and its moments."""
    if not isinstance(gradient, Scaled):
      gradient = Scaled(ops.convert_to_tensor(gradient), ops.ones([]))
    index = self._get_variable_index(variable)
    changed = variable, self.adam_m[index], self.adam_v[index]
    arguments = self.decays[index], learning_rate, *gradient, *changed
    for old, value in zip(changed, self._compute(*arguments), strict=True):
      self.assign(old, value)

  @functools.cached_property
  def _compute(self) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """`_next_values`, compiled by XLA on a CPU without a strategy.

    Compiled, the update reads and writes each value once. TensorFlow's ops
    would do so for each sum and product.
    """
    if tf.distribute.has_strategy() or distribution.has_accelerator():
      return self._next_values
    compiled = tf.function(self._next_values, jit_compile=True, autograph=False)
    # tf.function takes longer to look up a trace than to run it.
    traced = functools.cache(compiled.get_concrete_function)

    def compute(decays: bool, *args: Tensor) -> tuple[Tensor, Tensor, Tensor]:
      tensors = [tf.convert_to_tensor(arg) for arg in args]
      specs = (tf.TensorSpec(x.shape, x.dtype) for x in tensors)
      return traced(decays, *specs)(*tensors)

    return compute

  def _next_values(
    self,
    decays: bool,
    rate: Tensor,
    gradient: Tensor,
    factor: Tensor,
    variable: Tensor,
    m: Tensor,
    v: Tensor,
  ) -> tuple[Tensor, Tensor, Tensor]:
    gradient = gradient * factor
    next_m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
    next_v = self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient)
    update = next_m / (ops.sqrt(next_v) + self.epsilon)
    if decays:
      update = update + self.weight_decay_rate * variable
    return variable - rate * update, next_m, next_v


def freeze(variables: Sequence[keras.Variable], num_layers: int | None) -> None:
  """Freezes the embeddings and the first encoder layers.

  Frozen variables have no gradient, decay or moments and no part in the global
  norm. Dropout inside these layers stays on.

  With num_layers 0 only the embeddings are frozen, with None nothing.
  """
  if num_layers is None:
    return
  layers = (f"bert/encoder/layer_{i}/" for i in range(num_layers))
  frozen = ("bert/embeddings/", *layers)
  for variable in variables:
    if variable.path.startswith(frozen):
      variable.trainable = False


def create_optimizer(
  init_lr: float,
  num_train_steps: int,
  num_warmup_steps: int,
  *of_2018: NoReturn,
  schedule: keras.optimizers.schedules.LearningRateSchedule | None = None,
) -> AdamWeightDecayOptimizer:
  """Returns the optimizer of the original's pre-training and fine-tuning.

  Args:
    init_lr: peak learning rate of a WarmupLinearDecay.
    num_train_steps: steps until the rate is 0.
    num_warmup_steps: steps of the warm-up.
    *of_2018: none; a call with the arguments of 2018 raises TypeError.
    schedule: a schedule to use instead of WarmupLinearDecay, if given. The
      first three arguments are then ignored.
  """
  if of_2018:  # The loss was the first of five arguments.
    raise TypeError(f"create_optimizer takes no loss. {names.OLD_NAMES}")
  if schedule is None:
    schedule = WarmupLinearDecay(init_lr, num_train_steps, num_warmup_steps)
  return AdamWeightDecayOptimizer(
    learning_rate=schedule,
    weight_decay_rate=0.01,  # Devlin et al. 2019, appendix A.2.
    # As in the 2018 release (optimization.create_optimizer).
    exclude_from_weight_decay=("LayerNorm", "layer_norm", "bias"),
  )
