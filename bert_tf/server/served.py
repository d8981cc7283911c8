"""A model with its name, functions and description, as the server uses it."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from absl import logging

from bert_tf.export import saved_models
from bert_tf.export.signatures import classification
from bert_tf.inference import loaded_model, predictor
from bert_tf.model_folder import letter_case
from bert_tf.server import config as server_config
from bert_tf.tasks.classification import glue

# Config keys reported as the size of a model.
_SIZES = (
  "num_hidden_layers",
  "hidden_size",
  "num_attention_heads",
  "vocab_size",
)
# Keys of run.json that the API reports.
_ABOUT = (
  "task",
  "task_name",
  "problem_type",
  "labels",
  "is_pair",
  "do_lower_case",
  "max_seq_length",
  "num_train_examples",
  "num_dev_examples",
  "scores",
  "examples",
)
# Assumed maximum length of a model without run.json.
_MAX_SEQ_LENGTH = 512
# Bytes of texts to count at a time, which takes about a millisecond.
_COUNTED_BYTES = 1 << 12


class ServedModel:
  """A model with a name and a description.

  Attributes:
    name: name in paths.
    version: number of a SavedModel's folder, else 1.
    functions: functions by signature name.
    bert_config: sizes of the model; None if unknown.
  """

  def __init__(self, name: str, model: predictor.Predictor) -> None:
    server_config.check_model_name(name)
    self.name = name
    self.version: int = model.version
    self.functions: Mapping[str, loaded_model.Function] = model.functions
    self.bert_config = model.bert_config
    info = model.info
    # Maximum word pieces of a text, if it is not read in windows.
    self.max_seq_length = (info and info.max_seq_length) or _MAX_SEQ_LENGTH
    self._model = model
    # Counts word pieces; None for a model without vocabulary.
    self._tokenizer = None
    if model.vocab_file and saved_models.DEFAULT in model.functions:
      self._tokenizer = letter_case.make_tokenizer(model.vocab_file, info)
    classification.warn_if_cut(info)
    for signature, function in self.functions.items():
      # `outputs` traces a checkpoint's functions now, which takes seconds.
      logging.info(
        "%s: %s returns %s.", name, signature, ", ".join(function.outputs)
      )

  def about(self) -> dict[str, Any]:
    """Returns a description of the model as JSON, without unknown values."""
    info, config = self._model.info, self.bert_config
    known = {name: getattr(info, name, None) for name in _ABOUT}
    if info:
      known["label_names"] = glue.LABEL_NAMES.get(info.task_name or "")
    if config:
      known["size"] = {name: getattr(config, name) for name in _SIZES} | {
        "num_parameters": self._model.num_parameters
      }
    known = {name: v for name, v in known.items() if v is not None}
    return {"name": self.name, "version": str(self.version), **known}

  def window_stride(self) -> int | None:
    """Returns the stride in word pieces; None if the task has no windows."""
    info = self._model.info
    if info is None or info.task not in ("squad", "ner"):
      return None
    return info.doc_stride or (info.max_seq_length or 128) // 2

  def piece_counts(
    self, inputs: Mapping[str, np.ndarray]
  ) -> Iterator[list[int]]:
    """Yields `text_lengths` of a request; nothing without a vocabulary."""
    if self._tokenizer:
      arrays = [a.ravel() for a in inputs.values() if a.dtype == object]
      yield from self.text_lengths(itertools.chain(*arrays))

  def text_lengths(self, texts: Iterable[bytes]) -> Iterator[list[int]]:
    """Yields lists of the numbers of word pieces of texts, in order.

    They are counted before truncation and without [CLS] and [SEP]; without a
    vocabulary, bytes are. A list is of a few kilobytes, or one longer text.
    """
    lengths: list[int] = []
    num_bytes = 0
    for text in texts:
      length = len(text)
      if self._tokenizer:
        ids = self._tokenizer.tokenize_to_ids(text.decode(errors="ignore"))
        length = len(ids)
      lengths.append(length)
      num_bytes += len(text)
      if num_bytes >= _COUNTED_BYTES:
        yield lengths
        lengths, num_bytes = [], 0
    if lengths:
      yield lengths


def create_models(
  models: Mapping[str, predictor.Predictor],
) -> dict[str, ServedModel]:
  """Returns the models by name.

  Raises:
    ValueError: for a name that cannot be part of a path, or no model.
  """
  if not models:
    raise ValueError("there is no model to serve; name at least one.")
  return {name: ServedModel(name, model) for name, model in models.items()}
