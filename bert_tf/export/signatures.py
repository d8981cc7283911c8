"""Functions of SavedModels on word-piece ids."""

import tensorflow as tf

from bert_tf import modeling
from bert_tf.export import saved_models
from bert_tf.model_folder import run_info
from bert_tf.modeling import Tensor
from bert_tf.tasks import registry

# Function that returns masked-LM logits of all positions.
ALL_POSITIONS = "ids_all_positions"
ATTENTION = "attention"

_POSITIONS = "masked_lm_positions"


def make(
  model: saved_models.NamedModel, info: run_info.RunInfo
) -> saved_models.Signatures:
  """Returns the function `ids`, the default, of a model with a head.

  It takes saved_models.ID_NAMES, int32 [B, F], for multiple choice [B, C, F],
  and returns the outputs that `name_outputs` of the model's class names. A
  pre-trained model also takes `masked_lm_positions`, int32 [B, P], and has the
  function `ids_all_positions`, which returns the same for all positions.
  """
  kind = registry.load(registry.TASKS[info.task].model)

  def compute(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return kind.name_outputs(model(inputs), info.problem_type)

  def compute_all(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    positions = tf.range(tf.shape(inputs["input_ids"])[1])
    positions = tf.zeros_like(inputs["input_ids"]) + positions[None, :]
    return compute({**inputs, _POSITIONS: positions})

  names = (*saved_models.ID_NAMES, *kind.more_inputs)
  rank = len(kind.input_shape_names)
  ids = saved_models.ids_function(compute, rank, names)
  functions = {saved_models.IDS: ids, saved_models.DEFAULT: ids}
  if _POSITIONS in names:
    functions[ALL_POSITIONS] = saved_models.ids_function(compute_all)
  return functions


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
