"""A training step on one batch, on all devices.

The loss of a batch is the total of sum / weight over the names of the
objective's losses. The batch is split into one part for each replica, and a
part into micro-batches. Each micro-batch divides its sums by the weights of
the whole batch, so the gradients of all micro-batches add up to the gradient
of the batch: gradient accumulation takes the same step as one big batch,
except that each micro-batch draws its own dropout masks.

`_replica_step` and `_compute_gradients` are the mathematics. The rest builds
and compiles them; see `compilation`.
"""

import contextlib
from collections.abc import Callable
from typing import TypeVar

import keras
import tensorflow as tf

from bert_tf import distribution, optimization
from bert_tf.model.layers import dropout
from bert_tf.model.losses import Sums
from bert_tf.model.tensor import Tensor
from bert_tf.training import compilation
from bert_tf.training.objective import Features, Objective, add_sums
from bert_tf.training.update import Update

T = TypeVar("T")


class TrainingStep:
  """Updates the model's variables once for each batch.

  The model is built in the scope of the current strategy. A batch has
  `batch_size` examples, and each replica splits its part of them into
  `num_micro_batches`. `seed` is that of the dropout masks.
  """

  def __init__(
    self,
    model: keras.Model,
    update: Update,
    objective: Objective,
    batch_size: int,
    num_micro_batches: int,
    seed: int,
  ) -> None:
    self._model = model
    self._update = update
    self._objective = objective
    self._num_micro_batches = num_micro_batches
    self._seed = seed
    self._strategy = tf.distribute.get_strategy()
    num_replicas = self._strategy.num_replicas_in_sync
    num_parts = num_replicas * num_micro_batches
    if batch_size % num_parts:
      raise ValueError(
        f"a batch of {batch_size} cannot be divided among {num_replicas} "
        f"replicas x {num_micro_batches} micro-batches; set `train_batch_size` "
        f"to a multiple of {num_parts}."
      )
    self._variables: list[keras.Variable] = []

  def _replica_step(self, features: Features) -> Sums:
    context = tf.distribute.get_replica_context()
    replica = tf.convert_to_tensor(context.replica_id_in_sync_group)
    features = distribution.select_replica_part(features)
    first = replica * self._num_micro_batches
    weights = distribution.all_reduce_sum(
      self._objective.weights(features, training=True)
    )

    def micro_batch(
      index: tf.Tensor | int,
    ) -> tuple[Sums, optimization.Gradients]:
      part = distribution.select_part(features, index, self._num_micro_batches)
      return self._gradients(part, weights, first + index)

    totals = micro_batch(0)
    if self._num_micro_batches > 1:
      totals = _add_calls(totals, micro_batch, 1, self._num_micro_batches)
    sums, gradients = totals
    sums = distribution.all_reduce_sum(sums)
    loss = sums.pop("loss")
    weight = tf.ones([])  # Each step counts as 1 in means over steps.
    learning_rate = self._update.optimizer.learning_rate * weight
    norm = self._update.apply(gradients, self._variables)
    return {
      "loss": (loss, weight),
      **sums,
      "learning_rate": (learning_rate, weight),
      "gradient_norm": (norm, weight),
    }

  def _compute_gradients(
    self, features: Features, weights: dict[str, Tensor], micro_batch: tf.Tensor
  ) -> tuple[Sums, optimization.Gradients]:
    """Returns the sums to log and the gradients of a micro-batch.

    The weights of the losses are those of the whole batch.
    """
    # The seeds are also those of the backward pass, in which layers under
    # gradient checkpointing draw their masks again.
    with self._dropout_seeds(micro_batch):
      with tf.GradientTape() as tape:
        sums = self._objective.loss_sums(self._model, features, training=True)
        loss = tf.add_n(
          [total / weights[name] for name, (total, _) in sums.losses.items()]
        )
        scaled_loss = loss
        if self._update.loss_scale:
          scaled_loss = loss * self._update.loss_scale.scale
      gradients = tape.gradient(scaled_loss, self._variables)
    sums_to_log = {"loss": loss, **sums.metrics}
    return sums_to_log, optimization.to_dense(gradients)

  def _dropout_seeds(
    self, micro_batch: tf.Tensor
  ) -> contextlib.AbstractContextManager[None]:
    # A resumed run draws the masks of an uninterrupted one, because they depend
    # only on seed, step and micro-batch.
    seeds = getattr(self._model, "seed_generator", None)
    if not isinstance(seeds, dropout.Seeds):
      return contextlib.nullcontext()
    words = (self._seed, self._update.optimizer.iterations.value, micro_batch)
    return seeds.counted_from(
      tf.stack([tf.cast(word, seeds.state.dtype) for word in words])
    )

  def build(
    self,
    element_spec: dict[str, tf.TensorSpec],
    mode: compilation.Mode = compilation.Mode.PLAIN,
  ) -> Callable[[Features], Sums]:
    """Builds the optimizer and traces the step for the shapes of a whole batch.

    Returns the step, from the features of a batch to the sums to log.
    """
    self._gradients = mode.compile_gradients(self._compute_gradients)
    replica_step = mode.mark_step(self._replica_step)

    def run_replicas(features: Features) -> Sums:
      replicas = self._strategy.run(replica_step, (features,))
      # The sums are the same on every replica.
      sums: Sums = tf.nest.map_structure(
        lambda v: self._strategy.experimental_local_results(v)[0], replicas
      )
      return sums

    self._step = tf.function(
      run_replicas,
      jit_compile=mode.compiles_step or None,  # TensorFlow's choice: on a TPU.
      autograph=False,
    )
    unused = {id(v) for v in self._objective.unused_variables(self._model)}
    self._variables = [
      v for v in self._model.trainable_variables if id(v) not in unused
    ]
    self._update.optimizer.build(self._variables)
    traced = self._step.get_concrete_function(element_spec)

    def run_loop(batches: tf.data.Iterator, num_steps: tf.Tensor) -> Sums:
      # The loop starts from zeros, not from a first step, since TensorFlow
      # would optimize the graph of the step twice: in the loop and before it.
      zeros = tf.nest.map_structure(
        lambda tensor: tf.zeros(tensor.shape, tensor.dtype),
        traced.structured_outputs,
      )
      return _add_calls(
        zeros, lambda _: self._step(batches.get_next()), 0, num_steps
      )

    self._loop = tf.function(run_loop, autograph=False)
    step: Callable[[Features], Sums] = traced
    return step

  def run(self, batches: tf.data.Iterator, num_steps: int) -> Sums:
    """Takes steps on the next batches; returns the totals of their sums.

    All steps are one call of a tf.function. The step must be built.
    """
    sums: Sums = self._loop(batches, tf.constant(num_steps))
    return sums


def _add_calls(
  total: T, function: Callable[[tf.Tensor], T], first: int, end: tf.Tensor | int
) -> T:
  """Adds function(first), ..., function(end - 1) to a total, in the graph."""
  _, total = tf.while_loop(
    lambda i, _: i < end,
    lambda i, total: (i + 1, add_sums(total, function(i))),
    (tf.constant(first), total),
  )
  return total
