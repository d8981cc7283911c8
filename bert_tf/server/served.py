"""A model as the server has it: its functions, limits, and what it is."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from absl import logging

from bert_tf import tokenization
from bert_tf.export import saved_models
from bert_tf.export.signatures import classification
from bert_tf.inference import loaded_model, predictor
from bert_tf.model_folder import letter_case
from bert_tf.server import config as server_config
from bert_tf.tasks.classification import glue

# Of its config, what a model's size is.
_SIZES = (
  "num_hidden_layers",
  "hidden_size",
  "num_attention_heads",
  "vocab_size",
)
# Of run.json, what people want to know.
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
_MASK_NAME = "input_mask"
# Bytes of texts that are counted in one go: about a millisecond.
_COUNTED_BYTES = 1 << 12


class ServedModel:
  """A model under a name.

  Attributes:
    name: in the paths.
    version: of the model.
    functions: by the names of signatures.
    bert_config: the model's sizes; None where it came without.
  """

  def __init__(self, name: str, model: predictor.Predictor) -> None:
    server_config.check_model_name(name)
    self.name = name
    self.version: int = model.version
    self.functions: Mapping[str, loaded_model.Function] = model.functions
    self.bert_config = model.bert_config
    self._model = model
    self._tokenizer = _tokenizer_of(model)
    classification.warn_if_cut(model.info)
    for signature, function in self.functions.items():
      # Traces a checkpoint's functions, which takes seconds, before requests.
      logging.info(
        "%s: %s returns %s.", name, signature, ", ".join(function.outputs)
      )

  def about(self) -> dict[str, Any]:
    """Returns what the model is, as JSON; what is not known is left out."""
    info, config = self._model.info, self.bert_config
    known = {name: getattr(info, name, None) for name in _ABOUT}
    if info:
      known["label_names"] = glue.LABEL_NAMES.get(info.task_name or "")
    if config:
      known["size"] = {name: getattr(config, name) for name in _SIZES} | {
        "num_parameters": self._model.num_parameters
      }
    found = {n: value for n, value in known.items() if value is not None}
    return {"name": self.name, "version": str(self.version), **found}

  def window_stride(self) -> int | None:
    """Returns the word pieces from window to window; None if texts are cut."""
    info = self._model.info
    if info is None or info.task not in ("squad", "ner"):
      return None
    return info.doc_stride or (info.max_seq_length or 128) // 2

  def piece_counts(self, inputs: Mapping[str, np.ndarray]) -> Iterator[int]:
    """Yields numbers of word pieces, whose sum is that of a request.

    They are counted without [CLS] and [SEP], before any text is cut, a few
    kilobytes or one longer text at a time. A model without vocabulary has none.
    """
    if _MASK_NAME in inputs:
      yield int(np.count_nonzero(inputs[_MASK_NAME]))
      return
    if self._tokenizer is None:
      return
    count = num_bytes = 0
    for array in inputs.values():
      for text in array.ravel() if array.dtype == object else ():
        ids = self._tokenizer.tokenize_to_ids(text.decode(errors="ignore"))
        count += len(ids)
        num_bytes += len(text)
        if num_bytes >= _COUNTED_BYTES:
          yield count
          count = num_bytes = 0
    yield count


def of_predictors(
  models: Mapping[str, predictor.Predictor],
) -> dict[str, ServedModel]:
  """Returns models by their names.

  Raises:
    ValueError: for a name that cannot stand in a path, or no model.
  """
  if not models:
    raise ValueError("there is no model to serve; name one at least.")
  return {name: ServedModel(name, model) for name, model in models.items()}


def _tokenizer_of(
  model: predictor.Predictor,
) -> tokenization.FullTokenizer | None:
  """Returns what counts word pieces; None for a model without vocabulary."""
  if not model.vocab_file or saved_models.DEFAULT not in model.functions:
    return None
  return letter_case.tokenizer_of(model.vocab_file, model.info)
