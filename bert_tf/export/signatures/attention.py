"""Functions that return the attention weights of a model for texts."""

import tensorflow as tf

from bert_tf import modeling, tokenization
from bert_tf.export import saved_models
from bert_tf.export.signatures import masks
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.modeling import Tensor

SINGLE = "attention"
PAIR = "attention_pair"


def signatures(
  bert: modeling.BertModel,
  model: saved_models.NamedModel,
  tokenizer: bert_tokenizer.BertTokenizer,
  max_seq_length: int,
  keeps_masks: bool,
) -> saved_models.Signatures:
  """Returns the functions `attention` and `attention_pair`.

  They take `text`, or `text` and `text_b`, string [B], truncated to
  max_seq_length word pieces. With `keeps_masks`, "[MASK]" in a text is the mask
  token. `bert` is called with the values of `model`. The functions return:
    tokens: string [B, F], including [CLS] and [SEP]; "" for padding.
    attention: float32 [B, L, N, F, T]. Weight from token F to token T in head N
      of layer L; 0 for padding.
  """
  vocab = tf.constant(list(tokenizer.vocab), tf.string)

  def pieces(text: Tensor) -> tf.RaggedTensor:
    if keeps_masks:
      mask_id = tokenizer.vocab[tokenization.MASK]
      return masks.marked_pieces(tokenizer, mask_id, text)
    return tokenizer.tokenize(text)

  def attend(texts: list[Tensor]) -> dict[str, Tensor]:
    segments = [pieces(text) for text in texts]
    packed = tokenizer.pack(segments, max_seq_length, pad_to_max=False)
    output = model.call_layer(bert, packed, return_attention_probs=True)
    probs = tf.stack(output.attention_probs, axis=1)  # [B, L, N, F, T]
    is_token = tf.cast(packed["input_mask"], probs.dtype)
    tokens = tf.gather(vocab, packed["input_ids"])
    return {
      "tokens": tf.where(is_token > 0, tokens, ""),
      "attention": probs
      * is_token[:, None, None, :, None]
      * is_token[:, None, None, None, :],
    }

  return dict(zip((SINGLE, PAIR), saved_models.texts_functions(attend)))
