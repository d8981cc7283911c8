"""One step of training or evaluation on one batch, on all devices.

A training batch is cut into parts: one for each replica, and these into
micro-batches. Losses are divided by weights of the whole batch, gradients
added, and clipped when they are those of the whole batch, so the parts make
no difference.

What XLA compiles for a CPU leaves cores idle between its matrix products, so
there a micro-batch is cut in two again, whose gradients are computed at the
same time. Or XLA compiles the pieces between the products, and TensorFlow
computes these: its own are faster, and alone use a CPU's bfloat16 units.
"""

import contextlib
import copy
import enum
import os
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from bert_tf import distribution, optimization
from bert_tf.kernels import clusters, onednn_layer_norm
from bert_tf.layers import dropout
from bert_tf.losses import Sums
from bert_tf.modeling import Tensor
from bert_tf.training import objective as objective_lib
from bert_tf.training.objective import Features


class Form(enum.Enum):
  """What XLA compiles of a step; `use_xla` of use_xla.json.

  On a CPU it is the update of each variable in any case.
  """

  PLAIN = False
  PIECES = "pieces"
  WHOLE = True


class TrainingStep:
  """Changes the model's variables once a call.

  The model is built, in the scope of the strategy. A replica's part of a batch
  is cut into num_micro_batches. In the whole form XLA compiles all of it on one
  accelerator, on several what lies between their exchanges, and on a CPU the
  gradients and the update.

  Raises:
    ValueError: if the batch does not divide into the parts.
  """

  def __init__(
    self,
    model: keras.Model,
    optimizer: optimization.AdamWeightDecayOptimizer,
    objective: objective_lib.Objective,
    batch_size: int,
    num_micro_batches: int,
    seed: int,
    form: Form,
  ) -> None:
    self._model = model
    self._optimizer = optimizer
    self._objective = objective
    self._num_micro_batches = num_micro_batches
    self._seed = seed
    self._strategy = tf.distribute.get_strategy()
    num_replicas = self._strategy.num_replicas_in_sync
    num_parts = num_replicas * num_micro_batches
    if batch_size % num_parts:
      raise ValueError(
        f"a batch of {batch_size} does not divide into {num_replicas} replicas "
        f"x {num_micro_batches} micro-batches; set `train_batch_size` to a "
        f"multiple of {num_parts}."
      )
    self._variables: list[keras.Variable] = []
    self._sums_spec: Any = None  # tf.TensorSpec in the structure of Sums.
    clusters.name_rewrites()  # Other forms may be called before this one.
    self._compile(form)

  def in_form(self, form: Form) -> "TrainingStep":
    """Returns the same step in a form."""
    step = copy.copy(self)
    step._compile(form)
    return step

  def _compile(self, form: Form) -> None:
    """Makes the functions that take the step."""
    self._form = form
    is_alone = self._strategy.num_replicas_in_sync == 1
    is_whole = form is Form.WHOLE
    compiles_all = is_whole and is_alone and distribution.has_accelerator()
    self._has_halves = is_whole and is_alone and not compiles_all
    self._sums_and_gradients: Callable = self._part_step
    # Inside what XLA compiles, a function of its own would make it compile
    # anew at every step of batches whose width differs.
    if not compiles_all:
      self._sums_and_gradients = _function(self._part_step, form)
    self._step = _function(
      self._run, Form.WHOLE if compiles_all else Form.PLAIN
    )

  def build(
    self, element_spec: dict[str, tf.TensorSpec]
  ) -> Callable[[Features], Sums]:
    """Builds the optimizer and returns the step for batches of these shapes."""
    self._variables = self._objective.trained_variables(self._model)
    self._optimizer.build(self._variables)
    step = self._step.get_concrete_function(element_spec)
    self._sums_spec = tf.nest.map_structure(
      lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype),
      step.structured_outputs,
    )
    return step

  def no_sums(self) -> Sums:
    """Returns the sums of no step, zeros, once the step is built."""
    return tf.nest.map_structure(
      lambda spec: tf.zeros(spec.shape, spec.dtype), self._sums_spec
    )

  def __call__(self, features: Features) -> Sums:
    """Takes a step on a whole batch; returns the sums of what is logged."""
    return self._step(features)

  def _run(self, features: Features) -> Sums:
    sums = self._strategy.run(self._replica_step, (features,))
    # They are the same on every replica.
    return tf.nest.map_structure(
      lambda v: self._strategy.experimental_local_results(v)[0], sums
    )

  def _replica_step(self, features: Features) -> Sums:
    """Takes the step on the replica's part of the batch."""
    features, first = self._replica_part(features)
    weights = distribution.all_reduce_sum(self._objective.weights_fn(features))

    def micro_batch(
      index: tf.Tensor | int,
    ) -> tuple[Sums, optimization.Gradients]:
      part = distribution.part(features, index, self._num_micro_batches)
      return self._micro_batch_step(part, weights, first + index)

    found = micro_batch(0)
    if self._num_micro_batches > 1:
      found = objective_lib.add_calls(
        found, micro_batch, 1, self._num_micro_batches
      )
    sums, gradients = found
    sums = distribution.all_reduce_sum(sums)
    loss = sums.pop("loss")
    one = tf.ones([])
    rate = self._optimizer.learning_rate * one
    norm = self._apply_gradients(gradients)
    return {
      "loss": (loss, one),
      **sums,
      "learning_rate": (rate, one),
      "gradient_norm": (norm, one),
    }

  def _replica_part(self, features: Features) -> tuple[Features, tf.Tensor]:
    """Returns the replica's part and the number of its first micro-batch."""
    context = tf.distribute.get_replica_context()
    replica = tf.convert_to_tensor(context.replica_id_in_sync_group)
    part = distribution.replica_part(features)
    return part, replica * self._num_micro_batches

  def _micro_batch_step(
    self, features: Features, weights: dict[str, Tensor], number: tf.Tensor
  ) -> tuple[Sums, optimization.Gradients]:
    """Returns what a micro-batch logs, and the gradients of its loss."""
    if not (self._has_halves and _is_even(features) and _num_cores() > 1):
      return self._sums_and_gradients(features, weights, number, 0)
    found = None
    for index in tf.unstack(tf.range(2)):  # As tensors it is one program.
      half = distribution.part(features, index, 2)
      more = self._sums_and_gradients(half, weights, number, index)
      found = objective_lib.add(found, more)
    assert found is not None
    return found

  def _part_step(
    self,
    features: Features,
    weights: dict[str, Tensor],
    number: tf.Tensor,
    part: tf.Tensor | int,
  ) -> tuple[Sums, optimization.Gradients]:
    """Returns what a micro-batch, or a half of it, logs, and its gradients."""
    sums, gradients = self._differentiate(features, weights, number, part)
    unused = [
      variable.path
      for variable, gradient in zip(self._variables, gradients)
      if gradient is None
    ]
    if unused:
      raise ValueError(
        f"the loss does not depend on {', '.join(unused)}; name these "
        "variables in the model's `unused_variables`."
      )
    return sums, optimization.as_gradients(gradients)

  def _apply_gradients(self, gradients: optimization.Gradients) -> Tensor:
    """Changes the variables; returns the norm of the gradients."""
    assert len(gradients.dense) == len(self._variables)
    return self._optimizer.apply_parts(gradients, self._variables)

  def _differentiate(
    self,
    features: Features,
    weights: dict[str, Tensor],
    number: tf.Tensor,
    part: tf.Tensor | int,
  ) -> tuple[Sums, list[Tensor]]:
    """Returns what is logged and a gradient for each variable."""
    # Layers under gradient checkpointing draw again in the backward pass.
    with self._dropout_seeds(number, part):
      with tf.GradientTape() as tape:
        sums = self._objective.loss_sums(self._model, features, training=True)
        loss = tf.add_n(
          [s / weights[name] for name, (s, _) in sums.losses.items()]
        )
        scaled = loss
        if self._optimizer.loss_scale:
          scaled = loss * self._optimizer.loss_scale.scale
      gradients = tape.gradient(scaled, self._variables)
    return {"loss": loss, **sums.metrics}, gradients

  def _dropout_seeds(
    self, number: tf.Tensor, part: tf.Tensor | int
  ) -> contextlib.AbstractContextManager:
    """Makes the dropout a function of the seed, the step and the part."""
    seeds = getattr(self._model, "seed_generator", None)
    if not isinstance(seeds, dropout.Seeds):
      return contextlib.nullcontext()
    words = (self._seed, self._optimizer.iterations.value, number)
    is_plain = self._form is Form.PLAIN and not distribution.has_accelerator()
    return seeds.counted_from(
      tf.stack([tf.cast(word, seeds.state.dtype) for word in words]),
      part,
      compiles_masks=is_plain,
    )


