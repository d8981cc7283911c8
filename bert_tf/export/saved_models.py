"""Keras models as functions of a SavedModel, with named variables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.inference import ids_functions
from bert_tf.model import model_inputs
from bert_tf.model.kernels import backend
from bert_tf.model.model_config import BertConfig
from bert_tf.modeling import Tensor

Signatures = dict[str, Any]  # tf.functions with an input_signature, by name.


class NamedModel(tf.Module):
  """A Keras model whose variables have the names in checkpoints.

  Keras names a variable by its role in the layer, such as "kernel". A
  SavedModel should contain "bert/pooler/dense/kernel". The values of `model`,
  which must be built, move to this module, so that memory holds them once.
  `model` cannot be called directly afterwards.

  Attributes:
    values: the variables, by their names in checkpoints.
  """

  def __init__(self, model: keras.Model) -> None:
    super().__init__(name="model")
    self._config = model.config
    self.values: dict[str, tf.Variable] = {}
    for variable in model.weights:
      self.values[variable.path] = tf.Variable(
        variable.value, variable.trainable, name=variable.path
      )
      backend.free_value(variable)

    # A closure, because tf.Module would track and save an attribute.
    def call(inputs: Mapping[str, Tensor], training: bool) -> Any:
      state = [(v, self.values[v.path]) for v in model.weights]
      with keras.StatelessScope(state):
        if not training:
          return model(inputs, training=False)
        seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
        seeds = model.seed_generator
        with seeds.counted_from(tf.cast(seed, seeds.state.dtype)):
          return model(inputs, training=True)

    self._call = call

  def __call__(
    self, inputs: Mapping[str, Tensor], training: bool = False
  ) -> Any:
    """Runs the Keras model and returns its outputs.

    Inputs without a position get one. A length or value out of range fails an
    assertion.

    Args:
      inputs: input_ids, input_mask and segment_ids, int32 [..., F]; models
        that predict masked words also need masked_lm_positions, int32 [B, P].
      training: whether to apply dropout, with new dropout masks in each call.
    """
    length = tf.shape(inputs["input_ids"])[-1]
    most = self._config.max_position_embeddings
    check = tf.debugging.assert_less_equal(
      length,
      most,
      f"inputs are longer than the {most} positions of the model",
    )
    checks = [check, *_range_checks(inputs, self._config, length)]
    # Checks are None when run eagerly.
    with tf.control_dependencies([c for c in checks if c is not None]):
      # An empty batch has length 0, but the pooler needs a position.
      added = tf.maximum(1 - length, 0)
    inputs = dict(inputs)
    for name in ids_functions.ID_NAMES:
      paddings = [[0, 0]] * (inputs[name].shape.rank - 1) + [[0, added]]
      inputs[name] = tf.pad(inputs[name], paddings)
    return self._call(inputs, training)


def named_function(
  compute: Callable[[dict[str, Tensor]], Any],
  names: Sequence[str] = ids_functions.ID_NAMES,
  dtype: tf.DType = tf.int32,
  rank: int = 2,
) -> Any:
  """Returns a tf.function that calls `compute` with its inputs by name.

  The inputs are tensors of `dtype` with `rank` dimensions of any size.
  """
  return tf.function(
    lambda *inputs: compute(dict(zip(names, inputs))),
    [tf.TensorSpec([None] * rank, dtype, name) for name in names],
    autograph=False,  # No Python control flow depends on a tensor.
  )


def _range_checks(
  inputs: Mapping[str, Tensor], config: BertConfig, length: Tensor
) -> list[tf.Operation]:
  """Returns assertions that fail if an input has a value out of range.

  Without them, a gather would silently use another row, and a one-hot row would
  be empty. The converters to ONNX and LiteRT omit assertions.
  """
  checks = []
  # An empty batch has length 0, for which the limit would be -1.
  sizes = model_inputs.count_values(config, tf.maximum(length, 1))
  for name in (name for name in sizes if name in inputs):
    highest = tf.convert_to_tensor(sizes[name] - 1)
    largest = tf.reduce_max(inputs[name])
    # For an empty tensor reduce_min returns INT_MAX and reduce_max INT_MIN.
    smallest = tf.reduce_min(inputs[name])
    is_inside = (smallest >= 0) & (largest <= highest)
    limits = model_inputs.LIMITS
    key = f" ({limits[name]})" if name in limits else ""
    text = tf.strings.format(
      f"{name} has the value {{}}, which is out of range; use 0 to {{}}{key}",
      (tf.where(smallest < 0, smallest, largest), highest),
    )
    checks.append(tf.raw_ops.Assert(condition=is_inside, data=[text]))
  return checks
