"""Predicts the words behind [MASK] with a pre-trained checkpoint."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, heads, modeling, tokenization
from bert_tf.data import packing

_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True)
class Prediction:
  """One word piece that may stand behind a mask.

  Attributes:
    token: the word piece.
    probability: in [0, 1], over the whole vocabulary.
  """

  token: str
  probability: float


class MaskFiller:
  """A pre-trained model, loaded once, that fills masks.

  Args:
    bert_config_file: the model's sizes.
    vocab_file: the model's vocabulary.
    init_checkpoint: prefix of a checkpoint with the masked-LM head.
    do_lower_case: whether the vocabulary is of lower-cased text.

  Raises:
    ValueError: if the vocabulary or the checkpoint does not fit the config.
  """

  def __init__(
    self,
    bert_config_file: str,
    vocab_file: str,
    init_checkpoint: str,
    do_lower_case: bool = True,
  ) -> None:
    config = modeling.BertConfig.from_json_file(bert_config_file)
    self._tokenizer = tokenization.FullTokenizer(vocab_file, do_lower_case)
    self._vocab = list(self._tokenizer.vocab)
    config.check_vocab(len(self._vocab), vocab_file, bert_config_file)
    self._max_length = config.max_position_embeddings
    model = heads.PretrainingModel(config)
    reader = checkpoints.CheckpointReader(init_checkpoint)
    checkpoints.load_variables(reader, model, required="")
    self._probabilities = tf.function(
      lambda features: tf.nn.softmax(model(features).masked_lm_logits),
      reduce_retracing=True,
    )

  def fill(
    self, texts: Sequence[str], top_k: int = 5
  ) -> list[list[list[Prediction]]]:
    """Returns, for each text and each of its masks, the best predictions.

    Args:
      texts: each with at least one "[MASK]".
      top_k: predictions a mask, most probable first.

    Raises:
      ValueError: if a text has no mask or is longer than the model's input.
    """
    encoded = [self._encode(text) for text in texts]
    results = []
    for start in range(0, len(encoded), _BATCH_SIZE):
      results += self._fill_batch(encoded[start : start + _BATCH_SIZE], top_k)
    return results

  def _encode(self, text: str) -> list[int]:
    """Returns the ids of [CLS] text [SEP], its masks kept whole."""
    parts = text.split(tokenization.MASK)
    if len(parts) == 1:
      raise ValueError(
        f"no {tokenization.MASK} in {text!r}; write it where a word is asked."
      )
    vocab = self._tokenizer.vocab
    ids = [vocab["[CLS]"]]
    for i, part in enumerate(parts):
      if i:
        ids.append(vocab[tokenization.MASK])
      ids += self._tokenizer.tokenize_to_ids(part)
    ids.append(vocab["[SEP]"])
    if len(ids) > self._max_length:
      raise ValueError(
        f"{len(ids)} word pieces in {text[:40]!r}... exceed the model's "
        f"max_position_embeddings {self._max_length}; shorten the text."
      )
    return ids

  def _fill_batch(
    self, encoded: Sequence[Sequence[int]], top_k: int
  ) -> list[list[list[Prediction]]]:
    mask_id = self._tokenizer.vocab[tokenization.MASK]
    positions = [
      [i for i, token_id in enumerate(ids) if token_id == mask_id]
      for ids in encoded
    ]
    features = {
      **packing.pad_batch([(ids, len(ids)) for ids in encoded]),
      "masked_lm_positions": _padded(positions),
    }
    probabilities = self._probabilities(features).numpy()  # [B, P, V]
    return [
      [self._best(row, top_k) for row in rows[: len(masks)]]
      for rows, masks in zip(probabilities, positions)
    ]

  def _best(self, row: np.ndarray, top_k: int) -> list[Prediction]:
    order = np.argsort(-row, kind="stable")[:top_k]
    return [Prediction(self._vocab[i], float(row[i])) for i in order]


def _padded(rows: Sequence[Sequence[int]]) -> tf.Tensor:
  """Returns int32 [rows, longest], padded with 0."""
  return tf.ragged.constant(rows, dtype=tf.int32).to_tensor()
