"""The optimizer and the learning rate schedule of the original release."""

import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_tf.modeling import Tensor


class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
  """Rises linearly to init_lr, then falls linearly to 0.

  The fall starts from step 0 of the whole schedule, not from the end of the
  warm-up, so there is a jump between the two, as in the original.

  Args:
    init_lr: the peak learning rate.
    num_train_steps: steps at whose end the learning rate is 0; at least 1.
    num_warmup_steps: steps of the rise; 0 for none.

  Raises:
    ValueError: for a number of steps out of range.
  """

  def __init__(
    self, init_lr: float, num_train_steps: int, num_warmup_steps: int
  ):
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


def global_norm(gradients: Sequence[Tensor]) -> Tensor:
  """Returns the float32 L2 norm of all gradients together.

  Rows of a sparse gradient that belong to the same index count apart, as in
  the original. That concerns fine-tuning; in pre-training the gradient of the
  word embeddings is dense, since the output layer shares them.
  """
  squares = [
    ops.sum(ops.square(ops.cast(_values(gradient), "float32")))
    for gradient in gradients
  ]
  return ops.sqrt(sum(squares))


def clip_by_global_norm(
  gradients: Sequence[Tensor], clip_norm: float
) -> list[Tensor]:
  """Returns dense gradients, scaled down so that their norm is clip_norm.

  Smaller ones are left as they are; a norm that is not finite makes every
  gradient NaN.
  """
  norm = global_norm(gradients)
  scale = clip_norm * ops.minimum(1.0 / norm, 1.0 / clip_norm)
  scale = scale + (norm - norm)
  # A sparse gradient becomes dense here: its moments decay in every row.
  return [ops.convert_to_tensor(gradient) * scale for gradient in gradients]


def _values(gradient: Tensor) -> Tensor:
  """Returns the rows of a sparse gradient, or the dense gradient."""
  is_sparse = hasattr(gradient, "indices") and hasattr(gradient, "values")
  return gradient.values if is_sparse else gradient


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
    exclude_from_weight_decay: regular expressions; a variable in whose path
      one of them is found does not decay.
    clip_norm: the largest global norm of the gradients.
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
    name: str = "AdamWeightDecayOptimizer",
  ):
    super().__init__(learning_rate=learning_rate, name=name)
    self.weight_decay_rate = weight_decay_rate
    self.beta_1 = beta_1
    self.beta_2 = beta_2
    self.epsilon = epsilon
    self.decay_exclusions = tuple(exclude_from_weight_decay)
    self.clip_norm = clip_norm

  def build(self, variables: Sequence[keras.Variable]) -> None:
    """Makes the moments, zero, of the variables that will be trained."""
    if self.built:
      return
    super().build(variables)
    self.adam_m, self.adam_v = self.add_optimizer_variables(
      variables, ["adam_m", "adam_v"]
    )
    self.decays = [self._decays(variable.path) for variable in variables]

  def slots(self) -> dict[str, keras.Variable]:
    """Returns the moments by their names in the original's checkpoints."""
    slots = {}
    for variable, m, v in zip(
      self._trainable_variables, self.adam_m, self.adam_v
    ):
      slots[f"{variable.path}/adam_m"] = m
      slots[f"{variable.path}/adam_v"] = v
    return slots

  def apply(
    self,
    grads: Sequence[Tensor],
    trainable_variables: Sequence[keras.Variable] | None = None,
  ) -> None:
    """Clips the gradients and takes one step."""
    given = [gradient for gradient in grads if gradient is not None]
    clipped = iter(clip_by_global_norm(given, self.clip_norm))
    grads = [None if grad is None else next(clipped) for grad in grads]
    super().apply(grads, trainable_variables)

  def update_step(
    self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor
  ) -> None:
    """Updates one variable and its moments."""
    index = self._get_variable_index(variable)
    m, v = self.adam_m[index], self.adam_v[index]
    next_m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
    next_v = self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient)
    update = next_m / (ops.sqrt(next_v) + self.epsilon)
    if self.decays[index]:
      update = update + self.weight_decay_rate * variable
    self.assign(m, next_m)
    self.assign(v, next_v)
    self.assign_sub(variable, learning_rate * update)

  def _decays(self, path: str) -> bool:
    excluded = any(re.search(e, path) for e in self.decay_exclusions)
    return bool(self.weight_decay_rate) and not excluded


def freeze(variables: Sequence[keras.Variable], num_layers: int | None) -> None:
  """Makes the embeddings and the first encoder layers untrainable.

  They get no gradient, no decay and no moments, and count in no norm.
  Dropout inside them goes on.

  Args:
    variables: of a model.
    num_layers: how many encoder layers; 0 for the embeddings alone, None for
      nothing.
  """
  if num_layers is None:
    return
  frozen = ("bert/embeddings/",) + tuple(
    f"bert/encoder/layer_{i}/" for i in range(num_layers)
  )
  for variable in variables:
    if variable.path.startswith(frozen):
      variable.trainable = False


def create_optimizer(
  init_lr: float, num_train_steps: int, num_warmup_steps: int
) -> AdamWeightDecayOptimizer:
  """Returns the optimizer of the original's pre-training and fine-tuning.

  Args:
    init_lr: the peak learning rate.
    num_train_steps: steps until the learning rate is 0.
    num_warmup_steps: steps of linear warm-up, 0 for none.
  """
  return AdamWeightDecayOptimizer(
    learning_rate=WarmupLinearDecay(init_lr, num_train_steps, num_warmup_steps),
    weight_decay_rate=0.01,
    exclude_from_weight_decay=("LayerNorm", "layer_norm", "bias"),
  )
