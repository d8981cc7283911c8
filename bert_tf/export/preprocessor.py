"""Texts as inputs of `fit`, `evaluate` and `predict` of a Keras model."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import tokenization
from bert_tf.export import text
from bert_tf.tasks import base
from bert_tf.tasks.config import EncoderSettings
from bert_tf.tasks.encoder.task import EncoderTask


class TextPreprocessor:
  """Converts texts or pairs of texts to the ids that a model reads.

  Args:
    tokenizer: the tokenizer of the model.
    max_seq_length: the longest input in word pieces, with [CLS] and [SEP].
      Longer texts are cut at the end, a pair at the end of its longer text.
  """

  def __init__(
    self, tokenizer: tokenization.FullTokenizer, max_seq_length: int
  ) -> None:
    self.tokenizer = tokenizer
    self.max_seq_length = max_seq_length

  @property
  def settings(self) -> dict[str, Any]:
    """The settings of run.json that say how to convert texts."""
    basic = self.tokenizer.basic_tokenizer
    lower, strip = basic.do_lower_case, basic.strip_accents
    return {
      "do_lower_case": lower,
      "strip_accents": None if strip == lower else strip,
      "max_seq_length": self.max_seq_length,
    }

  def convert(self, pairs: Sequence[tuple[Any, Any]]) -> dict[str, np.ndarray]:
    """Returns the inputs of a model, int32 [B, F], for what `find_pairs` finds.

    F is the length of the longest row. If the second texts of a row are a list
    of C choices, the inputs are int32 [B, C, F], each with the first text.
    """
    shape: tuple[int, ...] = (len(pairs),)
    if not isinstance(pairs[0][1], str | bytes | None):
      shape = len(pairs), len(pairs[0][1])
      pairs = [
        (first, choice) for first, seconds in pairs for choice in seconds
      ]
    settings = EncoderSettings(max_seq_length=self.max_seq_length)
    task = EncoderTask(tokenizer=self.tokenizer, settings=settings)
    ids = [
      (task.tokenize(first), task.tokenize(second) if second else None)
      for first, second in pairs
    ]
    if num_cut := sum(itertools.starmap(task.is_cut, ids)):
      logging.info(
        f"{num_cut} of {len(ids)} texts have more than {self.max_seq_length} "
        "word pieces (`max_seq_length`) and are cut."
      )
    arrays = base.batch([*itertools.starmap(task.pack, ids)])
    return {name: array.reshape(*shape, -1) for name, array in arrays.items()}

  def map(self, data: tf.data.Dataset) -> tf.data.Dataset:
    """Converts the texts of a data set of batches; see `is_text_data`."""
    if any(spec.shape.rank != 1 for spec in tf.nest.flatten(_inputs_of(data))):
      raise ValueError("a data set of texts has to be batched.")
    basic = self.tokenizer.basic_tokenizer
    tokenizer = text.BertTokenizer(
      self.tokenizer.vocab, basic.do_lower_case, basic.strip_accents
    )

    def convert(inputs: Any, *labels: Any) -> Any:
      if isinstance(inputs, Mapping):
        inputs = [inputs[n] for n in ("text", "text_b") if n in inputs]
      segments = [tokenizer.tokenize(x) for x in tf.nest.flatten(inputs)]
      ids = tokenizer.pack(segments, self.max_seq_length, pad_to_max=False)
      return (ids, *labels) if labels else ids

    return data.map(convert, num_parallel_calls=tf.data.AUTOTUNE)


def _inputs_of(data: tf.data.Dataset) -> Any:
  spec = data.element_spec
  return spec[0] if isinstance(spec, tuple) else spec


def is_text_data(x: Any) -> bool:
  """Whether x is a tf.data.Dataset whose inputs are strings."""
  return isinstance(x, tf.data.Dataset) and all(
    getattr(spec, "dtype", None) == tf.string
    for spec in tf.nest.flatten(_inputs_of(x))
  )


def find_pairs(x: Any) -> list[tuple[Any, Any]] | None:
  """Returns the first and second text of each row; None without texts.

  The second is None for single texts, and a list for several choices.

  Args:
    x: a list or an array of texts or of pairs of texts, a tuple of two columns,
      or a dict with `text` and, for pairs, `text_b`.
  """
  if isinstance(x, str | bytes):
    return [(x, None)]
  columns = (x, None)
  if isinstance(x, Mapping):
    columns = (x.get("text"), x.get("text_b"))
  elif isinstance(x, tuple) and len(x) == 2 and not isinstance(x[0], str):
    columns = x
  first, second = map(_to_list, columns)
  if not first:
    return None
  if second is None and isinstance(first[0], list | tuple):
    if len(first[0]) != 2:
      return None
    first, second = map(list, zip(*first))
  if not isinstance(first[0], str | bytes):
    return None
  if second is not None and len(second) != len(first):
    raise ValueError(f"{len(first)} texts have {len(second)} second texts.")
  return [*zip(first, second or [None] * len(first))]


def _to_list(column: Any) -> list | None:
  if isinstance(column, tf.Tensor):
    column = column.numpy()
  if hasattr(column, "tolist"):  # An array of NumPy or a column of pandas.
    column = column.tolist()
  return list(column) if isinstance(column, list | tuple) else None
