"""The function for feature extraction: a vector per token or per text."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from bert_tf import modeling
from bert_tf.export import saved_models
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.modeling import Tensor


def signature(
  bert: modeling.BertModel,
  model: saved_models.NamedModel,
  tokenizer: bert_tokenizer.BertTokenizer,
  max_seq_length: int,
  layers: Sequence[int],
  pooling: str,
) -> Callable[..., dict[str, Tensor]]:
  """Returns the function that computes features of texts and pairs.

  It takes `text` and `text_b`, string [B], truncated to max_seq_length word
  pieces. If text_b has no token, it is ignored, as in the original. `layers`
  are the indices of K layers; 0 is the first, -1 the last. `pooling` is "none",
  "cls", "mean" or "max". `bert` is called with the values of `model`. Returns:
    tokens: string [B, F].
    num_tokens: int32 [B]. Number of tokens without padding.
    vectors: float32 [B, K, F, D], or [B, K, D] if pooled.
  """
  vocab = tf.constant(list(tokenizer.vocab), tf.string)

  @saved_models.function(saved_models.texts_spec("text", "text_b"))
  def pair(text: Tensor, text_b: Tensor) -> dict[str, Tensor]:
    segments = [tokenizer.tokenize(text), tokenizer.tokenize(text_b)]
    packed = tokenizer.pack(segments, max_seq_length, pad_to_max=False)
    output = model.call_layer(bert, packed)
    outputs = [output.all_encoder_layers[index] for index in layers]
    vectors = tf.stack(outputs, axis=1)  # [B, K, F, D]
    return {
      "tokens": tf.gather(vocab, packed["input_ids"]),
      "num_tokens": tf.reduce_sum(packed["input_mask"], axis=1),
      "vectors": pool(vectors, packed["input_mask"], pooling),
    }

  return pair


def pool(vectors: Tensor, input_mask: Tensor, pooling: str) -> Tensor:
  """Returns pooled vectors, [B, K, D], or for "none" the vectors.

  Args:
    vectors: float32 [B, K, F, D]. The outputs of K layers.
    input_mask: int32 [B, F]. 1 for real positions, 0 for padding.
    pooling: "none", "cls", "mean" or "max".
  """
  if pooling == "cls":
    return vectors[:, :, 0]
  is_real = tf.cast(input_mask, vectors.dtype)[:, None, :, None]  # [B, 1, F, 1]
  if pooling == "mean":
    total = tf.reduce_sum(vectors * is_real, axis=2)
    return total / tf.reduce_sum(is_real, axis=2)
  if pooling == "max":
    lowest = vectors.dtype.min
    return tf.reduce_max(tf.where(is_real > 0, vectors, lowest), axis=2)
  return vectors
