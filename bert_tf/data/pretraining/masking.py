"""Masked language modelling: chooses word pieces to predict and hides them.

See Devlin et al. 2019, section 3.1. The calls on `random.Random` come in the
order of the 2018 release, so a seed gives the release's masks.
"""

import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Any

from bert_tf import settings, tokenization


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig:
  """Settings of masking; raises ValueError for values out of range."""

  # About masked_lm_prob * max_seq_length, as the 2018 release recommends.
  max_predictions_per_seq: int = settings.masking(
    20,
    "The maximum number of masked word pieces in an instance.",
    minimum=1,
    original=True,
    main=True,
  )
  masked_lm_prob: float = settings.masking(
    0.15, "The fraction of word pieces to mask.", original=True
  )
  do_whole_word_mask: bool = settings.masking(
    False, "Whether words are masked as a whole.", original=True, main=True
  )
  # 80/10/10, Devlin et al. 2019, sections 3.1 and A.1. Fine-tuning inputs have
  # no [MASK], so some chosen pieces must look ordinary.
  mask_prob: float = settings.masking(
    0.8,
    "The fraction of masked word pieces that become [MASK]. It must sum to 1 "
    "with keep_prob and random_prob.",
  )
  keep_prob: float = settings.masking(
    0.1, "The fraction of masked word pieces that stay."
  )
  random_prob: float = settings.masking(
    0.1, "The fraction of masked word pieces that become random ones."
  )

  def __post_init__(self) -> None:
    settings.check(self)
    if not 0 < self.masked_lm_prob <= 1:
      raise ValueError(
        f"masked_lm_prob {self.masked_lm_prob} is outside (0, 1]."
      )
    split = (self.mask_prob, self.keep_prob, self.random_prob)
    if min(split) < 0 or abs(sum(split) - 1) > 1e-6:
      raise ValueError(
        "mask_prob, keep_prob and random_prob must be fractions that sum to 1, "
        f"not {' + '.join(map(str, split))}."
      )

  def num_to_predict(self, num_tokens: int) -> int:
    """Returns the number of pieces to mask in an input of `num_tokens`.

    Special tokens count, as in 2018. Whole-word masking may mask fewer.
    """
    most = max(1, round(num_tokens * self.masked_lm_prob))
    return min(self.max_predictions_per_seq, most)

  def num_to_predict_in_row(self, num_tokens: int, max_instances: int) -> int:
    """Returns the largest number of masked pieces in a packed row."""
    if max_instances < 2:
      return self.num_to_predict(num_tokens)
    # Rounding adds less than one piece per instance.
    most = int(num_tokens * self.masked_lm_prob) + max_instances
    return min(num_tokens, most, self.max_predictions_per_seq * max_instances)


def check_special_tokens(vocab: Mapping[str, int], vocab_file: str) -> None:
  """Raises ValueError if a vocabulary lacks [CLS], [SEP] or [MASK]."""
  needed = (tokenization.CLS, tokenization.SEP, tokenization.MASK)
  missing = [token for token in needed if token not in vocab]
  if missing:
    raise ValueError(
      f"{vocab_file} has {len(vocab)} tokens, but lacks {', '.join(missing)}."
    )


def shuffle(items: list[Any], getrandbits: Callable[[int], int]) -> None:
  """Shuffles as `random.Random.shuffle` does, in half the time."""
  last = len(items) - 1
  while last > 0:
    # All indices down to the next power of two need the same number of bits.
    bits = (last + 1).bit_length()
    next_last = (1 << (bits - 1)) - 2
    for i in range(last, next_last, -1):
      j = getrandbits(bits)
      while j > i:
        j = getrandbits(bits)
      items[i], items[j] = items[j], items[i]
    last = next_last


class Masker:
  """Masks instances. The vocabulary's ids are 0 to V - 1 in order."""

  def __init__(self, config: MaskingConfig, vocab: Mapping[str, int]) -> None:
    self._config = config
    self._mask_id = vocab[tokenization.MASK]
    self._vocab_size = len(vocab)
    self._continues_word = bytes(token.startswith("##") for token in vocab)
    changed = config.keep_prob + config.random_prob
    # Of the chosen pieces that do not become [MASK], the fraction that stays.
    self._kept_fraction = config.keep_prob / changed if changed else 0.0

  def mask(
    self, input_ids: list[int], candidates: list[int], rng: random.Random
  ) -> tuple[list[int], list[int]]:
    """Masks the word pieces of an instance, given without padding, in place.

    Changes `candidates`, the ascending positions that may be masked, as well.
    Returns the chosen positions, ascending, and the ids there before masking.
    Both are empty if whole-word masking finds no word that is short enough.
    """
    config = self._config
    num_to_predict = config.num_to_predict(len(input_ids))
    if config.do_whole_word_mask:
      # If truncation cut a word, the segment begins with a ## piece. It then
      # belongs to the word before it, even across a [SEP], as in 2018.
      words: list[list[int]] = []
      for position in candidates:
        if words and self._continues_word[input_ids[position]]:
          words[-1].append(position)
        else:
          words.append([position])
      shuffle(words, rng.getrandbits)
      chosen: list[int] = []
      for word in words:
        if len(chosen) + len(word) <= num_to_predict:
          chosen.extend(word)
    else:
      shuffle(candidates, rng.getrandbits)
      chosen = candidates[:num_to_predict]
    positions = sorted(chosen)
    labels = [input_ids[position] for position in positions]
    for position in chosen:
      if rng.random() < config.mask_prob:
        input_ids[position] = self._mask_id
      elif rng.random() >= self._kept_fraction:
        input_ids[position] = rng.randrange(self._vocab_size)
    return positions, labels
