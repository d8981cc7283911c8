"""Labels of left-to-right and right-to-left language models, by hand."""

import json

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import pretraining_shards
from bert_tf.tasks.pretraining import pretraining
from research.ablations import objectives
from tests.support import cycling_words, pretrainings, runs

CLS, SEP = 2, 3


def add_labels(rows, is_reversed, cls_positions=None):
  """Returns the label of each predicting position, for each row."""
  rows = tf.constant(rows, tf.int32)
  features = {"input_ids": rows, "input_mask": tf.cast(rows > 0, tf.int32)}
  if cls_positions:
    features["cls_positions"] = tf.constant(cls_positions, tf.int32)
  add = tf.function(objectives.add_labels)
  batch = {n: v.numpy() for n, v in add(features, is_reversed).items()}
  np.testing.assert_array_equal(batch["input_ids"], rows)
  is_label = batch["masked_lm_weights"] == 1
  for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
    assert not batch[name][~is_label].any()
  return [
    dict(zip(positions[has].tolist(), ids[has].tolist()))
    for positions, ids, has in zip(
      batch["masked_lm_positions"], batch["masked_lm_ids"], is_label
    )
  ]


PACKED = [CLS, 11, SEP, CLS, 12, SEP, CLS, SEP, 0, 0]
ROW = [CLS, 11, 12, SEP, 13, SEP, 0, 0]


@pytest.mark.parametrize(
  ("row", "starts", "is_reversed", "expected"),
  [
    (ROW, None, False, {0: 11, 1: 12, 2: SEP, 3: 13, 4: SEP}),
    (ROW, None, True, {5: 13, 4: SEP, 3: 12, 2: 11, 1: CLS}),
    # An instance does not predict its neighbour.
    (PACKED, [0, 3, 6, 0], False, {0: 11, 1: SEP, 3: 12, 4: SEP, 6: SEP}),
    (PACKED, [0, 3, 6, 0], True, {2: 11, 1: CLS, 5: 12, 4: CLS, 7: CLS}),
    ([CLS, 11, SEP], None, False, {0: 11, 1: SEP}),
  ],
)
def test_each_piece_is_predicted_at_the_position_read_before_it(
  row, starts, is_reversed, expected
):
  assert add_labels([row], is_reversed, starts and [starts]) == [expected]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
  """The config of a short run from left to right on packed records."""
  folder = tmp_path_factory.mktemp("data")
  (folder / "text").write_text(cycling_words.text())
  sizes = {
    **runs.CONFIG,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "attention_direction": "left_to_right",
  }
  (folder / "config.json").write_text(json.dumps(sizes))
  data = PretrainingDataConfig(
    vocab_file=cycling_words.VOCAB_FILE,
    max_seq_length=16,
    mask=False,
    no_nsp=True,
    pack_sequences=True,
  )
  records = str(folder / "records")
  pretraining_shards.create(data, [str(folder / "text")], records)
  return pretrainings.make(
    folder,
    {"train_batch_size": 16, "learning_rate": 5e-3, "num_train_steps": 120}
    | {"num_warmup_steps": 10},
    vocab_file=cycling_words.VOCAB_FILE,
    do_eval=True,
    max_eval_steps=100,
    no_nsp=True,
  )


def test_a_language_model_predicts_the_next_piece(config):
  with pytest.raises(ValueError, match="attention_direction=left_to_right"):
    pretraining.run(config)  # As a masked LM.
  results = pretraining.run(config, objectives.label)
  # Every piece except an instance's first, and its end, is predictable.
  assert results["masked_lm_accuracy"] > 0.6
  with pytest.raises(ValueError, match="attention_direction=left_to_right"):
    bert_tf.Predictor(config.train.output_dir)
