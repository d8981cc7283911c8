"""Functions of classifiers of texts and of pairs of texts."""

from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from bert_tf import losses
from bert_tf.export import saved_models
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.model_folder import run_info
from bert_tf.modeling import Tensor
from bert_tf.tasks.classification import config, glue

TEXT_PAIR = "text_pair"


def signatures(
  model: saved_models.NamedModel,
  problem_type: str,
  labels: Sequence[str],
  is_pair: bool,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  max_seq_length: int,
) -> saved_models.Signatures:
  """Returns what a classifier's SavedModel computes.

  `ids` returns logits and probabilities, float32 [B, C]; of a regression the
  number, `prediction`, float32 [B]. If there is a tokenizer, `text` and
  `text_pair`, the default with `is_pair`, take texts, cut to max_seq_length
  word pieces, and return names too: `label`, string [B], the likeliest, and
  `labels`, string [B, C], the same in every row; of a multilabel task
  `applies`, bool [B, C], instead of `label`.
  """

  def scored(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    logits = model(inputs)
    return {"logits": logits, **_probabilities(logits, problem_type)}

  ids = saved_models.ids_function(scored)
  found = {saved_models.IDS: ids, saved_models.DEFAULT: ids}
  if tokenizer is None:
    return found

  def classified(texts: list[Tensor]) -> dict[str, Tensor]:
    segments = [tokenizer.tokenize(text) for text in texts]
    packed = tokenizer.pack(segments, max_seq_length, pad_to_max=False)
    return named(model(packed), problem_type, labels)

  single, pair = saved_models.texts_functions(classified)
  found |= {saved_models.TEXT: single, TEXT_PAIR: pair}
  found[saved_models.DEFAULT] = pair if is_pair else single
  return found


def choice_signatures(
  model: saved_models.NamedModel,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  max_seq_length: int,
) -> saved_models.Signatures:
  """Returns what a SavedModel of multiple choice computes.

  Both functions return `logits` and `probabilities`, float32 [B, C], and
  `choice`, int32 [B], the index of the likeliest. `ids` takes int32 [B, C, F];
  `text`, if there is a tokenizer, takes `context`, string [B], and `choices`,
  string [B, C], each as sentence B has it: of SWAG with the beginning that the
  endings share. Pairs are cut to max_seq_length word pieces.
  """

  def scored(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    logits = model(inputs)
    return {
      "logits": logits,
      "probabilities": tf.nn.softmax(logits),
      "choice": tf.argmax(logits, axis=-1, output_type=tf.int32),
    }

  ids = saved_models.ids_function(scored, rank=3)
  if tokenizer is None:
    return saved_models.by_name(ids)

  @saved_models.function(
    [
      *saved_models.texts_spec("context"),
      *saved_models.texts_spec("choices", rank=2),
    ]
  )
  def text(context: Tensor, choices: Tensor) -> dict[str, Tensor]:
    return scored(_packed_choices(tokenizer, context, choices, max_seq_length))

  return saved_models.by_name(ids, text)


def _packed_choices(
  tokenizer: bert_tokenizer.BertTokenizer,
  context: Tensor,
  choices: Tensor,
  max_seq_length: int,
) -> dict[str, Tensor]:
  """Returns the model's input, int32 [B, C, F], cut and padded."""
  shape = tf.shape(choices)  # [B, C]
  repeated = tf.repeat(tf.range(shape[0]), shape[1])
  contexts = tf.gather(tokenizer.tokenize(context), repeated)
  pieces = tokenizer.tokenize(tf.reshape(choices, [-1]))
  packed = tokenizer.pack([contexts, pieces], max_seq_length, pad_to_max=False)
  width = tf.shape(packed["input_ids"])[1]
  sizes = [shape[0], shape[1], width]
  return {name: tf.reshape(value, sizes) for name, value in packed.items()}


def named(
  logits: Tensor, problem_type: str, labels: Sequence[str]
) -> dict[str, Tensor]:
  """Returns probabilities, and names where there are any, of [B, C] logits."""
  return {
    **_probabilities(logits, problem_type),
    **_names(logits, problem_type, labels),
  }


def cuts_more(info: run_info.RunInfo | None) -> bool:
  """Returns whether the signatures cut what the model's run did not."""
  if info is None or info.task != "classification":
    return False
  return info.long_text not in (None, config.LONG_TEXT_MODES[0])


def warn_if_cut(info: run_info.RunInfo | None) -> None:
  """Warns that answers to long texts are not what the run's scores are of."""
  if info and cuts_more(info):
    logging.warning(
      "The run reads long texts with long_text=%s, but SavedModels and the "
      "server cut them at %s word pieces: there the scores of the run do not "
      "hold for long texts. Use bert_tf.Predictor or --do_predict for them.",
      info.long_text,
      info.max_seq_length,
    )


def has_pairs(task_name: str) -> bool:
  """Returns whether a task is one of GLUE's with pairs of texts."""
  if task_name not in config.TASK_NAMES:
    return False
  return glue.get_task(task_name).is_pair


def _probabilities(logits: Tensor, problem_type: str) -> dict[str, Tensor]:
  """Returns the probabilities of the labels, or the predicted number."""
  probabilities = losses.probabilities(logits, problem_type)
  if problem_type == "regression":
    return {"prediction": probabilities[:, 0]}
  return {"probabilities": probabilities}


def _names(
  logits: Tensor, problem_type: str, labels: Sequence[str]
) -> dict[str, Tensor]:
  """Returns all labels, and which of them is predicted."""
  if problem_type == "regression":
    return {}
  names = tf.constant(labels, tf.string)
  batch = tf.shape(logits)[0]
  all_names = tf.tile(names[None, :], [batch, 1])  # [B, C]
  if problem_type == "multilabel":
    return {"labels": all_names, "applies": logits > 0}
  return {
    "labels": all_names,
    "label": tf.gather(names, tf.argmax(logits, axis=-1)),
  }
