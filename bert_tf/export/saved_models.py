"""SavedModels: Keras models as functions over plain, named variables."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from bert_tf import checkpoints
from bert_tf.files import atomic, paths
from bert_tf.modeling import Tensor
from bert_tf.training import run_dir

# Inputs of the functions on word-piece ids, in this order.
ID_NAMES = ("input_ids", "input_mask", "segment_ids")

# The variable that every BERT has.
WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"

# Names of functions in a SavedModel; a request that names none gets DEFAULT.
IDS = "ids"
TEXT = "text"
DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

Signatures = dict[str, Any]  # tf.functions that have an input_signature.


class NamedModel(tf.Module):
  """A Keras model whose variables have the names of the checkpoints.

  Keras names a variable by its role in the layer, such as "kernel"; a
  SavedModel should hold "bert/pooler/dense/kernel".

  Args:
    model: built. Its values move into this module, so that memory holds them
      once; it cannot be called on its own any more.
    max_positions: maximum length of an input in word pieces.

  Attributes:
    values: the variables by name.
  """

  def __init__(self, model: keras.Model, max_positions: int) -> None:
    super().__init__(name="model")
    self.values: dict[str, tf.Variable] = {}
    for variable in model.weights:
      self.values[variable.path] = tf.Variable(
        variable.value, variable.trainable, name=variable.path
      )
      # To Keras a variable that is not initialized yet; it has no public way
      # to free a value.
      variable._value = None
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

    Args:
      inputs: of the model; the last axis of `input_ids` is F.
      training: whether to apply dropout, with other masks in every call.
    """
    length = tf.shape(inputs["input_ids"])[-1]
    check = tf.debugging.assert_less_equal(
      length,
      self.max_positions,
      f"inputs are longer than the {self.max_positions} positions of the model",
    )
    # The check is None when run eagerly.
    with tf.control_dependencies([check] if check is not None else []):
      # A batch without texts has length 0, but the pooler needs a position.
      added = tf.maximum(1 - length, 0)
    inputs = dict(inputs)
    for name in ID_NAMES:
      paddings = [[0, 0]] * (inputs[name].shape.rank - 1) + [[0, added]]
      inputs[name] = tf.pad(inputs[name], paddings)
    return self._run(inputs, _random_seed() if training else None)


def _random_seed() -> Tensor:
  """Draws the dropout seed of one call."""
  return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)


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


def ids_spec(rank: int = 2) -> list[tf.TensorSpec]:
  """Returns the input_signature of ID_NAMES: int32 of any sizes."""
  shape = [None] * rank
  return [tf.TensorSpec(shape, tf.int32, name) for name in ID_NAMES]


def texts_spec(*names: str, rank: int = 1) -> list[tf.TensorSpec]:
  """Returns the input_signature of texts: strings of any batch size."""
  return [tf.TensorSpec([None] * rank, tf.string, name) for name in names]


def check_is_free(export_dir: str) -> None:
  """Raises ValueError unless `export_dir` is missing or an empty folder."""
  if not paths.is_free(export_dir):
    raise ValueError(
      f"{export_dir} is there and not empty; choose another --export_dir, such "
      "as the next version's."
    )


@contextlib.contextmanager
def new_folder(export_dir: str) -> Iterator[str]:
  """Yields a folder to fill, which appears at `export_dir` when it is complete.

  Raises:
    ValueError: if `export_dir` is not empty.
    OSError: if it cannot be written.
  """
  check_is_free(export_dir)
  with atomic.folder(export_dir, last="saved_model.pb") as unfinished:
    yield unfinished
  logging.info("Wrote %s.", export_dir)


def save(module: tf.Module, signatures: Mapping[str, Any], folder: str) -> None:
  """Saves a module and its functions as a SavedModel.

  Args:
    module: tracks all variables and tables that the functions use.
    signatures: tf.functions by name.
    folder: to save in; see `new_folder`.
  """
  with _quiet():
    tf.saved_model.save(module, folder, signatures=dict(signatures))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
  """Silences the messages that TensorFlow logs for each saved function."""
  verbosity = logging.get_verbosity()
  level = tf.get_logger().level
  logging.set_verbosity(logging.WARNING)
  tf.get_logger().setLevel("WARNING")
  try:
    yield
  finally:
    logging.set_verbosity(verbosity)
    tf.get_logger().setLevel(level)


@dataclasses.dataclass(frozen=True)
class EncoderFiles:
  """What the SavedModel of an encoder brings to fine-tune it.

  Attributes:
    bert_config_file: the model's sizes.
    vocab_file: the model's vocabulary.
    do_lower_case: whether texts are lower-cased.
  """

  bert_config_file: str
  vocab_file: str
  do_lower_case: bool


def encoder_files(folder: str) -> EncoderFiles:
  """Returns the files of an encoder's SavedModel.

  Its variables are read by `checkpoints.CheckpointReader(folder)`.

  Raises:
    ValueError: if the folder has no SavedModel, or one of something else.
  """
  if not checkpoints.is_saved_model(folder):
    raise ValueError(f"{folder} has no saved_model.pb; give a SavedModel.")
  run = run_dir.read_run(folder)
  if run is None or run.task != "encoder":
    raise ValueError(
      f"{folder} is no SavedModel of export_savedmodel.py --task=encoder; its "
      f"task is {run.task if run else 'unknown'}. A model of TF Hub has to be "
      "converted first, see convert_checkpoint.py."
    )
  vocab_file = os.path.join(folder, run_dir.VOCAB_FILE)
  if not paths.exists(vocab_file) or run.do_lower_case is None:
    raise ValueError(
      f"{folder} was exported without its vocabulary; export it without "
      "--notext."
    )
  config_file = os.path.join(folder, run_dir.CONFIG_FILE)
  return EncoderFiles(config_file, vocab_file, run.do_lower_case)
