"""The optimizer and the learning rate schedule of the original release."""

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bert_tf import names
from bert_tf.modeling import Tensor

if TYPE_CHECKING:
  from bert_tf.layers import mixed_precision


class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
  """Rises linearly to init_lr, then falls linearly to 0.

  The fall starts from step 0 of the whole schedule, not from the end of the
  warm-up, so there is a jump between the two, as in the original.

  Raises:
    ValueError: for a number of steps out of range.
  """

  def __init__(
    self, init_lr: float, num_train_steps: int, num_warmup_steps: int
  ) -> None:
    if num_train_steps < 1:
      raise ValueError(f"num_train_steps is {num_train_steps}; at least 1.")
    if num_warmup_steps < 0:
      raise ValueError(f"num_warmup_steps is {num_warmup_steps}; at least 0.")
    self.init_lr = init_lr
    self.num_train_steps = num_train_steps
    self.num_warmup_steps = num_warmup_steps

  def __call__(self, step: Tensor) -> Tensor:
    """Returns the float32 learning rate of the update after `step` updates."""
    # Rounded as TF 1 rounded once it had folded the constants: the inverse of
    # the steps first, and in the warm-up its product with the peak.
    inverse = np.float32(1.0) / np.float32(self.num_train_steps)
    done = ops.cast(ops.minimum(step, self.num_train_steps), "float32")
    decayed = self.init_lr * (1.0 - done * inverse)
    if not self.num_warmup_steps:
      return decayed
    inverse = np.float32(1.0) / np.float32(self.num_warmup_steps)
    slope = np.float32(self.init_lr) * inverse
    warming = ops.cast(step, "float32") * slope
    return ops.where(step < self.num_warmup_steps, warming, decayed)

  def get_config(self) -> dict[str, Any]:
    """Returns the arguments."""
    return {
      "init_lr": self.init_lr,
      "num_train_steps": self.num_train_steps,
      "num_warmup_steps": self.num_warmup_steps,
    }


class Gradients(NamedTuple):
  """Gradients of a batch, or of a part of it; those of parts can be added."""

  # One for each variable that has a gradient, of its shape.
  dense: list[Tensor]
  # By position in `dense`, float32 []: the sum of squares of a gradient that
  # was sparse. Rows of the same index are squared before they are added up, as
  # in the original. Fine-tuning has such a gradient, of the word embeddings; in
  # pre-training it is dense, since the output layer shares them.
  row_squares: dict[int, Tensor]


def as_gradients(gradients: Sequence[Any]) -> Gradients:
  """Returns gradients, dense or IndexedSlices, in a form that can be added."""
  dense, row_squares = [], {}
  for i, gradient in enumerate(gradients):
    if hasattr(gradient, "dense_shape"):
      row_squares[i] = _square_sum(gradient.values)
      # Dense, because the moments decay in every row.
      rows = ops.expand_dims(gradient.indices, -1)
      gradient = ops.scatter(rows, gradient.values, gradient.dense_shape)
    dense.append(gradient)
  return Gradients(dense, row_squares)


class _Scaled(NamedTuple):
  """A gradient that is multiplied where it is used, which saves a copy."""

  gradient: Tensor
  factor: Tensor  # float32 [].


def global_norm(gradients: Gradients) -> Tensor:
  """Returns the float32 L2 norm of all gradients together."""
  squares = [
    gradients.row_squares[i]
    if i in gradients.row_squares
    else _square_sum(gradient)
    for i, gradient in enumerate(gradients.dense)
  ]
  return ops.sqrt(sum(squares))


def clip_factor(norm: Tensor, clip_norm: float) -> Tensor:
  """Returns what gradients are multiplied by so that their norm is clip_norm.

  It is 1 for gradients of a smaller norm, and NaN where it is not finite.
  """
  factor = clip_norm * ops.minimum(1.0 / norm, 1.0 / clip_norm)
  return factor + (norm - norm)


def _summed_over_replicas(gradients: Gradients) -> Gradients:
  """Returns the gradients of the whole batch from those of its parts."""
  if keras.backend.backend() != "tensorflow":
    return gradients
  from bert_tf import distribution

  return distribution.all_reduce_sum(gradients)


def _square_sum(values: Tensor) -> Tensor:
  values = ops.cast(values, "float32")
  if keras.backend.backend() != "tensorflow":
    return ops.sum(ops.square(values))
  import tensorflow as tf

  return 2.0 * tf.nn.l2_loss(values)  # As the original; it passes once.


def variable_name(variable: Any) -> str:
  """Returns the name that a variable has in the original's checkpoints.

  `variable` belongs to Keras or, as a `tf.Variable`, to TensorFlow.
  """
  if hasattr(variable, "path"):
    return variable.path
  return variable.name.removesuffix(":0")


