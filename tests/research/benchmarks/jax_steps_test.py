"""The JAX training step of the benchmark trains as in TensorFlow."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.data import synthetic
from bert_tf.tasks import pretraining
from bert_tf.training import config as training_config
from tests.research.benchmarks import jax_run
from tests.support import checkout

# Dropout draws the same bits in both. The batch has more masked tokens than a
# block of the fused loss.
CONFIG = modeling.BertConfig(
  vocab_size=100,
  hidden_size=16,
  num_hidden_layers=2,
  num_attention_heads=2,
  intermediate_size=32,
  max_position_embeddings=32,
  type_vocab_size=2,
  initializer_range=0.2,
)
BATCH = synthetic.pretraining_batch(CONFIG.vocab_size, 24, 24, 10, seed=3)


def train_in_tensorflow(folder):
  """Writes the initial values, trains, and returns losses and values."""
  runner = pretraining.build_estimator(
    CONFIG,
    training_config.TrainConfig(
      output_dir=str(folder),
      train_batch_size=24,
      learning_rate=jax_run.LEARNING_RATE,
      num_train_steps=jax_run.NUM_STEPS,
      num_warmup_steps=2,
      seed=jax_run.SEED,
      use_xla=False,
    ),
  )
  variables = runner.model.trainable_variables
  start = {variable.path: variable.numpy() for variable in variables}
  features = {name: tf.constant(value) for name, value in BATCH.items()}
  step = runner.train_step.build(
    {name: tf.TensorSpec(t.shape, t.dtype) for name, t in features.items()}
  )
  losses = [step(features)["loss"][0].numpy() for _ in range(jax_run.NUM_STEPS)]
  batch = {f"batch/{name}": value for name, value in BATCH.items()}
  np.savez(folder / "start.npz", **start, **batch)
  return losses, {variable.path: variable.numpy() for variable in variables}


def test_steps_match_those_of_tensorflow(tmp_path):
  if importlib.util.find_spec("jax") is None:
    pytest.skip("jax is not installed: pip install jax")
  losses, values = train_in_tensorflow(tmp_path)
  (tmp_path / "bert_config.json").write_text(CONFIG.to_json_string())
  files = [tmp_path / n for n in ("bert_config.json", "start.npz", "end.npz")]
  subprocess.run(
    [
      sys.executable,
      "-m",
      "tests.research.benchmarks.jax_run",
      *map(str, files),
    ],
    env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
    cwd=checkout.ROOT,
    check=True,
  )
  results = dict(np.load(tmp_path / "end.npz"))
  np.testing.assert_allclose(results.pop("losses"), losses, atol=1e-5)
  assert losses[-1] < losses[0] - 0.1
  assert results.keys() == values.keys()
  for name, value in values.items():
    np.testing.assert_allclose(results[name], value, atol=1e-5, err_msg=name)
