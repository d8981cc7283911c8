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
from bert_tf.data.pretraining import masking
from bert_tf.inference import ids_functions
from bert_tf.inference.config import ScoringConfig
from bert_tf.inference.rows import answer_rows, map_rows, texts_by_name, to_rows
from bert_tf.model import heads
from bert_tf.modeling import Tensor
from bert_tf.tasks import base
from bert_tf.text.unknown_pieces import PieceCounts


@dataclasses.dataclass(frozen=True)
class SentenceScore:
  """The log probabilities of a text's word pieces."""

  tokens: tuple[str, ...]  # F word pieces, without [CLS] and [SEP].
  log_probs: np.ndarray  # float32 [F]. Natural logarithms.

  @property
  def score(self) -> float:
    """The pseudo-log-likelihood: the sum of the log probabilities."""
    return float(self.log_probs.sum(dtype=np.float64))


class SentenceScorer:
  """Scores sentences with a masked language model, which it loads once.

  Attributes:
    max_tokens: maximum word pieces of a text, without [CLS] and [SEP].

  Args:
    config: the model, as `--model` names it, or a ScoringConfig.
    **settings: of ScoringConfig by name, such as batch_tokens.

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

  def __init__(self, config: ScoringConfig | str, **settings: Any) -> None:
    if isinstance(config, str | os.PathLike):
      config = ScoringConfig(init_checkpoint=os.fspath(config))
    self.config = config = dataclasses.replace(config, **settings)
    files = config.open(do_lower_case=config.do_lower_case)
    bert_config = files.config
    bert_config.check_bidirectional(files.config_file)
    masking.check_special_tokens(files.vocab, files.needed_vocab())
    self._tokenizer = files.make_tokenizer(files.case)
    mask_id = self._tokenizer.vocab[tokenization.MASK]
    self._counts = PieceCounts(self._tokenizer, "the texts")
    # [CLS] and [SEP] take two positions.
    self.max_tokens = bert_config.max_position_embeddings - 2
    model = files.load_model(heads.PretrainingModel, "cls/predictions")

    def compute(features: dict[str, Tensor]) -> dict[str, Tensor]:
      # The word pieces at the positions are hidden, and their log probabilities
      # returned.
      ids, positions = features["input_ids"], features["masked_lm_positions"]
      rows = tf.range(tf.shape(ids)[0])[:, None]
      indices = tf.stack([rows, positions], axis=-1)  # [B, 1, 2]
      masks = tf.fill(tf.shape(positions), mask_id)
      hidden = tf.tensor_scatter_nd_update(ids, indices, masks)
      logits, _ = model({**features, "input_ids": hidden})
      log_probs = tf.nn.log_softmax(logits[:, 0])  # [B, vocab_size]
      targets = tf.gather_nd(ids, indices)  # [B, 1]
      return {"log_probs": tf.gather(log_probs, targets[:, 0], batch_dims=1)}

    names = (*ids_functions.ID_NAMES, "masked_lm_positions")
    self._function = ids_functions.KerasFunction(compute, bert_config, names)

  def predict(self, inputs: Any) -> Any:
    """Returns the SentenceScore of a text, or a list of them for several texts.

    Raises:
      ValueError: if a row is not a text, is blank or has more than `max_tokens`
        word pieces.
    """
    rows, is_single = to_rows(inputs)

    def read(row: Any) -> list[str]:
      text = texts_by_name(row, ("text",))["text"]
      tokens = self.tokenize(text)
      if not self.fits(tokens):
        raise ValueError(
          f"it has {len(tokens)} word pieces, but the model scores texts of 1 "
          f"to {self.max_tokens}: {text[:40]!r}."
        )
      return tokens

    scores = list(self.score([*map_rows(read, rows)]))
    return scores[0] if is_single else scores

  def tokenize(self, text: str) -> list[str]:
    """The word pieces of a text, without [CLS] and [SEP]."""
    return self._tokenizer.tokenize(text)

  def fits(self, tokens: Sequence[str]) -> bool:
    """Whether a text has 1 to `max_tokens` word pieces."""
    return 0 < len(tokens) <= self.max_tokens

  def score(self, texts: Sequence[Sequence[str]]) -> Iterator[SentenceScore]:
    """Yields the scores of texts, each given as word pieces that fit."""

    def mask_each_piece(tokens: Sequence[str]) -> base.Inputs:
      ids = self._tokenizer.convert_tokens_to_ids(
        [tokenization.CLS, *tokens, tokenization.SEP]
      )
      self._counts.add_ids(ids)
      copies = [
        base.model_input(ids, len(ids), [position])
        for position in range(1, len(ids) - 1)
      ]
      return base.Inputs(copies, state=tuple(tokens))

    return answer_rows(
      map(mask_each_piece, texts),
      lambda sequences: self._function(base.batch(sequences))["log_probs"],
      lambda inputs, outputs: SentenceScore(inputs.state, np.array(outputs)),
      lambda length: max(1, self.config.batch_tokens // length),
      label="scoring",
    )


def pseudo_perplexity(scores: Iterable[SentenceScore]) -> float:
  """Returns exp of the mean negative log probability of all word pieces.

  Returns NaN if there are no scores.
  """
  sums = np.zeros(2)
  for score in scores:
    sums += score.score, len(score.tokens)
  return math.exp(-sums[0] / sums[1]) if sums[1] else math.nan
