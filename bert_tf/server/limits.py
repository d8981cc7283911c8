"""Limits the memory of a request: computes it in slices, or rejects it.

Without these limits, a request within the limits of rows and bytes could need
more memory than the machine has.
"""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf import heads
from bert_tf.inference import loaded_model
from bert_tf.server import config as server_config
from bert_tf.server import served

Arrays = Mapping[str, np.ndarray]

# Maximum values in the outputs of a call: 256 MiB of float32.
_MAX_VALUES_PER_CALL = 1 << 26
# Assumed sizes of a model without bert_config.json.
_NUM_POSITIONS, _VOCAB_SIZE = 512, 30522
_MASK = b"[MASK]"
# [CLS] and two [SEP].
_NUM_SPECIAL = 3


class HttpError(Exception):
  """An error response with an HTTP status and a message for the client.

  Attributes:
    status: the HTTP status.
    param: parameter that is wrong, for errors in OpenAI's form; None if
      unknown.
    code: OpenAI's code of the error, if it has one.
  """

  def __init__(
    self,
    status: int,
    message: str,
    param: str | None = None,
    code: str | None = None,
  ) -> None:
    super().__init__(message)
    self.status = status
    self.param = param
    self.code = code


def num_windows(
  model: served.ServedModel,
  inputs: Arrays,
  lengths: np.ndarray,
  config: server_config.ServerConfig,
) -> int:
  """Returns the maximum number of windows, choices or rows of a request.

  The model computes each of them as one input.

  Args:
    model: the model.
    inputs: arrays of B rows by name.
    lengths: int [B]. Bytes of each row, which bound its word pieces.
    config: the limits.

  Raises:
    HttpError: if there are too many windows or choices.
  """
  num_rows = len(lengths)
  count = max(num_rows, *map(_num_texts, inputs.values()))
  stride, description = model.window_stride(), ""
  if count > num_rows:
    description = f"the request has {count} choices"
  elif stride is not None:
    # A row of ids or of an empty text is computed as one window.
    count = int(np.maximum(np.ceil(lengths / stride), 1).sum())
    description = (
      f"the texts of the request may have {count} windows of {stride} word "
      "pieces"
    )
  if description and count > config.max_windows:
    raise HttpError(
      413,
      f"{description}; the limit of this server is {config.max_windows}: send "
      "several requests.",
    )
  return count


def rows_at_once(
  model: served.ServedModel,
  signature: str,
  inputs: Arrays,
  config: server_config.ServerConfig,
) -> int:
  """Returns the number of rows to compute in a call.

  The number is `max_batch_size`, or less (at least 1) if the outputs of a row
  may be large. An example is logits of the whole vocabulary at each position.
  """
  num_values = _max_values_per_row(model, signature, inputs)
  return max(1, min(config.max_batch_size, _MAX_VALUES_PER_CALL // num_values))


def compute(
  function: loaded_model.Function,
  inputs: Arrays,
  at_once: int,
  config: server_config.ServerConfig,
  proceed: Callable[[], None],
) -> Arrays:
  """Computes the rows of inputs in slices and joins the outputs.

  A function with a fixed number of rows computes all rows in one call.

  Args:
    function: takes and returns arrays of B rows.
    inputs: the arrays by name.
    at_once: number of rows per slice.
    config: the limits.
    proceed: called before each slice; may raise to end the computation.

  Raises:
    HttpError: if the answer is too large.
    tf.errors.OpError: if the model rejects the inputs.
  """
  num_rows = len(next(iter(inputs.values())))
  if num_rows <= at_once or not function.has_batches():
    return function(inputs)
  slices: list[Arrays] = []
  num_values = 0
  for first in range(0, num_rows, at_once):
    proceed()
    rows = slice(first, first + at_once)
    slices.append(function({name: a[rows] for name, a in inputs.items()}))
    num_values += count_values(slices[-1])
    check_answer(num_values, config)
  return {
    name: _concatenate([outputs[name] for outputs in slices])
    for name in slices[0]
  }


def check_answer(num_values: int, config: server_config.ServerConfig) -> None:
  """Raises HttpError if an answer has too many values."""
  if num_values > config.max_answer_values:
    raise HttpError(
      413,
      f"the answer has {num_values} numbers and texts or more; the limit of "
      f"this server is {config.max_answer_values}: send fewer or shorter rows.",
    )


def count_values(outputs: Arrays) -> int:
  """Returns the total number of values in arrays."""
  return sum(array.size for array in outputs.values())


def _num_texts(array: np.ndarray) -> int:
  """Returns the number of texts, or of rows of word-piece ids, of an input."""
  if array.dtype == object:
    return array.size
  return int(np.prod(array.shape[: max(1, array.ndim - 1)]))


def _max_values_per_row(
  model: served.ServedModel, signature: str, inputs: Arrays
) -> int:
  """Returns the maximum number of output values per row, at least 1.

  Sizes that are unknown before the call count as the length of the row.
  """
  length = max(_length(model, array) for array in inputs.values())
  outputs = model.functions[signature].outputs
  if inputs and outputs.keys() == set(heads.PretrainingModel.outputs):
    # The model computes probabilities of the whole vocabulary.
    masks = max(_num_masks(array) for array in inputs.values())
    config = model.bert_config
    vocab_size = config.vocab_size if config else _VOCAB_SIZE
    return max(1, min(masks, length) * vocab_size)
  return max(1, sum(_size(spec, length) for spec in outputs.values()))


def _size(spec: tf.TensorSpec, length: int) -> int:
  """Returns the values of an output per row; unknown sizes are `length`."""
  if spec.shape.rank is None:
    return length
  count = 1
  for size in spec.shape.as_list()[1:]:
    count *= length if size is None else size
  return count


def _length(model: served.ServedModel, array: np.ndarray) -> int:
  """Returns the maximum word pieces of a text, or the length of a list."""
  if array.dtype != object:
    return max(array.shape[1:], default=1)
  longest = max(map(len, array.ravel()), default=0) + _NUM_SPECIAL
  config = model.bert_config
  return min(
    longest, config.max_position_embeddings if config else _NUM_POSITIONS
  )


def _num_masks(array: np.ndarray) -> int:
  """Returns the maximum number of [MASK] in a text."""
  if array.dtype != object:
    return 0
  return max((text.count(_MASK) for text in array.ravel()), default=0)


def _concatenate(arrays: list[np.ndarray]) -> np.ndarray:
  """Concatenates the rows of outputs, padded with "" or 0 to equal sizes."""
  sizes = np.max([array.shape[1:] for array in arrays], axis=0)
  padded = []
  for array in arrays:
    paddings = [(0, 0)]
    paddings += [(0, a - b) for a, b in zip(sizes, array.shape[1:])]
    filler = b"" if array.dtype == object else 0
    padded.append(np.pad(array, paddings, constant_values=filler))
  return np.concatenate(padded)
