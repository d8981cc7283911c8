"""A model as a function on word-piece ids, whatever holds the model.

It is a Keras model with the weights of a checkpoint, a SavedModel, or a file of
ONNX or LiteRT.
"""

import functools
import threading
from collections.abc import (
  Callable,
  Collection,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
)
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import task_registry
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import errors, packages
from bert_tf.model import model_inputs
from bert_tf.model.layers import layer_norm
from bert_tf.model.model_config import BertConfig
from bert_tf.modeling import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.rows import Answer, Row

# Inputs of functions on word-piece ids, in this order.
ID_NAMES = ("input_ids", "input_mask", "segment_ids")

# Names of functions, which are signatures in a SavedModel. Requests without a
# name use DEFAULT.
IDS, TEXT, ATTENTION = "ids", "text", "attention"
DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

# Tracing MiniLM takes 0.9 s of a CPU, an eager call 0.1 s, the first one 0.4 s.
NUM_EAGER_CALLS = 4

Specs = Mapping[str, tf.TensorSpec]


class IdsFunction:
  """A function of a model on word-piece ids; several threads may call it.

  Args:
    config: the sizes of the model.
    inputs: dtypes and shapes of the inputs, by name.
    outputs: dtypes and shapes of the outputs, by name.
    compute: returns the outputs by name for int32 arrays by name.
  """

  outputs: Specs

  def __init__(
    self,
    config: BertConfig,
    inputs: Specs,
    outputs: Specs,
    compute: Callable[[Mapping[str, np.ndarray]], Mapping[str, Any]],
  ) -> None:
    self.inputs, self.outputs = inputs, outputs
    self._config, self._compute = config, compute

  def __call__(
    self, arrays: Mapping[str, np.ndarray], names: Collection[str] = ()
  ) -> dict[str, np.ndarray]:
    """Returns the outputs with these names, or all, for int32 arrays.

    Raises ValueError if the model rejects an input, as it does numbers out of
    range, which would silently stand for others.
    """
    arrays = {name: arrays[name] for name in self.inputs}
    length = arrays["input_ids"].shape[-1]
    if length > self._config.max_position_embeddings:
      raise ValueError(
        f"an input has {length} word pieces, but the model takes at most "
        f"{self._config.max_position_embeddings}."
      )
    model_inputs.check_values(arrays, self._config)
    try:
      outputs = self._compute(arrays)
    except tf.errors.InvalidArgumentError as error:
      raise ValueError(errors.reason(error)) from error
    return {name: np.asarray(outputs[name]) for name in names or outputs}

  def compute(
    self,
    sequences: Sequence[base.ModelInput],
    names: Collection[str],
    width: int | None = None,
  ) -> list[base.Outputs]:
    """Returns the outputs with these names for each sequence of a batch.

    The batch is padded to `width`, or if it is None to its longest sequence.
    Raises the errors of a call.
    """
    arrays = base.batch(sequences, width)
    if "masked_lm_positions" in self.inputs:
      no_positions = np.zeros((len(sequences), 0), np.int32)
      arrays.setdefault("masked_lm_positions", no_positions)
    if self.inputs["input_ids"].shape.rank == 3:
      # Each sequence is the only choice of a row.
      arrays = {name: array[:, None] for name, array in arrays.items()}
    outputs = self(arrays, names)
    return [dict(zip(outputs, values)) for values in zip(*outputs.values())]

  def prepare(self) -> Any:
    """Does what the first calls would do, such as tracing."""


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
    config: BertConfig,
    names: Sequence[str] = ID_NAMES,
    rank: int = 2,
  ) -> None:
    self.inputs = {n: tf.TensorSpec([None] * rank, tf.int32, n) for n in names}
    self._config, self._compute = config, self._compute_eagerly_first
    self._call = call
    # Counting is atomic, so that threads share the eager calls.
    self._eager_calls: Iterator[int] = iter(range(NUM_EAGER_CALLS))
    self._traced = tf.function(
      lambda *values: call(dict(zip(names, values))),
      input_signature=[*self.inputs.values()],
      autograph=False,  # No Python control flow depends on a tensor.
    )

  @functools.cached_property
  def outputs(self) -> Specs:  # type: ignore[override]
    """Dtypes and shapes of the outputs; the first access traces."""
    outputs = self.prepare().structured_outputs
    return {n: tf.TensorSpec(x.shape, x.dtype, n) for n, x in outputs.items()}

  def prepare(self) -> Any:
    """Traces the function, so that no call waits for it, and returns it."""
    self._eager_calls = iter(())
    with layer_norm.fused():
      return self._traced.get_concrete_function()

  def _compute_eagerly_first(
    self, arrays: Mapping[str, np.ndarray]
  ) -> Mapping[str, Any]:
    tensors = [tf.constant(array) for array in arrays.values()]
    if next(self._eager_calls, None) is not None:
      return self._call(dict(zip(arrays, tensors)))
    with layer_norm.fused():
      return self._traced(*tensors)


