"""Functions of multiple choice: which of several texts follows a text."""

import tensorflow as tf

from bert_tf.export import saved_models
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.modeling import Tensor


def signatures(
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
    return scored(_packed(tokenizer, context, choices, max_seq_length))

  return saved_models.by_name(ids, text)


def _packed(
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
