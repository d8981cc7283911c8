"""Limits the memory of a request: computes it in slices, or rejects it.

Without these limits, a request within the limits of rows and bytes could need
more memory than the machine has.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

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
    param, code: the wrong parameter and OpenAI's code of the error, if known.
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

  The model computes each of them as one input. `inputs` are arrays of B rows.
  `lengths`, int [B], are the bytes of each row, which bound its word pieces.

  Raises:
    HttpError: if there are too many windows or choices.
  """
  num_rows = len(lengths)
  # Texts, or rows of word-piece ids, of each input.
  num_texts = (
    a.size if a.dtype == object else int(np.prod(a.shape[: max(1, a.ndim - 1)]))
    for a in inputs.values()
  )
  count = max(num_rows, *num_texts)
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

  It is `max_batch_size`, or less (at least 1) if the outputs of a row may be
  large, such as logits of the whole vocabulary at each position.
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
  `proceed` is called before each slice of `at_once` rows; it may raise to end
  the computation.

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


def _max_values_per_row(
  model: served.ServedModel, signature: str, inputs: Arrays
) -> int:
  """Sizes that are unknown before the call count as the row's length."""
  config = model.bert_config
  max_length = config.max_position_embeddings if config else _NUM_POSITIONS
  length = num_masks = 0
  for array in inputs.values():
    if array.dtype != object:
      length = max(length, *array.shape[1:], 1)
      continue
    texts = array.ravel().tolist()
    longest = max(map(len, texts), default=0) + _NUM_SPECIAL
    length = max(length, min(longest, max_length))
    num_masks = max(num_masks, *(text.count(_MASK) for text in texts), 0)
  outputs = model.functions[signature].outputs
  if outputs.keys() == set(heads.PretrainingModel.outputs):
    # The model computes probabilities of the whole vocabulary.
    vocab_size = config.vocab_size if config else _VOCAB_SIZE
    return max(1, min(num_masks, length) * vocab_size)
  sizes = (
    [length] if spec.shape.rank is None else spec.shape.as_list()[1:]
    for spec in outputs.values()
  )
  return max(
    1, sum(math.prod(length if n is None else n for n in row) for row in sizes)
  )


def _concatenate(arrays: list[np.ndarray]) -> np.ndarray:
  sizes = np.max([array.shape[1:] for array in arrays], axis=0)
  padded = []
  for array in arrays:
    paddings = [(0, 0)]
    paddings += [(0, a - b) for a, b in zip(sizes, array.shape[1:])]
    filler = b"" if array.dtype == object else 0
    padded.append(np.pad(array, paddings, constant_values=filler))
  return np.concatenate(padded)