def _spec(name: str, shape: Iterable[Any], dtype: Any) -> tf.TensorSpec:
  """Returns a spec; a dynamic size is a name in ONNX, and -1 in LiteRT."""
  sizes = [None if isinstance(n, str) or n < 0 else int(n) for n in shape]
  return tf.TensorSpec(sizes, tf.as_dtype(dtype), name)


def open_functions(files: ModelFolder) -> Mapping[str, IdsFunction]:
  """Loads the functions of a model by name.

  They are IDS, and ATTENTION for a checkpoint of a model with a head.

  Raises:
    ValueError: if the weights are not those of the task's model, or a
      SavedModel has no function IDS.
    DamagedFileError: if the weights cannot be read, or contain NaN or infinity.
    ImportError: if a runtime is missing, or tensorflow-text for a SavedModel
      that takes texts.
  """
  path = str(files.weights)
  if files.is_runtime_file:
    return {IDS: load_runtime_file(path, files.config)}
  if checkpoints.is_saved_model(path):
    if files.saved and files.saved.task != files.task_name:
      raise ValueError(f"{path} is a SavedModel of {files.saved.task}.")
    return _load_saved_model(path, files.config)
  info, config = files.info, files.config
  if info.task == task_registry.PRETRAINING.name:
    config.check_bidirectional(files.config_file)
  model_class = task_registry.load(task_registry.find(info.task).model)
  model = files.load_model(model_class)

  def compute(features: dict[str, Tensor]) -> dict[str, Tensor]:
    return name_outputs(model(features), info)

  def attend(features: dict[str, Tensor]) -> dict[str, Tensor]:
    output = model.bert(features, return_attention_probs=True)
    probs = tf.stack(output.attention_probs, axis=1)  # [B, L, N, F, T]
    # Padding neither gives nor gets attention.
    is_token = tf.cast(features["input_mask"], probs.dtype)[:, None, None]
    return {ATTENTION: probs * is_token[..., None] * is_token[..., None, :]}

  names, rank = (*ID_NAMES, *model.more_inputs), len(model.input_shape_names)
  functions = {IDS: KerasFunction(compute, config, names, rank)}
  if model_class:
    functions[ATTENTION] = KerasFunction(attend, config)
  return functions


