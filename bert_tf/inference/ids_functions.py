"""A model as a function on word-piece ids, whatever holds the model.

It is a Keras model with the weights of a checkpoint, a SavedModel, or a file of
another runtime (runtimes.py).
"""

import abc
import functools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import modeling, task_registry
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import errors, packages
from bert_tf.model import model_inputs
from bert_tf.model.layers import layer_norm
from bert_tf.modeling import Tensor

# Inputs of functions on word-piece ids, in this order.
ID_NAMES = ("input_ids", "input_mask", "segment_ids")

# Names of functions, which are signatures in a SavedModel. Requests without a
# name use DEFAULT.
IDS, TEXT, ATTENTION = "ids", "text", "attention"
DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

# Tracing MiniLM takes 0.9 s of a CPU, an eager call 0.1 s, the first one 0.4 s.
_NUM_EAGER_CALLS = 4

Specs = Mapping[str, tf.TensorSpec]


class IdsFunction(abc.ABC):
  """A function of a model on word-piece ids; several threads may call it.

  Attributes:
    inputs: dtypes and shapes of the inputs, by name.
    outputs: dtypes and shapes of the outputs, by name.
  """

  outputs: Specs

  def __init__(self, inputs: Specs, config: modeling.BertConfig | None) -> None:
    self.inputs = inputs
    self._config = config  # None for a SavedModel that checks its inputs.

  def __call__(
    self, arrays: Mapping[str, np.ndarray], names: Collection[str] = ()
  ) -> dict[str, np.ndarray]:
    """Returns the outputs with these names, or all, for int32 arrays.

    Raises ValueError if the model rejects an input, as it does numbers out of
    range, which would silently stand for others.
    """
    arrays = {name: arrays[name] for name in self.inputs}
    if config := self._config:
      length = arrays["input_ids"].shape[-1]
      if length > config.max_position_embeddings:
        raise ValueError(
          f"an input has {length} word pieces, but the model takes at most "
          f"{config.max_position_embeddings}."
        )
      model_inputs.check_values(arrays, config)
    try:
      outputs = self._compute(arrays)
    except tf.errors.InvalidArgumentError as error:
      raise ValueError(errors.reason(error)) from error
    return {name: np.asarray(outputs[name]) for name in names or outputs}

  def prepare(self) -> None:  # noqa: B027 - most have nothing to do.
    """Does what the first calls would do, such as tracing."""

  @abc.abstractmethod
  def _compute(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
    """Returns the outputs by name for `inputs` by name."""


class KerasFunction(IdsFunction):
  """A function of a Keras model, which is traced after a few calls.

  A traced call takes a fraction of the time of an eager one, but tracing takes
  as long as several eager calls, so that the first answer comes sooner without.

  Args:
    call: returns tensors by name for features of the Keras model.
    config: the sizes of the model.
    names: the names of the features.
    rank: the number of their dimensions.
  """

  def __init__(
    self,
    call: Callable[[dict[str, Tensor]], Mapping[str, Tensor]],
    config: modeling.BertConfig,
    names: Sequence[str] = ID_NAMES,
    rank: int = 2,
  ) -> None:
    specs = {n: tf.TensorSpec([None] * rank, tf.int32, n) for n in names}
    super().__init__(specs, config)
    self._call = call
    self._lock = threading.Lock()
    self._num_eager_calls = _NUM_EAGER_CALLS  # That are left.
    self._traced = tf.function(
      lambda *values: call(dict(zip(names, values))),
      input_signature=[*specs.values()],
      autograph=False,  # No Python control flow depends on a tensor.
    )

  @functools.cached_property
  def outputs(self) -> Specs:  # type: ignore[override]
    """Dtypes and shapes of the outputs; the first access traces."""
    outputs = self._trace().structured_outputs
    return {
      name: tf.TensorSpec(output.shape, output.dtype, name)
      for name, output in outputs.items()
    }

  def prepare(self) -> None:
    """Traces the function, so that no call waits for it."""
    self._trace()

  def _trace(self) -> Any:
    with self._lock:
      self._num_eager_calls = 0
    with layer_norm.fused():
      return self._traced.get_concrete_function()

  def _compute(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
    tensors = [tf.constant(array) for array in arrays.values()]
    with self._lock:
      is_eager = self._num_eager_calls > 0
      self._num_eager_calls -= is_eager
    if is_eager:
      return self._call(dict(zip(arrays, tensors)))
    with layer_norm.fused():
      return self._traced(*tensors)


class SignatureFunction(IdsFunction):
  """A signature of a SavedModel, which itself checks its inputs."""

  def __init__(self, loaded: Any, name: str) -> None:
    self._owner = loaded  # Keeps the variables alive.
    self.signature = loaded.signatures[name]
    super().__init__(self.signature.structured_input_signature[1], None)
    self.outputs = self.signature.structured_outputs

  def _compute(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
    tensors = {name: tf.constant(array) for name, array in arrays.items()}
    return self.signature(**tensors)


def make_functions(
  files: ModelFolder,
) -> tuple[dict[str, KerasFunction], int]:
  """Loads the weights of a checkpoint into the Keras model of its task.

  Returns:
    The functions by name, as a SavedModel has them: IDS, and ATTENTION for a
    model with a head. And the number of the model's parameters.

  Raises:
    ValueError: if the weights are not those of the task's model.
  """
  info, config = files.info, files.config
  if info.task == task_registry.PRETRAINING.name:
    config.check_bidirectional(files.config_file)
  model_class = task_registry.load(task_registry.find(info.task).model)
  model = files.load_model(model_class)

  def attend(features: dict[str, Tensor]) -> dict[str, Tensor]:
    output = model.bert(features, return_attention_probs=True)
    return {ATTENTION: stack_attention(output, features)}

  names = (*ID_NAMES, *model.more_inputs)
  functions = {
    IDS: KerasFunction(
      lambda features: name_outputs(model(features), info),
      config,
      names,
      len(model.input_shape_names),
    )
  }
  if model_class:
    functions[ATTENTION] = KerasFunction(attend, config)
  return functions, model.count_params()


def name_outputs(output: Any, info: run_info.RunInfo) -> dict[str, Tensor]:
  """Returns what the function IDS returns for the output of a Keras model."""
  model_class = task_registry.load(task_registry.find(info.task).model)
  if model_class is None:
    names = ("pooled_output", "sequence_output")
    return {name: getattr(output, name) for name in names}
  problem_type = info.labels.problem_type if info.labels else None
  return model_class.name_outputs(output, problem_type)


def stack_attention(
  output: modeling.BertOutput, features: Mapping[str, Tensor]
) -> Tensor:
  """Returns the attention of all layers and heads, float32 [B, L, N, F, T].

  It is the weight from token F to token T, and 0 for padding.
  """
  probs = tf.stack(output.attention_probs, axis=1)
  is_token = tf.cast(features["input_mask"], probs.dtype)[:, None, None]
  return probs * is_token[..., None] * is_token[..., None, :]


def load_functions(folder: str) -> tuple[dict[str, SignatureFunction], int]:
  """Loads the functions on ids of a SavedModel.

  Returns:
    The functions by name, and the number of the model's parameters.

  Raises:
    ValueError: if it cannot be read or has no function IDS.
    NotFiniteError: if a variable contains NaN or infinity.
    ImportError: if it takes texts and tensorflow-text is missing.
  """
  # The operations of all functions must be registered, also to call only those
  # that take no texts.
  missing = None
  try:
    packages.import_tensorflow_text(f"{folder}, which takes texts,")
  except ImportError as error:
    missing = error
  with errors.reading(folder, "is not a readable SavedModel"):
    try:
      loaded = tf.saved_model.load(folder)
    except Exception as error:  # It raises many types.
      if missing and "Op type not registered" in str(error):
        raise missing from error
      raise
  if IDS not in loaded.signatures:
    raise ValueError(
      f"{folder} is not a SavedModel of `bert-tf export`: its signatures are "
      f"{', '.join(loaded.signatures) or '(none)'}, not {IDS}. One of TF Hub "
      "needs `bert-tf convert`."
    )
  weights = {  # Functions share most of the variables.
    variable.name.removesuffix(":0"): variable.numpy()
    for function in loaded.signatures.values()
    for variable in function.variables
  }
  checkpoints.check_finite(folder, weights)
  functions = {
    name: SignatureFunction(loaded, name)
    for name in (IDS, ATTENTION)
    if name in loaded.signatures
  }
  return functions, sum(weight.size for weight in weights.values())
