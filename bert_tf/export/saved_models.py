"""SavedModels: Keras models as functions over plain, named variables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf import checkpoints, distribution
from bert_tf.files import errors, paths, stderr
from bert_tf.kernels import backend
from bert_tf.modeling import Tensor

# Inputs of the functions on word-piece ids, in this order.
ID_NAMES = ("input_ids", "input_mask", "segment_ids")

# Names of functions in a SavedModel; a request that names none gets DEFAULT.
IDS = "ids"
TEXT = "text"
DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

Signatures = dict[str, Any]  # tf.functions that have an input_signature.


class NamedModel(tf.Module):
  """A Keras model whose variables have the names of the checkpoints.

  Keras names a variable by its role in the layer, such as "kernel"; a
  SavedModel should hold "bert/pooler/dense/kernel". The values of the built
  `model` move into this module, as `values`, so that memory holds them once; it
  cannot be called on its own any more.
  """

  def __init__(self, model: keras.Model, max_positions: int) -> None:
    super().__init__(name="model")
    self.values: dict[str, tf.Variable] = {}
    for variable in model.weights:
      self.values[variable.path] = tf.Variable(
        variable.value, variable.trainable, name=variable.path
      )
      backend.free_value(variable)
    distribution.hide_first_notes()
    self.max_positions = max_positions
    # A closure, because tf.Module would track the Keras model and save it.
    self._run = self._runner(model)

  def _runner(self, model: keras.Model) -> Callable[..., Any]:
    def run(inputs: Mapping[str, Tensor], seed: Tensor | None) -> Any:
      if seed is None:
        return self.call_layer(model, inputs, training=False)
      seeds = model.seed_generator
      with seeds.counted_from(tf.cast(seed, seeds.state.dtype)):
        return self.call_layer(model, inputs, training=True)

    return run

  def call_layer(
    self,
    layer: keras.layers.Layer,
    inputs: Mapping[str, Tensor],
    **settings: bool,
  ) -> Any:
    """Calls the Keras model, or a layer of it, on the values of this module."""
    state = [(v, self.values[v.path]) for v in layer.weights]
    with keras.StatelessScope(state):
      return layer(inputs, **settings)

  def __call__(
    self, inputs: Mapping[str, Tensor], training: bool = False
  ) -> Any:
    """Runs the Keras model and returns its outputs.

    The last axis of `input_ids` is F. `training` applies dropout, with other
    masks in every call. Numbers out of range fail.
    """
    length = tf.shape(inputs["input_ids"])[-1]
    check = tf.debugging.assert_less_equal(
      length,
      self.max_positions,
      f"inputs are longer than the {self.max_positions} positions of the model",
    )
    highest = _highest_ids(self.values, length)
    checks = [check, *_range_checks(inputs, highest)]
    # Checks are None when run eagerly.
    with tf.control_dependencies([c for c in checks if c is not None]):
      # A batch without texts has length 0, but the pooler needs a position.
      added = tf.maximum(1 - length, 0)
    inputs = dict(inputs)
    for name in ID_NAMES:
      paddings = [[0, 0]] * (inputs[name].shape.rank - 1) + [[0, added]]
      inputs[name] = tf.pad(inputs[name], paddings)
    seed = None
    if training:
      seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
    return self._run(inputs, seed)


def function(input_signature: Sequence[tf.TensorSpec]) -> Callable[..., Any]:
  """Returns a decorator that makes a tf.function of an input signature."""
  # No Python control flow depends on a tensor, and AutoGraph is slow.
  return tf.function(input_signature=input_signature, autograph=False)


def by_name(ids: Any, text: Any = None) -> Signatures:
  """Returns functions by their names; texts are the default where possible."""
  if text is None:
    return {IDS: ids, DEFAULT: ids}
  return {IDS: ids, TEXT: text, DEFAULT: text}


def ids_function(
  compute: Callable[[dict[str, Tensor]], Any], rank: int = 2
) -> Any:
  """Returns the function of ID_NAMES, int32 of a rank, that calls `compute`."""

  @function(ids_spec(rank))
  def ids(input_ids: Tensor, input_mask: Tensor, segment_ids: Tensor) -> Any:
    return compute(dict(zip(ID_NAMES, (input_ids, input_mask, segment_ids))))

  return ids


def texts_functions(compute: Callable[[list[Tensor]], Any]) -> tuple[Any, Any]:
  """Returns the functions of `text`, and of it and `text_b`, by `compute`."""

  @function(texts_spec("text"))
  def single(text: Tensor) -> Any:
    return compute([text])

  @function(texts_spec("text", "text_b"))
  def pair(text: Tensor, text_b: Tensor) -> Any:
    return compute([text, text_b])

  return single, pair


def ids_spec(rank: int = 2) -> list[tf.TensorSpec]:
  """Returns the input_signature of ID_NAMES: int32 of any sizes."""
  return [tf.TensorSpec([None] * rank, tf.int32, name) for name in ID_NAMES]


def texts_spec(*names: str, rank: int = 1) -> list[tf.TensorSpec]:
  """Returns the input_signature of texts: strings of any batch size."""
  return [tf.TensorSpec([None] * rank, tf.string, name) for name in names]


def load(folder: str) -> Any:
  """Returns a SavedModel, as `tf.saved_model.load` does.

  Raises:
    ValueError: if it cannot be read.
    NotFiniteError: if its variables hold NaN or infinity, which the functions
      would answer with.
  """
  with errors.reading(folder, "is no SavedModel that can be read"):
    loaded = tf.saved_model.load(folder)
  distribution.hide_first_notes()
  found = variables(loaded).items()
  checkpoints.check_finite(folder, {name: v.numpy() for name, v in found})
  return loaded


def variables(loaded: Any) -> dict[str, tf.Variable]:
  """Returns the weights of a loaded SavedModel by name, each once."""
  return {  # Most are those of several functions.
    variable.name.removesuffix(":0"): variable
    for function in loaded.signatures.values()
    for variable in function.variables
  }


def check_is_free(export_dir: str) -> None:
  """Raises ValueError unless `export_dir` is missing or an empty folder."""
  if not paths.is_free(export_dir):
    raise ValueError(
      f"{export_dir} is there and not empty; choose another `export_dir`, such "
      "as the next version's."
    )


def save(module: tf.Module, signatures: Mapping[str, Any], folder: str) -> None:
  """Saves functions as a SavedModel in a folder.

  The module tracks all variables and tables that the functions use.
  """
  with stderr.without_tensorflow_log():
    tf.saved_model.save(module, folder, signatures=dict(signatures))


def _highest_ids(
  variables: Mapping[str, tf.Variable], length: Tensor
) -> dict[str, Tensor]:
  """Returns the highest number of each input, int32; the lowest is 0.

  Args:
    variables: of a BERT, by their names in checkpoints.
    length: F, int32.
  """
  num_words, num_types = (
    variables[f"bert/embeddings/{name}_embeddings"].shape[0]
    for name in ("word", "token_type")
  )
  highest = {
    "input_ids": num_words - 1,
    "input_mask": 1,
    "segment_ids": num_types - 1,
    # Without texts there is neither a position nor a mask.
    "masked_lm_positions": tf.maximum(length - 1, 0),
  }
  return {name: tf.convert_to_tensor(high) for name, high in highest.items()}


def _range_checks(
  inputs: Mapping[str, Tensor], highest: Mapping[str, Tensor]
) -> list[tf.Operation]:
  """Returns what fails if an input holds a number that is out of its range.

  A gather with another number would silently take another row, and a one-hot
  row of it is empty. The converters to ONNX and LiteRT leave assertions out.
  """
  found = []
  for name in (name for name in highest if name in inputs):
    high, largest = highest[name], tf.reduce_max(inputs[name])
    # `reduce_min` of an empty tensor returns INT_MAX and `reduce_max` INT_MIN.
    smallest = tf.reduce_min(inputs[name])
    is_inside = (smallest >= 0) & (largest <= high)
    text = tf.strings.format(
      f"{name} holds {{}}, which is out of range; 0 to {{}} is allowed",
      (tf.where(smallest < 0, smallest, largest), high),
    )
    found.append(tf.raw_ops.Assert(condition=is_inside, data=[text]))
  return found
