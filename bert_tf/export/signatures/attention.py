"""The attention of a model's layers to the tokens of a text."""

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
  """Returns the functions of the attention of `bert`, with `model`'s values.

  `attention` takes `text` and `attention_pair` `text` and `text_b`, string [B],
  cut to max_seq_length word pieces. Both return `tokens`, string [B, F], with
  [CLS], [SEP] and "" as padding, and `attention`, float32 [B, L, N, F, T]: the
  weight of token T for token F in head N of layer L, 0 for padding. With
  `keeps_masks` "[MASK]" in a text is that token, not a word in brackets.
  """
  vocab = tf.constant(list(tokenizer.vocab), tf.string)

  def pieces(text: Tensor) -> tf.RaggedTensor:
    if keeps_masks:
      mask_id = tokenizer.vocab[tokenization.MASK]
      return masks.marked_pieces(tokenizer, mask_id, text)
    return tokenizer.tokenize(text)

  def shown(texts: list[Tensor]) -> dict[str, Tensor]:
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

  return dict(zip((SINGLE, PAIR), saved_models.texts_functions(shown)))
