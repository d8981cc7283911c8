"""Functions of pre-trained models: masked words and next sentences."""

import tensorflow as tf

from bert_tf import tokenization
from bert_tf.export import saved_models
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.modeling import Tensor

# Function that returns masked-LM logits of all positions.
ALL_POSITIONS = "ids_all_positions"


def signatures(
  model: saved_models.NamedModel,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  max_seq_length: int,
  top_k: int,
) -> saved_models.Signatures:
  """Returns the functions of a pre-trained model.

  `ids` also takes `masked_lm_positions`, int32 [B, P]. It returns
  `masked_lm_logits` and `masked_lm_probabilities`, float32 [B, P, V], and
  `next_sentence_logits` and `next_sentence_probabilities`, float32 [B, 2].
  `ids_all_positions` returns the same for all positions.

  With a tokenizer, `text` returns the predictions for the M masks of each text:
  `tokens`, string [B, M, top_k], and their `probabilities`, padded with "" and
  0. It rejects texts of more than max_seq_length word pieces.
  """

  @saved_models.function(
    [
      *saved_models.ids_spec(),
      tf.TensorSpec([None, None], tf.int32, "masked_lm_positions"),
    ]
  )
  def ids(
    input_ids: Tensor,
    input_mask: Tensor,
    segment_ids: Tensor,
    masked_lm_positions: Tensor,
  ) -> dict[str, Tensor]:
    values = (input_ids, input_mask, segment_ids)
    inputs = dict(zip(saved_models.ID_NAMES, values))
    return _outputs(model, inputs, masked_lm_positions)

  def predict_all_positions(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    positions = tf.range(tf.shape(inputs["input_ids"])[1])
    positions = tf.zeros_like(inputs["input_ids"]) + positions[None, :]
    return _outputs(model, inputs, positions)

  all_positions = saved_models.ids_function(predict_all_positions)
  functions = saved_models.name_functions(ids) | {ALL_POSITIONS: all_positions}
  if tokenizer is None:
    return functions
  if tokenization.MASK not in tokenizer.vocab:
    raise ValueError(
      f"The vocabulary of {len(tokenizer.vocab)} tokens has no "
      f"{tokenization.MASK} to predict words for; add it."
    )
  tokens = tf.constant(list(tokenizer.vocab), tf.string)
  num_best = min(top_k, len(tokenizer.vocab))

  @saved_models.function(saved_models.texts_spec("text"))
  def text(text: Tensor) -> dict[str, Tensor]:
    is_mask, probabilities = _mask_probabilities(
      model, tokenizer, text, max_seq_length
    )
    best, best_ids = tf.math.top_k(probabilities, num_best)  # [B, M, top_k]
    return {
      "tokens": tf.where(is_mask, tf.gather(tokens, best_ids), ""),
      "probabilities": tf.where(is_mask, best, 0.0),
    }

  return functions | saved_models.name_functions(ids, text)


def _outputs(
  model: saved_models.NamedModel, inputs: dict[str, Tensor], positions: Tensor
) -> dict[str, Tensor]:
  output = model({**inputs, "masked_lm_positions": positions})
  return {
    "masked_lm_logits": output.masked_lm_logits,
    "masked_lm_probabilities": tf.nn.softmax(output.masked_lm_logits),
    "next_sentence_logits": output.next_sentence_logits,
    "next_sentence_probabilities": tf.nn.softmax(output.next_sentence_logits),
  }


def _mask_probabilities(
  model: saved_models.NamedModel,
  tokenizer: bert_tokenizer.BertTokenizer,
  texts: Tensor,
  max_seq_length: int,
) -> tuple[Tensor, Tensor]:
  """Returns whether a mask exists, bool [B, M, 1], and probabilities [B, M, V].

  V is the size of the vocabulary. Surplus rows of the embedding table and blank
  lines of the vocabulary are never predicted.
  """
  mask_id = tokenizer.vocab[tokenization.MASK]
  segments = marked_pieces(tokenizer, mask_id, texts)
  longest = tf.cast(tf.reduce_max(segments.row_lengths()), tf.int32) + 2
  check = tf.debugging.assert_less_equal(
    longest,
    max_seq_length,
    f"a text has more than {max_seq_length} word pieces, the maximum",
  )
  with tf.control_dependencies([check]):
    segments = tf.identity(segments)
  packed = tokenizer.pack([segments], max_seq_length, pad_to_max=False)
  ids = packed["input_ids"]
  places = tf.cast(tf.where(tf.equal(ids, mask_id)), tf.int32)  # [masks, 2]
  positions = tf.RaggedTensor.from_value_rowids(
    places[:, 1], places[:, 0], tf.shape(ids)[0]
  )
  output = model({**packed, "masked_lm_positions": positions.to_tensor()})
  is_mask = tf.sequence_mask(positions.row_lengths())[..., None]
  logits = output.masked_lm_logits
  if logits.shape[-1] != len(tokenizer.vocab):
    logits = logits[..., : len(tokenizer.vocab)]
  blank = tokenizer.vocab.get("")
  if blank is not None:
    is_blank = tf.range(len(tokenizer.vocab)) == blank
    logits = tf.where(is_blank, logits.dtype.min, logits)
  return is_mask, tf.nn.softmax(logits)


def marked_pieces(
  tokenizer: bert_tokenizer.BertTokenizer, mask_id: int, texts: Tensor
) -> tf.RaggedTensor:
  """Returns word pieces, int32 [B, (pieces)]; "[MASK]" is a single piece."""
  parts = tf.strings.split(texts, tokenization.MASK)  # [B, (parts)]
  pieces = tokenizer.tokenize(parts.values)
  masks = tf.fill([tf.shape(parts.values)[0], 1], mask_id)
  # Adds a mask after each part and drops the last mask.
  marked = parts.with_values(tf.concat([pieces, masks], axis=1))
  return marked.merge_dims(1, 2)[:, :-1]
