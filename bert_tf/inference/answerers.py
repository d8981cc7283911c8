"""The Answerers of a model, by the name of their requests.

Those of fine-tuned models are in `tasks`. Here are the ones for pre-trained
models and encoders, and for rows of word-piece ids.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf import tokenization
from bert_tf.export import saved_models
from bert_tf.files import errors
from bert_tf.inference import loaded_model
from bert_tf.model_folder import run_info
from bert_tf.tasks import prediction, registry

TEXT = "text"

# An input has at most this number of masks, since the model returns the logits
# of the whole vocabulary for each.
_MAX_MASKS = 32


class MaskAnswerer(prediction.Answerer):
  """Predicts the words of a text that "[MASK]" stands for.

  An answer has `masks`: for each one the `top_k` most probable word pieces as
  `token` and `probability`, the best first.
  """

  outputs = ("masked_lm_logits",)

  def __init__(
    self, tokenizer: tokenization.FullTokenizer, info: run_info.RunInfo
  ) -> None:
    super().__init__(tokenizer, info)
    if tokenization.MASK not in tokenizer.vocab:
      raise ValueError(f"the vocabulary lacks {tokenization.MASK}.")
    self._mask_id = tokenizer.vocab[tokenization.MASK]
    self._blank_id = tokenizer.vocab.get("")
    self._top_k = min(info.settings.top_k or 5, len(tokenizer.vocab))

  def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
    """Warns of texts without a mask; raises ValueError if all lack one."""
    mask = tokenization.MASK
    lacking = [str(i) for i, r in enumerate(rows) if mask not in r["text"]]
    if lacking:
      text = rows[int(lacking[0])]["text"]
      fault = f"row {errors.join_names(lacking, 5)} has no {mask}: {text!r:.60}"
      if len(lacking) == len(rows):
        raise ValueError(fault)
      logging.warning(fault)

  def tokenize(self, text: str) -> list[int]:
    """Returns the ids of the word pieces of a text, with those of masks."""
    first, *others = map(super().tokenize, text.split(tokenization.MASK))
    ids = first
    for part in others:
      ids += [self._mask_id, *part]
    return ids

  def prepare(self, row: Mapping[str, Any]) -> prediction.Prepared:
    """Returns the inputs of a text; raises ValueError if it is too long."""
    ids = self.tokenize(row["text"])
    if len(ids) > self.max_seq_length - 2:
      raise ValueError(
        f"a text has {len(ids) + 2} word pieces with [CLS] and [SEP], but the "
        f"maximum is {self.max_seq_length}."
      )
    packed = self.pack(ids)
    places = [i for i, x in enumerate(packed.input_ids) if x == self._mask_id]
    return prediction.Prepared(
      [
        packed._replace(masked_lm_positions=places[first : first + _MAX_MASKS])
        for first in range(0, len(places), _MAX_MASKS)
      ]
    )

  def answer(
    self, prepared: prediction.Prepared, outputs: Sequence[prediction.Outputs]
  ) -> dict[str, Any]:
    """Returns the most probable tokens of each mask."""
    masks = []
    for model_input, output in zip(prepared.inputs, outputs):
      count = len(model_input.masked_lm_positions)
      # Surplus rows of the table and blank lines are never predicted.
      logits = output["masked_lm_logits"][:count, : len(self.tokenizer.vocab)]
      if self._blank_id is not None:
        logits = logits.copy()
        logits[:, self._blank_id] = -np.inf
      rows = prediction.probabilities(logits)
      best = np.argsort(-rows, axis=1, kind="stable")[:, : self._top_k]
      for row, ids in zip(rows, best):
        tokens = self.tokenizer.convert_ids_to_tokens(ids.tolist())
        masks.append(
          [
            {"token": token, "probability": probability}
            for token, probability in zip(tokens, prediction.digits(row[ids]))
          ]
        )
    return {"masks": masks}


class VectorAnswerer(prediction.Answerer):
  """Computes a vector of a text: the pooled last layer.

  An answer has `embedding`, D numbers, and `num_tokens`, the word pieces with
  [CLS] and [SEP].
  """

  outputs = ("sequence_output",)

  def prepare(self, row: Mapping[str, Any]) -> prediction.Prepared:
    """Returns the input of a text."""
    return prediction.Prepared([self.pack(self.tokenize(row["text"]))])

  def answer(
    self, prepared: prediction.Prepared, outputs: Sequence[prediction.Outputs]
  ) -> dict[str, Any]:
    """Returns the vector, of length 1 if the model's setting says so."""
    num_tokens = len(prepared.inputs[0].input_ids)
    vector = self.vector(outputs[0]["sequence_output"][:num_tokens])
    return {"embedding": vector.tolist(), "num_tokens": num_tokens}

  def vector(
    self, vectors: np.ndarray, normalize: bool | None = None
  ) -> np.ndarray:
    """Pools the vectors of a text's word pieces, [F, D]; returns [D].

    `normalize` replaces the model's setting unless it is None.
    """
    vector = pool(vectors, self.info.settings.pooling or "mean")
    if normalize is None:
      normalize = self.info.settings.normalize
    if normalize:
      vector = vector / np.maximum(np.linalg.norm(vector), 1e-6)
    return vector