def _function(function: Callable, form: Form) -> Any:
  """Returns a tf.function of which XLA compiles what the form says."""
  if form is Form.PIECES:
    # TensorFlow calls a function as it is on one device alone.
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
      return clusters.compiled(function)
    function = clusters.marked(function)
  # None leaves it to TensorFlow, which compiles for a TPU in any case.
  jit_compile = form is Form.WHOLE or None
  return tf.function(function, jit_compile=jit_compile, autograph=False)


def _num_cores() -> int:
  """Returns the number of cores that this process may use."""
  if hasattr(os, "sched_getaffinity"):  # Linux alone.
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def _is_even(features: Features) -> bool:
  """Whether the batch has two halves, and a shape that is known."""
  return all(
    tensor.shape.is_fully_defined() and tensor.shape[0] % 2 == 0
    for tensor in features.values()
  )


class EvaluationStep:
  """Computes outputs, and sums of what is reported, without training.

  Where programs have fixed shapes, as on TPUs, a smaller batch is filled up to
  the size of the first: with zeros, which have no weight in losses and metrics.
  """

  def __init__(
    self,
    model: keras.Model,
    objective: objective_lib.Objective,
  ) -> None:
    self._model = model
    self._objective = objective
    self._strategy = tf.distribute.get_strategy()
    self._num_rows = 0
    # Not one trace for each width of dynamic padding.
    self._evaluate = tf.function(
      self._evaluate_batch, reduce_retracing=True, autograph=False
    )
    self._predict = tf.function(
      self._predict_batch, reduce_retracing=True, autograph=False
    )

  def evaluate(self, features: Features) -> tuple[Sums, Tensor]:
    """Returns the sums of what is reported, and the outputs of each row."""
    sums, outputs = self._evaluate(self._fill_up(features))
    return sums, _first_rows(outputs, features)

  def predict(self, features: Features) -> Tensor:
    """Returns the outputs of each row."""
    outputs = self._predict(self._fill_up(features))
    return _first_rows(outputs, features)

  def _fill_up(self, features: Features) -> Features:
    """Returns a batch of the size of the first, where that is needed."""
    if not distribution.needs_full_batches():
      return features
    self._num_rows = max(self._num_rows, _num_rows(features))
    missing = self._num_rows - _num_rows(features)
    return {
      name: tf.pad(value, [(0, missing)] + [(0, 0)] * (value.shape.rank - 1))
      for name, value in features.items()
    }

  def _evaluate_batch(self, features: Features) -> tuple[Sums, Tensor]:
    sums = self._strategy.run(self._evaluate_part, (features,))
    losses, metrics = tf.nest.map_structure(
      self._sum, (sums.losses, sums.metrics)
    )
    loss = tf.add_n([loss / weight for loss, weight in losses.values()])
    totals = {"loss": (loss, tf.ones([])), **metrics}
    return totals, distribution.gathered(sums.outputs)

  def _evaluate_part(self, features: Features) -> objective_lib.BatchSums:
    features = distribution.replica_part(features)
    with onednn_layer_norm.fused():
      return self._objective.loss_sums(self._model, features, training=False)

  def _sum(self, value: tf.Tensor) -> tf.Tensor:
    return self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)

  def _predict_batch(self, features: Features) -> Tensor:
    def predict_part(features: Features) -> Tensor:
      with onednn_layer_norm.fused():
        return self._model(distribution.replica_part(features), training=False)

    outputs = self._strategy.run(predict_part, (features,))
    return distribution.gathered(outputs)


def _first_rows(outputs: Tensor, features: Features) -> Tensor:
  """Returns the outputs of the rows that a batch had before it was filled."""
  if not distribution.needs_full_batches():
    return outputs
  num_rows = _num_rows(features)
  return tf.nest.map_structure(lambda value: value[:num_rows], outputs)


def _num_rows(features: Features) -> int:
  return int(next(iter(features.values())).shape[0])
