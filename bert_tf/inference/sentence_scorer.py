"""Scores sentences by their pseudo-log-likelihood.

The score is the sum, over the word pieces of a text, of the log probability
that the model gives the piece when only this piece is masked (Salazar et al.
2020, https://aclanthology.org/2020.acl-main.240).
"""

import dataclasses
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.data.pretraining import masking
from bert_tf.inference import ids_functions
from bert_tf.inference.rows import RowModel, open_model
from bert_tf.model import heads
from bert_tf.modeling import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.config import TaskSettings
from bert_tf.tasks.rows import Row


@dataclasses.dataclass(frozen=True)
class SentenceScore:
  """The log probabilities of a text's word pieces."""

  tokens: tuple[str, ...]  # F word pieces, without [CLS] and [SEP].
  log_probs: np.ndarray  # float32 [F]. Natural logarithms.

  @property
  def score(self) -> float:
    """The pseudo-log-likelihood: the sum of the log probabilities."""
    return float(self.log_probs.sum(dtype=np.float64))


class _ScoringTask(base.Task[TaskSettings]):
  """Answers a text with its SentenceScore."""

  name = "pretraining"
  outputs = ("log_probs",)

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields a copy of a text for each word piece, which is to be masked."""
    for row in rows:
      ids, room = self.tokenize(row["text"]), self.max_seq_length - 2
      if not 0 < len(ids) <= room:
        raise ValueError(
          f"it has {len(ids)} word pieces, but the model scores texts of 1 to "
          f"{room}: {row['text'][:40]!r}."
        )
      packed = self.pack(ids)
      positions = range(1, len(ids) + 1)
      yield base.Inputs(
        [packed._replace(masked_lm_positions=[i]) for i in positions], state=ids
      )

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Any:
    """Returns the SentenceScore of a text."""
    tokens = self.tokenizer.convert_ids_to_tokens(inputs.state)
    log_probs = np.array([output["log_probs"] for output in outputs])
    return SentenceScore(tuple(tokens), log_probs)


class SentenceScorer(RowModel):
  """Scores sentences with a masked language model, which it loads once.

  `predict` returns the SentenceScore of a text, and raises ValueError if it has
  no word piece or more than `max_tokens`.

  Attributes:
    max_tokens: maximum word pieces of a text, without [CLS] and [SEP].

  Args:
    model: the model, as `--model` names it, or an open ModelFolder.
    batch_tokens: maximum number of word pieces in a batch, where each piece of
      a text needs a copy of it.
    **settings: do_lower_case, strip_accents, vocab_file and bert_config_file;
      see `ModelFolder.open`.

  Raises:
    ValueError: if the model's files do not match, or if it is not a
      bidirectional masked language model.

  Examples:
    >>> scorer = bert_tf.SentenceScorer("quickstart")
    >>> score = scorer.predict("The hotel was built.")
    >>> score.tokens
    ('the', 'hotel', 'was', 'built', '.')
    >>> score.log_probs.shape, score.score
    ((5,), -...)
    >>> scores = scorer.predict(["The hotel was.", "The hotel were."])
    >>> best = max(scores, key=lambda score: score.score)
  """

  def __init__(
    self,
    model: str | os.PathLike[str] | ModelFolder,
    *,
    batch_tokens: int = 4096,
    **settings: Any,
  ) -> None:
    files = open_model(model, **settings)
    bert_config = files.config
    bert_config.check_bidirectional(files.config_file)
    if heads.MASKED_LM not in files.heads:
      raise ValueError(
        f"{files.weights} cannot predict masked words. Take a pre-trained "
        "model that can."
      )
    masking.check_special_tokens(files.vocab, files.needed_vocab())
    length = bert_config.max_position_embeddings
    task = _ScoringTask(
      tokenizer=files.tokenizer,
      settings=TaskSettings(max_seq_length=length),
    )
    self.max_tokens = length - 2  # Without [CLS] and [SEP].
    mask_id = task.tokenizer.vocab[tokenization.MASK]
    bert = files.load_model(heads.PretrainingModel, "cls/predictions")

    def compute(features: dict[str, Tensor]) -> dict[str, Tensor]:
      # The word pieces at the positions are hidden, and their log probabilities
      # returned.
      ids, positions = features["input_ids"], features["masked_lm_positions"]
      rows = tf.range(tf.shape(ids)[0])[:, None]
      indices = tf.stack([rows, positions], axis=-1)  # [B, 1, 2]
      masks = tf.fill(tf.shape(positions), mask_id)
      hidden = tf.tensor_scatter_nd_update(ids, indices, masks)
      logits, _ = bert({**features, "input_ids": hidden})
      log_probs = tf.nn.log_softmax(logits[:, 0])  # [B, vocab_size]
      targets = tf.gather_nd(ids, indices)  # [B, 1]
      return {"log_probs": tf.gather(log_probs, targets[:, 0], batch_dims=1)}

    names = (*ids_functions.ID_NAMES, "masked_lm_positions")
    function = ids_functions.KerasFunction(compute, bert_config, names)
    super().__init__({ids_functions.TEXT: task}, function, batch_tokens)

  def _batch_size(self, length: int) -> int:
    return max(1, self.max_batch_size // length)

  def fits(self, text: str) -> bool:
    """Whether a text has 1 to `max_tokens` word pieces."""
    return 0 < len(self.task().tokenize(text)) <= self.max_tokens


def pseudo_perplexity(scores: Iterable[SentenceScore]) -> float:
  """Returns exp of the mean negative log probability of all word pieces.

  Returns NaN if there are no scores.
  """
  sums = np.zeros(2)
  for score in scores:
    sums += score.score, len(score.tokens)
  return math.exp(-sums[0] / sums[1]) if sums[1] else math.nan