class IdsAnswerer(prediction.Answerer):
  """Returns what the model itself returns for rows of word-piece ids.

  A row has `input_ids`, `input_mask` and `segment_ids`, and for a pre-trained
  model `masked_lm_positions`; for multiple choice lists of them. An answer has
  the outputs of the model, by name.
  """

  def __init__(self, model: loaded_model.LoadedModel) -> None:
    function = model.functions[saved_models.IDS]
    names = function.inputs.keys()
    self.fields = tuple(n for n in prediction.ModelInput._fields if n in names)
    self.num_required = len(self.fields)
    self.outputs = tuple(function.outputs)
    self._has_choices = function.inputs["input_ids"].shape.rank == 3
    self._by_length = {
      name
      for name, spec in function.outputs.items()
      if len(spec.shape) > 1 + self._has_choices and spec.shape[1] is None
    }

  def prepare(self, row: Mapping[str, Any]) -> prediction.Prepared:
    """Returns the row as an input, or as one for each choice."""
    columns = [row[name] for name in self.fields]
    if not self._has_choices:
      columns = [[column] for column in columns]
    inputs = [prediction.ModelInput(*values) for values in zip(*columns)]
    for each in inputs:
      if len({*map(len, each[:3])}) > 1:
        raise ValueError(f"{', '.join(self.fields[:3])} differ in length.")
    return prediction.Prepared(inputs)

  def answer(
    self, prepared: prediction.Prepared, outputs: Sequence[prediction.Outputs]
  ) -> dict[str, Any]:
    """Returns the outputs, without those of padding."""
    if self._has_choices:
      logits = np.concatenate([output["logits"] for output in outputs])
      [row] = prediction.probabilities(logits[None])
      return {
        "logits": logits.tolist(),
        "probabilities": row.tolist(),
        "choice": int(logits.argmax()),
      }
    [model_input], [output] = prepared.inputs, outputs
    length = len(model_input.masked_lm_positions or model_input.input_ids)
    return {
      name: (value[:length] if name in self._by_length else value).tolist()
      for name, value in output.items()
    }


def pool(vectors: np.ndarray, pooling: str) -> np.ndarray:
  """Returns one vector for those of F word pieces, float32 [..., F, D].

  `pooling` is "cls", "mean" or "max"; "none" returns the vectors.
  """
  if pooling == "cls":
    return vectors[..., 0, :]
  if pooling == "mean":
    return vectors.mean(axis=-2)
  return vectors.max(axis=-2) if pooling == "max" else vectors


def create(
  model: loaded_model.LoadedModel,
) -> dict[str, prediction.Answerer]:
  """Returns the Answerers of a model by name, TEXT first.

  Returns {} for a model without a tokenizer or run.json.
  """
  info, tokenizer = model.info, model.tokenizer
  if info is None or tokenizer is None:
    return {}
  kind = registry.load(registry.TASKS[info.task].answerer)
  kinds = {TEXT: kind, **kind.variants}
  return {name: each(tokenizer, info) for name, each in kinds.items()}