class AdamWeightDecayOptimizer(keras.optimizers.Optimizer):
  """Adam without bias correction, with weight decay beside the moments.

  m = beta_1 m + (1 - beta_1) g;  v = beta_2 v + (1 - beta_2) g^2;
  w -= lr (m / (sqrt(v) + epsilon) + weight_decay_rate w).

  Args:
    learning_rate: a number or a schedule.
    weight_decay_rate: of w, per update and learning rate.
    beta_1: decay of the first moment, `adam_m`.
    beta_2: decay of the second moment, `adam_v`.
    epsilon: added to the root of the second moment.
    exclude_from_weight_decay: regular expressions; a variable in whose name
      one of them is found does not decay.
    clip_norm: the largest global norm of the gradients.
    layerwise_lr_decay: factor of the learning rate from each layer to the one
      below it; see `rate_scales`.

  Attributes:
    loss_scale: a precision.LossScale if the loss was multiplied by it, or
      None. A step whose gradients are not finite then changes nothing.
  """

  def __init__(
    self,
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
    weight_decay_rate: float = 0.0,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    exclude_from_weight_decay: Sequence[str] = (),
    clip_norm: float = 1.0,
    layerwise_lr_decay: float = 1.0,
    name: str = "AdamWeightDecayOptimizer",
  ) -> None:
    super().__init__(learning_rate=learning_rate, name=name)
    self.weight_decay_rate = weight_decay_rate
    self.beta_1 = beta_1
    self.beta_2 = beta_2
    self.epsilon = epsilon
    self.decay_exclusions = tuple(exclude_from_weight_decay)
    self.clip_norm = clip_norm
    self.layerwise_lr_decay = layerwise_lr_decay
    self.loss_scale: mixed_precision.LossScale | None = None

  def build(self, variables: Sequence[keras.Variable]) -> None:
    """Makes the moments, zero, of the variables that will be trained."""
    if self.built:
      return
    super().build(variables)
    self.adam_m, self.adam_v = self.add_optimizer_variables(
      variables, ["adam_m", "adam_v"]
    )
    paths = [variable_name(variable) for variable in variables]
    self.decays = [self._decays(path) for path in paths]
    self.rate_scales = rate_scales(paths, self.layerwise_lr_decay)

  @property
  def schedule(self) -> keras.optimizers.schedules.LearningRateSchedule | None:
    """The schedule of the learning rate, None if that is a number."""
    rate = self._learning_rate
    is_schedule = isinstance(
      rate, keras.optimizers.schedules.LearningRateSchedule
    )
    return rate if is_schedule else None

  def slots(self) -> dict[str, keras.Variable]:
    """Returns the moments by their names in the original's checkpoints.

    The state of the loss scale and of the schedule are among them, if there is
    one.
    """
    slots = self.loss_scale.variables() if self.loss_scale else {}
    slots |= getattr(self.schedule, "state", {})
    for variable, m, v in zip(
      self._trainable_variables, self.adam_m, self.adam_v
    ):
      name = variable_name(variable)
      slots[f"{name}/adam_m"] = m
      slots[f"{name}/adam_v"] = v
    return slots

  def apply(
    self,
    grads: Sequence[Tensor | None],
    trainable_variables: Sequence[keras.Variable] | None = None,
  ) -> None:
    """Sums the gradients over replicas, clips them and takes one step."""
    given = [gradient for gradient in grads if gradient is not None]
    found, _ = self._summed_and_clipped(as_gradients(given))
    remaining = iter(found)
    clipped = [None if grad is None else next(remaining) for grad in grads]
    super().apply(clipped, trainable_variables)

  def apply_parts(
    self, gradients: Gradients, trainable_variables: Sequence[keras.Variable]
  ) -> Tensor:
    """Does the same as `apply`, for added-up gradients of a replica's part.

    Returns:
      The global norm before clipping, float32 [].
    """
    clipped, norm = self._summed_and_clipped(gradients)
    super().apply(clipped, trainable_variables)
    return norm

  def _summed_and_clipped(
    self, gradients: Gradients
  ) -> tuple[list[_Scaled], Tensor]:
    """Returns the clipped gradients of the whole batch, and their norm."""
    gradients = _summed_over_replicas(gradients)
    norm = global_norm(gradients)
    if self.loss_scale is None:
      factor = clip_factor(norm, self.clip_norm)
    else:
      inverse = 1.0 / self.loss_scale.scale
      norm = norm * inverse
      factor = clip_factor(norm, self.clip_norm) * inverse
      self.loss_scale.update(ops.isfinite(norm))
    return [_Scaled(gradient, factor) for gradient in gradients.dense], norm

  def _all_reduce_sum_gradients(self, pairs: Any) -> Any:
    """Returns gradients unchanged: they are summed already, before clipping."""
    return pairs

  def update_step(
    self, gradient: _Scaled, variable: keras.Variable, learning_rate: Tensor
  ) -> None:
    """Updates one variable and its moments."""
    index = self._get_variable_index(variable)
    changed = variable, self.adam_m[index], self.adam_v[index]
    rate = self.rate_scales[index] * learning_rate
    values = self._compute(self.decays[index], rate, *gradient, *changed)
    for one, value in zip(changed, values, strict=True):
      self.assign(one, value)

  @functools.cached_property
  def _compute(self) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """`_next_values`; on a CPU compiled by XLA, whatever the rest of a step is.

    It passes over the values once then, not for each sum and product.
    """
    if keras.backend.backend() != "tensorflow":
      return self._next_values
    import tensorflow as tf

    from bert_tf import distribution

    if tf.distribute.has_strategy() or distribution.has_accelerator():
      return self._next_values
    compiled = tf.function(self._next_values, jit_compile=True, autograph=False)
    # Looking up what was traced takes longer than a call of it.
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
    """Returns what a variable and its moments become."""
    gradient = gradient * factor
    next_m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
    next_v = self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient)
    update = rate * self._update(next_m, next_v, variable, decays)
    if self.loss_scale:
      # One gradient that is not finite makes all of them NaN when clipped.
      is_finite = ops.isfinite(gradient)
      next_m = ops.where(is_finite, next_m, m)
      next_v = ops.where(is_finite, next_v, v)
      update = ops.where(is_finite, update, 0.0)
    return variable - update, next_m, next_v

  def _update(
    self, m: Tensor, v: Tensor, variable: Tensor, decays: bool
  ) -> Tensor:
    """Returns the update before the learning rate, from the new moments."""
    update = m / (ops.sqrt(v) + self.epsilon)
    if decays:
      update = update + self.weight_decay_rate * variable
    return update

  def _decays(self, path: str) -> bool:
    excluded = any(re.search(e, path) for e in self.decay_exclusions)
    return bool(self.weight_decay_rate) and not excluded


