"""One step of training on one batch, on as many devices as there are.

A batch is cut into parts: one for each replica, and these into micro-batches.
Losses are divided by weights of the whole batch, gradients added, and clipped
when they are those of the whole batch: the parts make no difference.
"""

import contextlib
from collections.abc import Callable

import keras
import tensorflow as tf

from bert_tf import distribution, dropout, optimization
from bert_tf.losses import Sums
from bert_tf.modeling import Tensor
from bert_tf.training import progress

Features = dict[str, tf.Tensor]

# Draws of dropout masks that one step may take: two an encoder layer and one
# more, with room to spare.
_DRAWS_PER_STEP = 1 << 10

# Between the seeds of two parts of a batch.
_PART_SEEDS = 1 << 32


class TrainingStep:
  """Changes the model's variables once a call.

  Args:
    model: built, in the scope of the strategy.
    optimizer: of the variables that get a gradient.
    loss_fn: as of Estimator.
    eval_fn: as of Estimator.
    batch_size: examples of a whole batch.
    num_micro_batches: how many a replica's part is cut into.
    seed: of the dropout.
    use_xla: whether it is compiled by XLA: all of it on one replica, on
      several what lies between their exchanges.

  Raises:
    ValueError: if the batch does not divide into the parts.
  """

  def __init__(
    self,
    model: keras.Model,
    optimizer: optimization.AdamWeightDecayOptimizer,
    loss_fn: Callable[[Tensor, Features], Sums],
    eval_fn: Callable[[Tensor, Features], Sums],
    batch_size: int,
    num_micro_batches: int,
    seed: int,
    use_xla: bool,
  ) -> None:
    self._model = model
    self._optimizer = optimizer
    self._loss_fn = loss_fn
    self._eval_fn = eval_fn
    self._num_micro_batches = num_micro_batches
    self._seed = seed
    self._strategy = tf.distribute.get_strategy()
    num_replicas = self._strategy.num_replicas_in_sync
    self._num_parts = num_replicas * num_micro_batches
    if batch_size % self._num_parts:
      raise ValueError(
        f"a batch of {batch_size} does not divide into {num_replicas} replicas "
        f"x {num_micro_batches} micro-batches; set --train_batch_size to a "
        f"multiple of {self._num_parts}."
      )
    self._variables = None
    is_alone = num_replicas == 1
    # Inside what XLA compiles, a function of its own would make it compile
    # anew at every step of batches whose width differs.
    self._sums_and_gradients = self._of_micro_batch
    if not (is_alone and use_xla):
      self._sums_and_gradients = tf.function(
        self._of_micro_batch, jit_compile=use_xla or None
      )
    # A program for a TPU is compiled in any case.
    self._step = tf.function(
      self._run, jit_compile=(use_xla and is_alone) or None
    )

  def build(
    self, element_spec: dict[str, tf.TensorSpec]
  ) -> Callable[[Features], Sums]:
    """Builds the optimizer and returns the step for batches of these shapes.

    Which variables get a gradient, and so have moments, is known once the
    gradients have been traced.

    Args:
      element_spec: of the batches.
    """

    @tf.function
    def trace(features: Features) -> None:
      self._strategy.run(self._of_first_part, (features,))

    trace.get_concrete_function(element_spec)
    self._optimizer.build(self._variables)
    return self._step.get_concrete_function(element_spec)

  def __call__(self, features: Features) -> Sums:
    """Takes one step; returns the sums of what is logged.

    Args:
      features: of the whole batch, the same for every replica.
    """
    return self._step(features)

  def _run(self, features: Features) -> Sums:
    sums = self._strategy.run(self._of_replica, (features,))
    # They are the same on every replica.
    return tf.nest.map_structure(
      lambda v: self._strategy.experimental_local_results(v)[0], sums
    )

  def _of_replica(self, features: Features) -> Sums:
    """Takes the step on the replica's part of the batch."""
    features, first = self._replica_part(features)
    weights = self._loss_weights(features)
    if weights is not None:
      weights = distribution.all_reduce_sum(weights)
    sums, gradients = self._of_part(features, weights, first, 0)
    if self._num_micro_batches > 1:
      for i in tf.range(1, self._num_micro_batches):
        more = self._of_part(features, weights, first, i)
        sums, gradients = progress.added((sums, gradients), more)
    sums = distribution.all_reduce_sum(sums)
    loss = sums.pop("loss")
    one = tf.ones([])
    rate = self._optimizer.learning_rate * one
    norm = self._optimizer.apply_parts(gradients, self._variables)
    return {
      "loss": (loss, one),
      **sums,
      "learning_rate": (rate, one),
      "gradient_norm": (norm, one),
    }

  def _of_first_part(self, features: Features) -> None:
    """Computes gradients as a step does first."""
    features, first = self._replica_part(features)
    self._of_part(features, self._loss_weights(features), first, 0)

  def _replica_part(self, features: Features) -> tuple[Features, tf.Tensor]:
    """Returns the replica's part and the number of its first micro-batch."""
    context = tf.distribute.get_replica_context()
    replica = tf.convert_to_tensor(context.replica_id_in_sync_group)
    part = distribution.replica_part(features)
    return part, replica * self._num_micro_batches

  def _loss_weights(self, features: Features) -> dict[str, tf.Tensor] | None:
    """Returns the weights of the losses, None if the batch is not cut.

    They are of the features alone. What else is traced here is not run.
    """
    if self._num_parts == 1:
      return None
    losses = self._loss_fn(self._model(features, training=False), features)
    return {name: weight for name, (_, weight) in losses.items()}

  def _of_part(
    self,
    features: Features,
    weights: dict[str, tf.Tensor] | None,
    first: tf.Tensor,
    index: tf.Tensor | int,
  ) -> tuple[Sums, optimization.Gradients]:
    """Returns sums and gradients of one micro-batch of a replica's part."""
    features = distribution.part(features, index, self._num_micro_batches)
    return self._sums_and_gradients(features, weights, first + index)

  def _of_micro_batch(
    self,
    features: Features,
    weights: dict[str, tf.Tensor] | None,
    number: tf.Tensor,
  ) -> tuple[Sums, optimization.Gradients]:
    """Returns what is logged, and the gradients of the loss.

    Args:
      features: of the micro-batch.
      weights: of the whole batch, by loss; None if this is the whole.
      number: which micro-batch of the whole batch this is, int [].
    """
    variables = self._model.trainable_variables
    # Layers that are computed again for the gradient draw again, too.
    with self._dropout_seeds(number):
      with tf.GradientTape() as tape:
        outputs = self._model(features, training=True)
        losses = self._loss_fn(outputs, features)
        parts = [
          loss / (weights[name] if weights else weight)
          for name, (loss, weight) in losses.items()
        ]
        loss = tf.add_n(parts)
        scaled = loss
        if self._optimizer.loss_scale:
          scaled = loss * self._optimizer.loss_scale.scale
      found = tape.gradient(scaled, variables)
    pairs = [(g, v) for g, v in zip(found, variables) if g is not None]
    self._variables = [variable for _, variable in pairs]
    gradients = optimization.as_gradients([gradient for gradient, _ in pairs])
    return {"loss": loss, **self._eval_fn(outputs, features)}, gradients

  def _dropout_seeds(
    self, number: tf.Tensor
  ) -> contextlib.AbstractContextManager:
    """Makes the dropout a function of the seed, the step and the part."""
    seeds = getattr(self._model, "seed_generator", None)
    if not isinstance(seeds, dropout.Seeds):
      return contextlib.nullcontext()
    dtype = seeds.state.dtype
    seed = self._seed + tf.cast(number, dtype) * _PART_SEEDS
    first_draw = self._optimizer.iterations.value * _DRAWS_PER_STEP
    return seeds.counted_from(tf.stack([seed, tf.cast(first_draw, dtype)]))
