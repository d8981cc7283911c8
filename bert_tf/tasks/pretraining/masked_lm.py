"""Predicting masked words with a pre-trained model."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from absl import logging

from bert_tf import tokenization
from bert_tf.files import messages
from bert_tf.tasks import base
from bert_tf.tasks.config import MaskedLmSettings
from bert_tf.tasks.rows import Answer, Row

# A sequence has at most this number of masks, since the model returns the
# logits of the whole vocabulary for each.
_MAX_MASKS = 32


class MaskedLmTask(base.Task[MaskedLmSettings]):
  """Predicts the words of a text that "[MASK]" stands for.

  An answer has `masks`: for each one the `top_k` most probable word pieces as
  `token` and `probability`, the best first.
  """

  name = "pretraining"
  outputs = ("masked_lm_logits",)

  def __post_init__(self) -> None:
    if tokenization.MASK not in self.tokenizer.vocab:
      raise ValueError(f"the vocabulary lacks {tokenization.MASK}.")

  @property
  def _mask_id(self) -> int:
    return self.tokenizer.vocab[tokenization.MASK]

  def check(self, rows: Sequence[Row]) -> None:
    """Warns of texts without a mask; raises ValueError if all lack one."""
    mask = tokenization.MASK
    lacking = [str(i) for i, r in enumerate(rows) if mask not in r["text"]]
    if lacking:
      text = rows[int(lacking[0])]["text"]
      fault = (
        f"row {messages.join_names(lacking, 5)} has no {mask}: {text!r:.60}"
      )
      if len(lacking) == len(rows):
        raise ValueError(fault)
      logging.warning(fault)

  def tokenize(self, text: str) -> list[int]:
    """Returns the ids of the word pieces of a text, with those of masks."""
    ids, *others = map(super().tokenize, text.split(tokenization.MASK))
    for part in others:
      ids += [self._mask_id, *part]
    return ids

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields the sequences of a text, which differ in the masks they predict.

    Raises ValueError if a text is too long.
    """
    for row in rows:
      ids = self.tokenize(row["text"])
      if len(ids) > self.max_seq_length - 2:
        raise ValueError(
          f"a text has {len(ids) + 2} word pieces with [CLS] and [SEP], but "
          f"the maximum is {self.max_seq_length}."
        )
      packed = self.pack(ids)
      masks = [i for i, x in enumerate(packed.input_ids) if x == self._mask_id]
      yield base.Inputs(
        [
          packed._replace(masked_lm_positions=masks[first : first + _MAX_MASKS])
          for first in range(0, len(masks), _MAX_MASKS)
        ]
      )

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the most probable tokens of each mask."""
    masks = []
    vocab = self.tokenizer.vocab
    top_k = min(self.settings.top_k or 5, len(vocab))
    for sequence, output in zip(inputs.sequences, outputs):
      count = len(sequence.masked_lm_positions)
      # Surplus rows of the table and blank lines are never predicted.
      logits = output["masked_lm_logits"][:count, : len(vocab)]
      if "" in vocab:
        logits = logits.copy()
        logits[:, vocab[""]] = -np.inf
      rows = base.probabilities(logits)
      best = np.argsort(-rows, axis=1, kind="stable")[:, :top_k]
      for row, ids in zip(rows, best):
        tokens = self.tokenizer.convert_ids_to_tokens(ids.tolist())
        masks.append(
          [
            {"token": token, "probability": probability}
            for token, probability in zip(tokens, base.digits(row[ids]))
          ]
        )
    return {"masks": masks}
