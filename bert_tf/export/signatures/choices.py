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

  Both return `logits` and `probabilities`, float32 [B, C], and `choice`,
  int32 [B], the index of the likeliest. `ids` takes int32 [B, C, F]; `text`
  takes `context`, string [B], and `choices`, string [B, C], each as sentence B
  has it: of SWAG with the beginning that the endings share.

  Args:
    model: of heads.MultipleChoiceModel.
    tokenizer: None to leave out the function that takes texts.
    max_seq_length: word pieces of a pair; longer ones are cut.
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
    return {saved_models.IDS: ids, saved_models.DEFAULT: ids}

  @saved_models.function(
    [
      *saved_models.texts_spec("context"),
      *saved_models.texts_spec("choices", rank=2),
    ]
  )
  def text(context: Tensor, choices: Tensor) -> dict[str, Tensor]:
    shape = tf.shape(choices)  # [B, C]
    pieces = tokenizer.tokenize(context)
    repeated = tf.repeat(tf.range(shape[0]), shape[1])
    packed = tokenizer.pack(
      [
        tf.gather(pieces, repeated),
        tokenizer.tokenize(tf.reshape(choices, [-1])),
      ],
      max_seq_length,
      pad_to_max=False,
    )  # [B*C, F]
    width = tf.shape(packed["input_ids"])[1]
    return scored(
      {
        name: tf.reshape(value, [shape[0], shape[1], width])
        for name, value in packed.items()
      }
    )

  return {
    saved_models.IDS: ids,
    saved_models.TEXT: text,
    saved_models.DEFAULT: text,
  }
