"""Dynamic masking: its statistics and its reproducibility.

The draws are the same in every run, so no test fails by chance.
"""

import itertools
import random

import numpy as np
import pytest
import tensorflow as tf

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


def dynamic(rows, seed=1, epoch=0, cls_positions=None, **settings):
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
  masked = tf.function(masker.mask)(features, epochs, places)
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


def deviations(hits, other_hits, count):
  """Returns the difference of two numbers of hits in standard deviations."""
  share = (hits + other_hits) / (2 * count)
  variance = 2 * count * share * (1 - share)
  return (hits - other_hits) / np.sqrt(variance + 1e-9)


@pytest.mark.parametrize("do_whole_word_mask", [False, True])
def test_over_a_million_words_dynamic_and_static_masks_have_equal_statistics(
  do_whole_word_mask,
):
  rows = np.repeat([example(60, seed=5)], 20_000, axis=0)
  settings = {"do_whole_word_mask": do_whole_word_mask, "masked_lm_prob": 0.2}
  features = dynamic(rows, **settings)
  ids, is_chosen = features["input_ids"], chosen_pieces(features)
  static_ids, was_chosen = static(rows, **settings)
  masks = [(ids, is_chosen), (static_ids, was_chosen)]
  # By position.
  apart = deviations(is_chosen.sum(0), was_chosen.sum(0), len(rows))
  assert np.abs(apart).max() < LIMIT
  # By the number of masked pieces per record.
  numbers = [
    np.bincount(chosen.sum(1), minlength=LENGTH)
    for chosen in (is_chosen, was_chosen)
  ]
  assert np.abs(deviations(*numbers, len(rows))).max() < LIMIT
  # By the new piece: [MASK], the same piece, another piece.
  assert (ids == rows)[~is_chosen].all()
  total = is_chosen.sum()
  for piece in range(len(VOCAB)):
    hits = [
      ((new == piece) & (rows != piece) & chosen).sum() for new, chosen in masks
    ]
    assert abs(deviations(*hits, total)) < LIMIT
  unchanged = [((new == rows) & chosen).sum() for new, chosen in masks]
  assert abs(deviations(*unchanged, total)) < LIMIT
  # By pairs of positions, which distinguishes random words from random runs.
  pairs = [
    (c[:, 1:40].T.astype(float) @ c[:, 1:40]) for c in (is_chosen, was_chosen)
  ]
  assert np.abs(deviations(*pairs, len(rows))).max() < LIMIT


@pytest.mark.parametrize("do_whole_word_mask", [False, True])
@pytest.mark.parametrize(("prob", "most"), [(0.15, 20), (0.5, 9)])
def test_the_number_and_places_of_labels_follow_the_static_rules(
  do_whole_word_mask, prob, most
):
  rows = [example(n, seed=n) for n in range(5, LENGTH + 1)]
  settings = {
    "masked_lm_prob": prob,
    "max_predictions_per_seq": most,
    "do_whole_word_mask": do_whole_word_mask,
  }
  features = dynamic(rows, **settings)
  for i, original in enumerate(rows):
    num_tokens = (original > 0).sum()
    count = min(most, max(1, round(num_tokens * prob)))
    weights = features["masked_lm_weights"][i]
    num_chosen = int(weights.sum())
    assert weights[:num_chosen].all() and not weights[num_chosen:].any()
    positions = features["masked_lm_positions"][i][:num_chosen]
    can_be_masked = ~np.isin(original, (0, CLS, SEP))
    assert (np.diff(positions) > 0).all() and can_be_masked[positions].all()
    labels = features["masked_lm_ids"][i]
    assert (labels[:num_chosen] == original[positions]).all()
    assert not labels[num_chosen:].any()
    assert not features["masked_lm_positions"][i][num_chosen:].any()
    if do_whole_word_mask:
      assert num_chosen <= count
    else:
      assert num_chosen == min(count, can_be_masked.sum())
    others = np.setdiff1d(np.arange(LENGTH), positions)
    assert (features["input_ids"][i][others] == original[others]).all()


def test_whole_words_are_masked_together_or_not_at_all():
  head, tail = VOCAB["t0"], VOCAB["##t2"]
  # The piece after [CLS] begins a word. The piece after [SEP] may continue one.
  row = [CLS, tail, head, tail, tail, head, SEP, tail, head, tail, head, SEP]
  rows = np.repeat([np.pad(row, (0, 52)).astype(np.int32)], 500, axis=0)
  settings = {"do_whole_word_mask": True, "masked_lm_prob": 0.3}
  chosen = chosen_pieces(dynamic(rows, **settings))
  _, expected = static(rows, **settings)
  words = [[1], [2, 3, 4], [5, 7], [8, 9], [10]]
  for is_chosen in (chosen, expected):
    for word in words:
      assert (is_chosen[:, word].all(1) == is_chosen[:, word].any(1)).all()
  # The same sets of round(12 * 0.3) pieces occur as in static masking.
  assert {tuple(row) for row in chosen} == {tuple(row) for row in expected}


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
    own = is_chosen[:, start:end]
    expected = was_chosen[:, : len(text)]
    assert own.sum(1).max() == expected.sum(1).max()
    numbers = [np.bincount(c.sum(1), minlength=8) for c in (own, expected)]
    assert np.abs(deviations(*numbers, len(rows))).max() < LIMIT
    hits = own.sum(0), expected.sum(0)
    assert np.abs(deviations(*hits, len(rows))).max() < LIMIT
  assert not is_chosen[:, 61:].any()
  assert (features["masked_lm_weights"].sum(1) == is_chosen.sum(1)).all()
  # The masks of different instances are uncorrelated.
  columns = [is_chosen[:, 1], is_chosen[:, 31], is_chosen[:, 42]]
  for column, other in itertools.combinations(columns, 2):
    assert abs(np.corrcoef(column, other)[0, 1]) * np.sqrt(5000) < LIMIT
