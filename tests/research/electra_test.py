"""ELECTRA's replaced-token detection, a model and objective of one file."""

import json

import numpy as np
import tensorflow as tf

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.data import records
from bert_tf.tasks.pretraining import pretraining
from research import electra
from tests.support import pretrainings, runs

CONFIG = {
  **runs.CONFIG,
  "vocab_size": 12,  # So that some guesses are right.
  "hidden_size": 32,
  "num_attention_heads": 4,
}
LENGTH = 8


def make_row(rng):
  ids = rng.integers(5, 12, LENGTH)
  return {
    "input_ids": ids,
    "input_mask": np.ones(LENGTH, int),
    "segment_ids": np.zeros(LENGTH, int),
    "masked_lm_positions": np.array([2, 5, 0]),
    "masked_lm_ids": np.array([ids[2], ids[5], 0]),
    "masked_lm_weights": np.array([1.0, 1.0, 0.0], np.float32),
    "next_sentence_labels": np.array([0]),
  }


def test_only_masked_pieces_are_replaced_and_told_apart():
  rng = np.random.default_rng(0)
  rows = [make_row(rng) for _ in range(20)]
  features = {
    name: tf.constant(
      np.stack([row[name] for row in rows]),
      tf.float32 if name == "masked_lm_weights" else tf.int32,
    )
    for name in rows[0]
  }
  real = features["input_ids"].numpy()
  features["input_ids"] = tf.tensor_scatter_nd_update(
    features["input_ids"],
    [[row, position] for row in range(20) for position in (2, 5)],
    [4] * 40,
  )
  model = electra.ElectraModel(modeling.BertConfig.from_dict(CONFIG))
  _, text, is_replaced = model.replace(features, training=False)
  np.testing.assert_array_equal(is_replaced, text.numpy() != real)
  others = [i for i in range(LENGTH) if i not in (2, 5)]
  np.testing.assert_array_equal(text.numpy()[:, others], real[:, others])
  assert 0 < is_replaced.numpy().sum() < 40


def test_a_resumed_run_ends_with_the_same_variables(tmp_path):
  rng = np.random.default_rng(0)
  (tmp_path / "config.json").write_text(json.dumps(CONFIG))
  with records.open_writer([str(tmp_path / "records")]) as writer:
    for _ in range(8):
      ints = make_row(rng)
      floats = {n: ints.pop(n) for n in ("masked_lm_weights",)}
      writer.write(records.encode_example(ints, floats))

  def train(name, **stop):
    plan = {"output_dir": str(tmp_path / name), "save_checkpoints_steps": 2}
    config = pretrainings.make(
      tmp_path,
      {**plan, **stop},
      max_seq_length=LENGTH,
      max_predictions_per_seq=3,
      do_eval=not stop,
    )
    pretraining.run(config, objective=electra.ElectraObjective())

  train("whole")
  train("parts", stop_at_step=2)
  train("parts")
  whole, parts = (
    checkpoints.CheckpointReader(str(tmp_path / name / "model.ckpt-4"))
    for name in ("whole", "parts")
  )
  assert whole.shapes == parts.shapes
  for name in whole.shapes:
    np.testing.assert_array_equal(whole.get_any(name), parts.get_any(name))
  results = runs.results(tmp_path / "whole")
  total = results["masked_lm_loss"] + 50 * results["replaced_loss"]
  np.testing.assert_allclose(results["loss"], total, rtol=1e-5)
