"""Functions of SavedModels on word-piece ids."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bert_tf import losses, modeling
from bert_tf.export import saved_models
from bert_tf.model_folder import run_info
from bert_tf.modeling import Tensor

# Function that returns masked-LM logits of all positions.
ALL_POSITIONS = "ids_all_positions"
ATTENTION = "attention"


def make(
  model: saved_models.NamedModel, info: run_info.RunInfo
) -> saved_models.Signatures:
  """Returns the function `ids`, the default, of a model with a head.

  It takes saved_models.ID_NAMES, int32 [B, F], for swag [B, C, F], and returns:
    classification: `logits` and `probabilities`, float32 [B, C]; for regression
      `logits` and `prediction`, float32 [B].
    ner: `logits` and `probabilities`, float32 [B, F, C].
    squad: `start_logits` and `end_logits`, float32 [B, F].
    swag: `logits` and `probabilities`, float32 [B, C], and `choice`, int32 [B],
      the index of the most probable choice.
    pretraining: see `_pretraining`.
  """
  if info.task == "pretraining":
    return _pretraining(model)

  def compute(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return _OUTPUTS[info.task](model(inputs), info)

  rank = 3 if info.task == "swag" else 2
  return saved_models.name_functions(saved_models.ids_function(compute, rank))


def labels(logits: Tensor, info: run_info.RunInfo) -> dict[str, Tensor]:
  """Returns a classifier's outputs of `ids`, as in `make`, for its logits."""
  assert info.problem_type
  probabilities = losses.probabilities(logits, info.problem_type)
  if info.problem_type == "regression":
    return {"logits": logits, "prediction": probabilities[:, 0]}
  return {"logits": logits, "probabilities": probabilities}


def _words(logits: Tensor, info: run_info.RunInfo) -> dict[str, Tensor]:
  return {"logits": logits, "probabilities": tf.nn.softmax(logits)}


def _choices(logits: Tensor, info: run_info.RunInfo) -> dict[str, Tensor]:
  best = tf.argmax(logits, axis=-1, output_type=tf.int32)
  return {**_words(logits, info), "choice": best}


# The outputs of `ids`, by name, by task.
_OUTPUTS: dict[str, Callable[[Any, run_info.RunInfo], dict[str, Tensor]]] = {
  "classification": labels,
  "ner": _words,
  "squad": lambda output, info: output._asdict(),
  "swag": _choices,
}


def _pretraining(model: saved_models.NamedModel) -> saved_models.Signatures:
  """Returns the functions of a pre-trained model.

  `ids` also takes `masked_lm_positions`, int32 [B, P]. It returns
  `masked_lm_logits` and `masked_lm_probabilities`, float32 [B, P, V], and
  `next_sentence_logits` and `next_sentence_probabilities`, float32 [B, 2].
  `ids_all_positions` returns the same for all positions.
  """

  def predict(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    output = model(inputs)
    return {
      "masked_lm_logits": output.masked_lm_logits,
      "masked_lm_probabilities": tf.nn.softmax(output.masked_lm_logits),
      "next_sentence_logits": output.next_sentence_logits,
      "next_sentence_probabilities": tf.nn.softmax(output.next_sentence_logits),
    }

  def predict_all(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    positions = tf.range(tf.shape(inputs["input_ids"])[1])
    positions = tf.zeros_like(inputs["input_ids"]) + positions[None, :]
    return predict({**inputs, "masked_lm_positions": positions})

  names = (*saved_models.ID_NAMES, "masked_lm_positions")
  ids = saved_models.ids_function(predict, names=names)
  all_positions = saved_models.ids_function(predict_all)
  return {**saved_models.name_functions(ids), ALL_POSITIONS: all_positions}


def attention(
  bert: modeling.BertModel, model: saved_models.NamedModel
) -> saved_models.Signatures:
  """Returns the function `attention`.

  It takes saved_models.ID_NAMES, int32 [B, F], and returns `attention`, float32
  [B, L, N, F, T]: the weight from token F to token T in head N of layer L; 0
  for padding. `bert` is called with the values of `model`.
  """

  def attend(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    inputs = model.checked(inputs)
    output = model.call_layer(bert, inputs, return_attention_probs=True)
    probs = tf.stack(output.attention_probs, axis=1)  # [B, L, N, F, T]
    is_token = tf.cast(inputs["input_mask"], probs.dtype)[:, None, None]
    return {ATTENTION: probs * is_token[..., None] * is_token[..., None, :]}

  return {ATTENTION: saved_models.ids_function(attend)}
