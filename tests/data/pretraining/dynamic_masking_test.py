"""Dynamic masking: its statistics and its reproducibility.

The draws are the same in every run, so no test fails by chance.
"""

import itertools
import random

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from bert_tf.data.pretraining import dynamic_masking, masking

CLS, SEP, MASK = 2, 3, 4
# Every third piece continues a word.
VOCAB = {
  token: index
  for index, token in enumerate(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    + [f"{'##' if i % 3 == 2 else ''}t{i}" for i in range(95)]
  )
}
LENGTH = 64

# Standard deviations. Chance exceeds them once in 1.7 million times.
LIMIT = 5.0


def example(num_tokens, seed=0):
  """[CLS] a [SEP] b [SEP] of random pieces, padded with 0."""
  rng = np.random.default_rng(seed)
  ids = rng.integers(5, len(VOCAB), num_tokens)
  ids[0], ids[num_tokens // 3], ids[-1] = CLS, SEP, SEP
  return np.pad(ids, (0, LENGTH - num_tokens)).astype(np.int32)


CONTINUING = {index for token, index in VOCAB.items() if token[:2] == "##"}


def dynamic(
  rows, seed=1, epoch=0, cls_positions=None, compiled=True, **settings
):
  """Masks rows, [B, F], at the places 0, 1, ...; returns the features."""
  rows = np.array(rows)
  config = masking.MaskingConfig(**settings)
  features = {
    "input_ids": tf.constant(rows),
    "input_mask": tf.constant((rows > 0).astype(np.int32)),
  }
  if cls_positions:
    features["cls_positions"] = tf.constant(cls_positions)
  epochs = tf.fill([len(rows)], tf.constant(epoch, tf.int64))
  places = tf.range(len(rows), dtype=tf.int64)
  masker = dynamic_masking.DynamicMasker(config, VOCAB, seed)
  mask = tf.function(masker.mask) if compiled else masker.mask
  masked = mask(features, epochs, places)
  return {name: value.numpy() for name, value in masked.items()}


def static(rows, seed=1, **settings):
  """Masks rows with `masking`; returns ids and mask, bool [B, F]."""
  masker = masking.Masker(masking.MaskingConfig(**settings), VOCAB)
  rng = random.Random(seed)
  masked, chosen = np.array(rows), np.zeros(np.shape(rows), bool)
  for row, is_chosen in zip(masked, chosen):
    ids = row[row > 0].tolist()
    candidates = [i for i, piece in enumerate(ids) if piece not in (CLS, SEP)]
    positions, _ = masker.mask(ids, candidates, rng)
    row[: len(ids)] = ids
    is_chosen[positions] = True
  return masked, chosen


def chosen_pieces(features):
  """Returns the positions to predict, bool [B, F]."""
  chosen = np.zeros(features["input_ids"].shape, bool)
  for row, positions, weights in zip(
    chosen, features["masked_lm_positions"], features["masked_lm_weights"]
  ):
    row[positions[weights > 0]] = True
  return chosen


def assert_same_statistics(chosen, other):
  """Asserts that two sets of masks, bool [B, F], have one distribution.

  Compares, in standard deviations, how often a position is masked, how often a
  record has a number of masked pieces, and how often two positions are masked
  together, which distinguishes random words from random runs.
  """
  for statistic in (
    lambda c: c.sum(0),
    lambda c: np.bincount(c.sum(1), minlength=LENGTH),
    lambda c: c.T.astype(float) @ c,
  ):
    hits, other_hits = statistic(chosen), statistic(other)
    fraction = (hits + other_hits) / (2 * len(chosen))
    variance = 2 * len(chosen) * fraction * (1 - fraction)
    apart = (hits - other_hits) / np.sqrt(variance + 1e-9)
    assert np.abs(apart).max() < LIMIT


@pytest.mark.parametrize("do_whole_word_mask", [False, True])
def test_over_a_million_words_dynamic_and_static_masks_have_equal_statistics(
  do_whole_word_mask,
):
  rows = np.repeat([example(60, seed=5)], 20_000, axis=0)
  settings = {"do_whole_word_mask": do_whole_word_mask, "masked_lm_prob": 0.2}
  features = dynamic(rows, **settings)
  is_chosen = chosen_pieces(features)
  assert (features["input_ids"] == rows)[~is_chosen].all()
  _, was_chosen = static(rows, **settings)
  assert_same_statistics(is_chosen, was_chosen)


@pytest.mark.parametrize("split", [(0.0, 0.2, 0.8), (0.8, 0.0, 0.2)])
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_masked_pieces_are_split_as_configured(split, is_dynamic):
  settings = dict(zip(("mask_prob", "keep_prob", "random_prob"), split))
  row = np.array([CLS, *[50] * 40, SEP, *[0] * 22], np.int32)
  rows = np.repeat([row], 2500, axis=0)
  if is_dynamic:
    features = dynamic(rows, **settings)
    ids, is_chosen = features["input_ids"], chosen_pieces(features)
  else:
    ids, is_chosen = static(rows, **settings)
  # A random piece is [MASK] in 1 of 100 draws, and the same piece in 1 of 100.
  # Three standard deviations of 15,000 draws are at most 0.012.
  by_chance = split[2] / 100
  drawn = np.bincount(ids[is_chosen], minlength=100) / is_chosen.sum()
  assert drawn[MASK] == pytest.approx(split[0] + by_chance, abs=0.012)
  assert drawn[50] == pytest.approx(split[1] + by_chance, abs=0.012)
  assert drawn.min() > by_chance / 2  # Any piece may be drawn.


PIECES = strategies.lists(
  strategies.integers(5, len(VOCAB) - 1), min_size=1, max_size=30
)


@hypothesis.given(
  PIECES,
  PIECES,
  strategies.booleans(),
  strategies.floats(0.01, 1),
  strategies.integers(1, 30),
  strategies.integers(0, 9),
)
def test_masks_keep_to_the_budget_and_mask_words_as_a_whole(
  first, second, whole_words, prob, most, seed
):
  ids = [CLS, *first, SEP, *second, SEP]
  row = np.pad(ids, (0, LENGTH - len(ids))).astype(np.int32)
  settings = {
    "masked_lm_prob": prob,
    "max_predictions_per_seq": most,
    "do_whole_word_mask": whole_words,
  }
  room = min(most, max(1, round(len(ids) * prob)))
  candidates = np.flatnonzero(~np.isin(row, (0, CLS, SEP)))
  # A ## piece belongs to the word before it, even across [SEP], as in 2018.
  words = [[candidates[0]]]
  for position in candidates[1:]:
    if whole_words and row[position] in CONTINUING:
      words[-1].append(position)
    else:
      words.append([position])
  features = dynamic([row], seed, compiled=False, **settings)
  [static_ids], [was_chosen] = static([row], seed, **settings)
  [is_chosen] = chosen_pieces(features)
  for masked, chosen in (
    (features["input_ids"][0], is_chosen),
    (static_ids, was_chosen),
  ):
    left = room - chosen.sum()
    assert left >= 0 and set(np.flatnonzero(chosen)) <= set(candidates)
    assert (masked == row)[~chosen].all()
    for word in words:
      assert chosen[word].all() or not chosen[word].any()
      assert chosen[word[0]] or len(word) > left  # Else it would be masked.
  count = is_chosen.sum()
  weights, positions, labels = (
    features[f"masked_lm_{name}"][0] for name in ("weights", "positions", "ids")
  )
  assert weights[:count].all() and not weights[count:].any()
  assert (positions[:count] == np.flatnonzero(is_chosen)).all()
  assert (labels[:count] == row[positions[:count]]).all()
  assert not positions[count:].any() and not labels[count:].any()


def test_masks_depend_only_on_seed_epoch_and_place():
  rows = np.repeat([example(60)], 50, axis=0)
  first = dynamic(rows, seed=1, epoch=0)
  again = dynamic(rows, seed=1, epoch=0)
  for name, value in first.items():
    np.testing.assert_array_equal(value, again[name])
  masks = [
    chosen_pieces(dynamic(rows, seed=seed, epoch=epoch))
    for seed, epoch in ((1, 0), (1, 1), (1, 2), (2, 0), (0, 1))
  ]
  # 9 of 58 pieces are masked, and so are 9 of 58 of another mask's pieces.
  for mask, other_mask in itertools.combinations(masks, 2):
    share = (mask & other_mask).sum() / mask.sum()
    assert share == pytest.approx(9 / 58, abs=0.1)
  assert len({tuple(row) for row in masks[0]}) == 50


@pytest.mark.parametrize("do_whole_word_mask", [False, True])
def test_each_instance_of_a_packed_row_is_masked_independently(
  do_whole_word_mask,
):
  # A ## piece after [CLS] begins a word.
  texts = [example(n, seed=n)[:n] for n in (30, 5, 6, 20)]
  for text in texts:
    text[1] = VOCAB["##t2"]
  row = np.pad(np.concatenate(texts), (0, 3))
  rows = np.repeat([row], 5000, axis=0)
  starts = [0, 30, 35, 41, 0]
  settings = {
    "do_whole_word_mask": do_whole_word_mask,
    "masked_lm_prob": 0.3,
    "max_predictions_per_seq": 7,
  }
  features = dynamic(rows, cls_positions=[starts] * len(rows), **settings)
  is_chosen = chosen_pieces(features)
  for start, text in zip(starts, texts):
    end = start + len(text)
    single = np.pad(text, (0, LENGTH - len(text)))
    _, was_chosen = static(np.repeat([single], 5000, axis=0), **settings)
    of_instance = is_chosen[:, start:end]
    assert of_instance.sum(1).max() == was_chosen.sum(1).max()
    assert_same_statistics(of_instance, was_chosen[:, : len(text)])
  assert not is_chosen[:, 61:].any()
  assert (features["masked_lm_weights"].sum(1) == is_chosen.sum(1)).all()
  # The masks of different instances are uncorrelated.
  columns = [is_chosen[:, 1], is_chosen[:, 31], is_chosen[:, 42]]
  for column, other in itertools.combinations(columns, 2):
    assert abs(np.corrcoef(column, other)[0, 1]) * np.sqrt(5000) < LIMIT