class LambOptimizer(AdamWeightDecayOptimizer):
  """LAMB: Adam whose update of each variable is as long as the variable.

  With m' = m / (1 - beta_1^t), v' = v / (1 - beta_2^t) and
  u = m' / (sqrt(v') + epsilon) + weight_decay_rate w:
  w -= lr (|w| / |u|) u, the ratio being 1 where a norm is 0 (You et al. 2020,
  algorithm 2). Variables that do not decay are updated by lr u, as in the
  authors' code.
  """

  def _update(
    self, m: Tensor, v: Tensor, variable: Tensor, decays: bool
  ) -> Tensor:
    """Returns the update before the learning rate, from the new moments."""
    step = ops.cast(self.iterations, "float32") + 1.0
    m = m / (1.0 - self.beta_1**step)
    v = v / (1.0 - self.beta_2**step)
    update = super()._update(m, v, variable, decays)
    if not decays:
      return update
    length = ops.sqrt(_square_sum(variable))
    update_length = ops.sqrt(_square_sum(update))
    has_ratio = ops.logical_and(length > 0, update_length > 0)
    divisor = ops.where(has_ratio, update_length, 1.0)
    return ops.where(has_ratio, length / divisor, 1.0) * update


# By name of the flag.
OPTIMIZERS = {names.ADAMW: AdamWeightDecayOptimizer, names.LAMB: LambOptimizer}


def rate_scales(paths: Sequence[str], decay: float) -> list[float]:
  """Returns a factor of the learning rate for each variable.

  It is 1 above the encoder, `decay` in its highest layer, decay^2 in the next
  one, and smallest in the embeddings (Clark et al. 2020, appendix B).
  """
  found = [re.search(r"bert/encoder/layer_(\d+)/", path) for path in paths]
  depths = [int(match.group(1)) if match else None for match in found]
  num_layers = 1 + max([d for d in depths if d is not None], default=-1)
  scales = []
  for path, depth in zip(paths, depths):
    below = 0 if depth is None else num_layers - depth
    if path.startswith("bert/embeddings/"):
      below = num_layers + 1
    scales.append(decay**below)
  return scales


def freeze(variables: Sequence[keras.Variable], num_layers: int | None) -> None:
  """Makes the embeddings and the first encoder layers untrainable.

  They get no gradient, decay or moments and do not count in the norm of the
  gradients. Dropout inside them stays on. With num_layers 0 these are the
  embeddings alone, with None nothing.
  """
  if num_layers is None:
    return
  frozen = ("bert/embeddings/",) + tuple(
    f"bert/encoder/layer_{i}/" for i in range(num_layers)
  )
  for variable in variables:
    if variable_name(variable).startswith(frozen):
      variable.trainable = False


def create_optimizer(
  init_lr: float,
  num_train_steps: int,
  num_warmup_steps: int,
  optimizer: str = names.ADAMW,
  layerwise_lr_decay: float = 1.0,
  schedule: keras.optimizers.schedules.LearningRateSchedule | None = None,
) -> AdamWeightDecayOptimizer:
  """Returns the optimizer of the original's pre-training and fine-tuning.

  It is one of OPTIMIZERS, with a linear warm-up (see WarmupLinearDecay) and, if
  asked for, a layerwise_lr_decay (see `rate_scales`). A schedule takes the
  place of the first three arguments.
  """
  if schedule is None:
    schedule = WarmupLinearDecay(init_lr, num_train_steps, num_warmup_steps)
  return OPTIMIZERS[optimizer](
    learning_rate=schedule,
    weight_decay_rate=0.01,
    exclude_from_weight_decay=("LayerNorm", "layer_norm", "bias"),
    layerwise_lr_decay=layerwise_lr_decay,
  )
