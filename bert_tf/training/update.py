"""One update of a model's variables, with any optimizer of Keras.

Whatever the optimizer is, gradients are added over replicas, clipped by their
global norm and divided by the loss scale before it sees them.
"""

from typing import Any

import keras
import tensorflow as tf

from bert_tf import distribution, optimization
from bert_tf.checkpoint import checkpoint_names
from bert_tf.model.layers import mixed_precision
from bert_tf.model.tensor import Tensor

# Private members of keras.optimizers.Optimizer that this module and
# `optimization` use, checked with Keras 3.15.1: `_all_reduce_sum_gradients`,
# `_clip_gradients`, `_get_variable_index`, `_learning_rate`,
# `_trainable_variables`.
# tests/distribution_test.py fails if Keras changes them.


class Update:
  """Takes steps with an optimizer.

  `global_clipnorm` of the optimizer limits the global norm of the gradients of
  all replicas together. With a scale of the loss, a step whose gradients are
  not finite is only counted.
  """

  def __init__(
    self,
    optimizer: keras.optimizers.Optimizer,
    loss_scale: mixed_precision.LossScale | None = None,
  ) -> None:
    self.optimizer = optimizer
    self.loss_scale = loss_scale
    # Keras would clip the gradients of each replica and then add them up.
    optimizer._all_reduce_sum_gradients = lambda pairs: pairs
    if optimizer.global_clipnorm:
      optimizer._clip_gradients = lambda gradients: gradients

  def apply(
    self, gradients: optimization.Gradients, variables: list[keras.Variable]
  ) -> Tensor:
    """Takes one step with the totals over this replica's micro-batches.

    Returns:
      The global norm before clipping, without the loss scale, float32 [].
    """
    gradients = distribution.all_reduce_sum(gradients)
    norm = optimization.global_norm(gradients)
    factor = tf.ones([])
    if self.loss_scale:
      factor = 1.0 / self.loss_scale.scale
      norm = norm * factor
    if self.optimizer.global_clipnorm:
      clip_norm = self.optimizer.global_clipnorm
      factor = optimization.clip_factor(norm, clip_norm) * factor
    scaled = [
      optimization.Scaled(gradient, factor)
      if isinstance(self.optimizer, optimization.AdamWeightDecayOptimizer)
      else gradient * factor
      for gradient in gradients.dense
    ]
    if not self.loss_scale:
      self.optimizer.apply(scaled, variables)
      return norm
    is_finite = tf.math.is_finite(norm)
    self.loss_scale.update(is_finite)

    def merged(strategy: tf.distribute.Strategy, *args: Any) -> None:
      is_finite, scaled = args

      def take() -> None:
        strategy.extended.call_for_each_replica(
          self.optimizer.apply, (scaled, variables)
        )

      def count() -> None:
        self.optimizer.iterations.assign_add(1)

      # The value is the same on every replica.
      tf.cond(strategy.experimental_local_results(is_finite)[0], take, count)

    # A replica's branch could not call Keras' update, which merges replicas.
    context = tf.distribute.get_replica_context()
    context.merge_call(merged, (is_finite, scaled))
    return norm

  def variables(self) -> dict[str, keras.Variable]:
    """Returns what a step changes, besides the model, by name in checkpoints.

    The optimizer must be built. The original's moments have the original's
    names. The lists of other optimizers, such as `_momentums`, give
    global_step/CLASS/VARIABLE/momentums, and single variables, such as
    `_u_product`, global_step/CLASS/u_product.
    """
    optimizer = self.optimizer
    scope = f"{checkpoint_names.STATE_SCOPE}{type(optimizer).__name__}/"
    if isinstance(optimizer, optimization.AdamWeightDecayOptimizer):
      scope = ""
    trained = optimizer._trainable_variables
    names = {}
    for attribute, value in vars(optimizer).items():
      slot = attribute.strip("_")
      names[id(value)] = scope + slot
      if isinstance(value, list) and len(value) == len(trained):
        for variable, moment in zip(trained, value):
          names[id(moment)] = f"{scope}{variable.path}/{slot}"
    state = {checkpoint_names.GLOBAL_STEP: optimizer.iterations}
    if self.loss_scale:
      state |= self.loss_scale.variables()
    # A resumed run may have another learning rate.
    left_out = {id(optimizer.iterations), id(optimizer._learning_rate)}
    for variable in optimizer.variables:
      if id(variable) not in left_out:
        if id(variable) not in names:
          raise ValueError(
            f"{type(optimizer).__name__} holds {variable.path} in an attribute "
            "that gives it no name in checkpoints. Use an unwrapped optimizer."
          )
        state[names[id(variable)]] = variable
    return state
