"""Functions of classifiers of texts, pairs and multiple choice."""

from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from bert_tf import losses
from bert_tf.export import saved_models
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.model_folder import run_info
from bert_tf.modeling import Tensor
from bert_tf.tasks.classification import config

TEXT_PAIR = "text_pair"


def signatures(
  model: saved_models.NamedModel,
  problem_type: str,
  labels: Sequence[str],
  is_pair: bool,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  max_seq_length: int,
) -> saved_models.Signatures:
  """Returns the functions of a classifier.

  `ids` returns `logits` and `probabilities`, float32 [B, C], or for regression
  `logits` and `prediction`, float32 [B].

  With a tokenizer, `text` and `text_pair` take texts, truncated to
  max_seq_length word pieces; `is_pair` chooses the default. For regression they
  return `prediction`, otherwise `probabilities` and:
    labels: string [B, C]. All labels, equal in each row.
    label: string [B]. The most probable label.
    applies: bool [B, C]. Only for multilabel, instead of `label`.
  """

  def score(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    logits = model(inputs)
    return {"logits": logits, **_probabilities(logits, problem_type)}

  ids = saved_models.ids_function(score)
  if tokenizer is None:
    return saved_models.name_functions(ids)

  def classify(texts: list[Tensor]) -> dict[str, Tensor]:
    segments = [tokenizer.tokenize(text) for text in texts]
    packed = tokenizer.pack(segments, max_seq_length, pad_to_max=False)
    return label(model(packed), problem_type, labels)

  single, pair = saved_models.texts_functions(classify)
  functions = saved_models.name_functions(ids, single) | {TEXT_PAIR: pair}
  functions[saved_models.DEFAULT] = pair if is_pair else single
  return functions


def choice_signatures(
  model: saved_models.NamedModel,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  max_seq_length: int,
) -> saved_models.Signatures:
  """Returns the functions of a multiple-choice model.

  They return `logits` and `probabilities`, float32 [B, C], and `choice`, int32
  [B], the index of the most probable choice. `ids` takes int32 [B, C, F]. With
  a tokenizer, `text` takes `context`, string [B], and `choices`, string [B, C],
  which for SWAG include the common start of the endings. Pairs are truncated to
  max_seq_length word pieces.
  """

  def score(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    logits = model(inputs)
    return {
      "logits": logits,
      "probabilities": tf.nn.softmax(logits),
      "choice": tf.argmax(logits, axis=-1, output_type=tf.int32),
    }

  ids = saved_models.ids_function(score, rank=3)
  if tokenizer is None:
    return saved_models.name_functions(ids)

  @saved_models.function(
    [
      *saved_models.texts_spec("context"),
      *saved_models.texts_spec("choices", rank=2),
    ]
  )
  def text(context: Tensor, choices: Tensor) -> dict[str, Tensor]:
    shape = tf.shape(choices)  # [B, C]
    repeated = tf.repeat(tf.range(shape[0]), shape[1])
    segments = [
      tf.gather(tokenizer.tokenize(context), repeated),
      tokenizer.tokenize(tf.reshape(choices, [-1])),
    ]
    packed = tokenizer.pack(segments, max_seq_length, pad_to_max=False)
    sizes = [shape[0], shape[1], tf.shape(packed["input_ids"])[1]]
    return score({n: tf.reshape(value, sizes) for n, value in packed.items()})

  return saved_models.name_functions(ids, text)


def label(
  logits: Tensor, problem_type: str, labels: Sequence[str]
) -> dict[str, Tensor]:
  """Returns the outputs of `text`, as in `signatures`, for logits [B, C]."""
  outputs = _probabilities(logits, problem_type)
  if problem_type == "regression":
    return outputs
  names = tf.constant(labels, tf.string)
  batch = tf.shape(logits)[0]
  outputs["labels"] = tf.tile(names[None, :], [batch, 1])  # [B, C]
  if problem_type == "multilabel":
    return {**outputs, "applies": logits > 0}
  return {**outputs, "label": tf.gather(names, tf.argmax(logits, axis=-1))}


def truncates_more(info: run_info.RunInfo | None) -> bool:
  """Returns whether the signatures truncate texts that the run did not."""
  if info is None or info.task != "classification":
    return False
  return info.long_text not in (None, config.LONG_TEXT_MODES[0])


def warn_if_cut(info: run_info.RunInfo | None) -> None:
  """Warns if the run's scores do not apply to long texts."""
  if info and truncates_more(info):
    logging.warning(
      "The run reads long texts with long_text=%s, but SavedModels and the "
      "server truncate them to %s word pieces, so the run's scores do not "
      "apply to long texts. Use bert_tf.Predictor or --do_predict for them.",
      info.long_text,
      info.max_seq_length,
    )


def _probabilities(logits: Tensor, problem_type: str) -> dict[str, Tensor]:
  probabilities = losses.probabilities(logits, problem_type)
  if problem_type == "regression":
    return {"prediction": probabilities[:, 0]}
  return {"probabilities": probabilities}
