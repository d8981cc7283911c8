"""Classifiers of texts and of pairs of texts."""

from collections.abc import Sequence

import tensorflow as tf

from bert_tf import losses
from bert_tf.export import saved_models
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.modeling import Tensor
from bert_tf.tasks import label_map
from bert_tf.tasks.classification import glue

TEXT_PAIR = "text_pair"


def signatures(
  model: saved_models.NamedModel,
  task: label_map.LabelSpec,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  max_seq_length: int,
) -> saved_models.Signatures:
  """Returns what a classifier's SavedModel computes.

  `ids` returns logits and probabilities, float32 [B, C]; of a regression the
  number, `prediction`, float32 [B]. `text` and `text_pair` take texts, and
  return the names as well: `label`, string [B], the likeliest, `labels`,
  string [B, C], the same in every row; of a multilabel task instead of the
  first `applies`, bool [B, C].

  Args:
    model: of heads.ClassifierModel.
    task: its labels are known.
    tokenizer: None to leave out what takes texts.
    max_seq_length: word pieces a text or pair; what is longer is cut.
  """

  def scored(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    logits = model(inputs)
    return {"logits": logits, **_probabilities(logits, task)}

  ids = saved_models.ids_function(scored)
  found = {saved_models.IDS: ids, saved_models.DEFAULT: ids}
  if tokenizer is None:
    return found

  def classified(texts: Sequence[Tensor]) -> dict[str, Tensor]:
    segments = [tokenizer.tokenize(text) for text in texts]
    packed = tokenizer.pack(segments, max_seq_length, pad_to_max=False)
    logits = model(packed)
    return {**_probabilities(logits, task), **_names(logits, task)}

  @saved_models.function(saved_models.texts_spec("text"))
  def single(text: Tensor) -> dict[str, Tensor]:
    return classified([text])

  @saved_models.function(saved_models.texts_spec("text", "text_b"))
  def pair(text: Tensor, text_b: Tensor) -> dict[str, Tensor]:
    return classified([text, text_b])

  found |= {saved_models.TEXT: single, TEXT_PAIR: pair}
  found[saved_models.DEFAULT] = pair if _has_pairs(task.name) else single
  return found


def _has_pairs(task_name: str) -> bool:
  """Returns whether a task is known to be one of pairs."""
  if task_name not in glue.NAMES:
    return False
  return glue.get_task(task_name).is_pair


def _probabilities(
  logits: Tensor, task: label_map.LabelSpec
) -> dict[str, Tensor]:
  probabilities = losses.probabilities(logits, task.problem_type)
  if task.problem_type == "regression":
    return {"prediction": probabilities[:, 0]}
  return {"probabilities": probabilities}


def _names(logits: Tensor, task: label_map.LabelSpec) -> dict[str, Tensor]:
  """Returns what the labels are called, and which it is."""
  if task.problem_type == "regression":
    return {}
  names = tf.constant(task.labels, tf.string)
  batch = tf.shape(logits)[0]
  labels = tf.tile(names[None, :], [batch, 1])  # [B, C]
  if task.problem_type == "multilabel":
    return {"labels": labels, "applies": logits > 0}
  return {
    "labels": labels,
    "label": tf.gather(names, tf.argmax(logits, axis=-1)),
  }