def load_runtime_file(
  path: str, config: BertConfig, num_threads: int = 0
) -> IdsFunction:
  """Loads a file of ONNX or LiteRT, by its suffix.

  Args:
    path: the file.
    config: the sizes of the model.
    num_threads: CPU threads of a call; 0 for the runtime's choice.

  Raises:
    DamagedFileError: if the file cannot be read.
    ImportError: if the runtime is not installed.
  """
  if path.endswith(".onnx"):
    with packages.needs_extra("ONNX", extra="onnx"):
      import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    with errors.reading(path):
      session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
      )
    inputs, outputs = (
      # The type of float32 is "tensor(float)".
      {each.name: _spec(each.name, each.shape, each.type[7:-1]) for each in x}
      for x in (session.get_inputs(), session.get_outputs())
    )
    names = [*outputs]
    return IdsFunction(
      config,
      inputs,
      outputs,
      lambda arrays: dict(zip(names, session.run(names, dict(arrays)))),
    )
  with packages.needs_extra("LiteRT", extra="litert"):
    from ai_edge_litert import interpreter
  with errors.reading(path):
    run = interpreter.Interpreter(
      path, num_threads=num_threads or None
    ).get_signature_runner()
  inputs, outputs = (
    {n: _spec(n, v["shape_signature"], v["dtype"]) for n, v in values.items()}
    for values in (run.get_input_details(), run.get_output_details())
  )
  lock = threading.Lock()  # It computes one batch at a time.

  def compute(arrays: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
    with lock:
      return run(**arrays)

  return IdsFunction(config, inputs, outputs, compute)


def name_outputs(output: Any, info: run_info.RunInfo) -> dict[str, Tensor]:
  """Returns what the function IDS returns for the output of a Keras model."""
  model_class = task_registry.load(task_registry.find(info.task).model)
  if model_class is None:
    names = ("pooled_output", "sequence_output")
    return {name: getattr(output, name) for name in names}
  problem_type = info.labels.problem_type if info.labels else None
  if info.temperature != 1:
    output = output / info.temperature
  return model_class.name_outputs(output, problem_type)


def _load_saved_model(
  folder: str, config: BertConfig
) -> dict[str, IdsFunction]:
  # The operations of all functions must be registered, even to call only those
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
  variables = loaded.signatures[IDS].variables
  weights = {v.name.removesuffix(":0"): v.numpy() for v in variables}
  checkpoints.check_finite(folder, weights)
  return {IDS: of_signature(loaded, config)}


def of_signature(loaded: Any, config: BertConfig) -> IdsFunction:
  """Returns the signature IDS of a loaded SavedModel as a function."""
  signature = loaded.signatures[IDS]

  def compute(arrays: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
    tensors = {name: tf.constant(array) for name, array in arrays.items()}
    return loaded.signatures[IDS](**tensors)  # Keeps the variables alive.

  inputs = signature.structured_input_signature[1]
  return IdsFunction(config, inputs, signature.structured_outputs, compute)


class IdsRows:
  """Reads rows of word-piece ids, and answers what the model itself returns.

  A row has `input_ids`, `input_mask` and `segment_ids`, and for a pre-trained
  model `masked_lm_positions`; for multiple choice lists of them. An answer has
  the outputs of the model, by name.
  """

  width = None

  def __init__(self, function: IdsFunction) -> None:
    names = function.inputs.keys()
    self.fields = tuple(n for n in base.ModelInput._fields if n in names)
    self.num_required = len(self.fields)
    self.outputs = tuple(function.outputs)
    self.has_choices = function.inputs["input_ids"].shape.rank == 3
    self._by_length = {
      name
      for name, spec in function.outputs.items()
      if len(spec.shape) > 1 + self.has_choices and spec.shape[1] is None
    }

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields each row as a sequence, or as one for each choice."""
    for row in rows:
      if row.keys() != {*self.fields}:
        raise ValueError(
          f"a row of ids has {', '.join(self.fields)}, not {', '.join(row)}."
        )
      columns = [row[name] for name in self.fields]
      if not self.has_choices:
        columns = [[column] for column in columns]
      sequences = [base.ModelInput(*values) for values in zip(*columns)]
      for each in (columns, *sequences):
        if len({*map(len, each[:3])}) > 1:
          raise ValueError(f"{', '.join(self.fields[:3])} differ in length.")
        if not each[0]:
          raise ValueError(f"{self.fields[0]} is empty.")
      yield base.Inputs(sequences, is_one_record=self.has_choices)

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the outputs, without those of padding."""
    if self.has_choices:
      logits = np.concatenate([output["logits"] for output in outputs])
      [row] = base.probabilities(logits[None])
      return {
        "logits": logits.tolist(),
        "probabilities": row.tolist(),
        "choice": int(logits.argmax()),
      }
    [sequence], [output] = inputs.sequences, outputs
    length = len(sequence.masked_lm_positions or sequence.input_ids)
    return {
      name: (value[:length] if name in self._by_length else value).tolist()
      for name, value in output.items()
    }


# What turns rows into a model's inputs, and its outputs into answers.
RowReader = base.Task[Any] | IdsRows
