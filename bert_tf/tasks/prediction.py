"""What comes before and after the model: from texts to inputs, to answers.

Prediction files, `bert_tf.load(...).predict` and the server use the same
Answerer of a task.
"""

import abc
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_tf import tokenization
from bert_tf.data import packing
from bert_tf.files import errors
from bert_tf.model_folder import run_info

# The outputs of the model for one of its inputs, by name, without the batch.
Outputs = Mapping[str, np.ndarray]


class ModelInput(NamedTuple):
  """One input of the model, without padding; each field has F numbers."""

  input_ids: Sequence[int]
  input_mask: Sequence[int]
  segment_ids: Sequence[int]
  # Positions whose words a pre-trained model predicts.
  masked_lm_positions: Sequence[int] = ()


@dataclasses.dataclass(frozen=True)
class Prepared:
  """A row of texts with the model's inputs for it; a row may need none."""

  inputs: Sequence[ModelInput]
  state: Any = None  # What `Answerer.answer` needs besides the outputs.
  is_cut: bool = False  # Whether the texts exceed one input.


class Answerer(abc.ABC):
  """Turns texts into inputs of a model, and its outputs into answers.

  Args:
    tokenizer: the tokenizer of the model.
    info: what run.json says about the model, with all its settings.

  Attributes:
    fields: names of a row's texts; the first num_required are required.
    outputs: names of the model's outputs that `answer` reads.
    width: length to which all inputs are padded; None for that of the longest
      in the batch.
    variants: other ways to read the texts of a row, by name.
  """

  fields: tuple[str, ...] = ("text",)
  num_required: int = 1
  outputs: tuple[str, ...] = ("logits",)
  width: int | None = None
  variants: Mapping[str, type["Answerer"]] = {}

  def __init__(
    self, tokenizer: tokenization.FullTokenizer, info: run_info.RunInfo
  ) -> None:
    assert info.settings.max_seq_length
    self.tokenizer = tokenizer
    self.info = info
    self.max_seq_length: int = info.settings.max_seq_length
    self._cls_id, self._sep_id = tokenizer.convert_tokens_to_ids(
      [tokenization.CLS, tokenization.SEP]
    )

  @abc.abstractmethod
  def prepare(self, row: Mapping[str, Any]) -> Prepared:
    """Returns the inputs for the texts of a row, by the names in `fields`.

    Raises:
      ValueError: if the model cannot read the texts.
    """

  @abc.abstractmethod
  def answer(
    self, prepared: Prepared, outputs: Sequence[Outputs]
  ) -> dict[str, Any]:
    """Returns the answer of a row as JSON.

    Args:
      prepared: the row, from `prepare`.
      outputs: the model's outputs for each input. Those for positions may be
        longer than the input, since a batch is padded.
    """

  def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
    """Warns of rows whose answer means little; ValueError if none has one."""
    if empty := with_empty_text(rows):
      numbers = errors.join_names([*map(str, empty)], 5)
      logging.warning(f"These rows have an empty text: {numbers}.")

  def tokenize(self, text: str) -> list[int]:
    """Returns the ids of the word pieces of a text."""
    return self.tokenizer.tokenize_to_ids(text)

  def pack(
    self, ids_a: Sequence[int], ids_b: Sequence[int] | None = None
  ) -> ModelInput:
    """Returns the input of a text or a pair, cut to max_seq_length."""
    ids, num_first = packing.assemble(
      ids_a, ids_b, self._cls_id, self._sep_id, self.max_seq_length
    )
    return model_input(ids, num_first)

  def is_cut(
    self, ids_a: Sequence[int], ids_b: Sequence[int] | None = None
  ) -> bool:
    """Returns whether `pack` drops some of the word pieces."""
    return packing.is_cut(ids_a, ids_b, self.max_seq_length)


def model_input(
  ids: Sequence[int], num_first: int, positions: Sequence[int] = ()
) -> ModelInput:
  """Returns an input whose first num_first ids are in segment 0."""
  segment_ids = [0] * num_first + [1] * (len(ids) - num_first)
  return ModelInput(ids, [1] * len(ids), segment_ids, positions)


def with_empty_text(rows: Iterable[Mapping[str, Any]]) -> list[int]:
  """Returns the indices of rows in which a text, or one of a list, is blank."""
  empty = []
  for index, row in enumerate(rows):
    texts = (
      [value] if isinstance(value, str) else value for value in row.values()
    )
    if not all(map(str.strip, itertools.chain.from_iterable(texts))):
      empty.append(index)
  return empty


def batch(
  inputs: Sequence[ModelInput], width: int | None = None
) -> dict[str, np.ndarray]:
  """Returns inputs as arrays by name, int32 [B, F].

  They are padded with 0 to `width`, or if it is None to the longest.
  `masked_lm_positions`, int32 [B, P], are left out if there are none.
  """
  arrays = {}
  for name, rows in zip(ModelInput._fields, zip(*inputs)):
    if name == "masked_lm_positions":
      if not any(rows):
        continue
      width = None
    array = np.zeros((len(rows), width or max(map(len, rows))), np.int32)
    for target, row in zip(array, rows):
      target[: len(row)] = row
    arrays[name] = array
  return arrays


def labels_in(answer: Any) -> Iterator[Any]:
  """Yields the labels in an answer: a label, a list of answers, or neither."""
  if isinstance(answer, list | tuple):
    for item in answer:
      yield from labels_in(item)
  elif not isinstance(answer, float | None):
    yield answer


def digits(values: np.ndarray) -> list[float]:
  """Returns float32 [N] as Python's floats that print with their digits."""
  return [float(str(value)) for value in values]


def probabilities(
  logits: np.ndarray, problem_type: str | None = None
) -> np.ndarray:
  """Returns `losses.probabilities`, float32 [..., C], of logits [..., C].

  NumPy takes a tenth of the time of TensorFlow for a single row.
  """
  logits = np.asarray(logits, np.float32)
  if problem_type == "regression":
    return logits
  if problem_type == "multilabel":
    return np.exp(-np.logaddexp(np.float32(0), -logits))
  exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
  return exponentials / exponentials.sum(axis=-1, keepdims=True)
