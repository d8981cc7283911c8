"""Trains small models in a process of its own, which sets up its devices.

python -m tests.support.scale_run KIND NUM_CPUS RUNS: the kind of distribution,
the number of logical CPUs, and a JSON object with the settings of each run, by
output_dir. The runs are trained in order.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from bert_tf import distribution, modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.tasks.pretraining import pretraining
from bert_tf.training import compilation, estimator
from bert_tf.training import config as training_config
from tests.support import checkout

BATCH_SIZE = 8
LENGTH = 16
NUM_PREDICTIONS = 4
CONFIG = {
  "vocab_size": 60,
  "hidden_size": 16,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 32,
  "max_position_embeddings": LENGTH,
  "initializer_range": 0.1,
}
DROPOUT = {"dropout": 0.1, "gradient_accumulation_steps": 2}


def batches(steps_done, pause=0.0):
  """Yields random batches, whose rows differ in length and masked positions.

  Waits `pause` seconds before the sixth batch and each later one.
  """
  step = steps_done
  while True:
    time.sleep(pause if step >= 5 else 0.0)
    rng = np.random.default_rng(step)
    shape = (BATCH_SIZE, LENGTH)
    lengths = rng.integers(6, LENGTH + 1, (BATCH_SIZE, 1))
    num_masked = rng.integers(0, NUM_PREDICTIONS + 1, (BATCH_SIZE, 1))
    masked = (BATCH_SIZE, NUM_PREDICTIONS)
    is_masked = np.arange(NUM_PREDICTIONS) < num_masked
    yield {
      "input_ids": rng.integers(5, 60, shape, np.int32),
      "input_mask": (np.arange(LENGTH) < lengths).astype(np.int32),
      "segment_ids": rng.integers(0, 2, shape, np.int32),
      "masked_lm_positions": rng.integers(0, 6, masked, np.int32),
      "masked_lm_ids": rng.integers(5, 60, masked, np.int32),
      "masked_lm_weights": is_masked.astype(np.float32),
      "next_sentence_labels": rng.integers(0, 2, (BATCH_SIZE, 1), np.int32),
    }
    step += 1


def input_fn(steps_done, pause=0.0):
  spec = {
    name: tf.TensorSpec(value.shape, value.dtype)
    for name, value in next(batches(0)).items()
  }
  return tf.data.Dataset.from_generator(
    lambda: batches(steps_done, pause), output_signature=spec
  )


def train(
  output_dir,
  dropout=0.0,
  pause=0.0,
  late=0.0,
  mode=None,
  num_hidden_layers=CONFIG["num_hidden_layers"],
  evaluates=True,
  **settings,
):
  sizes = {**CONFIG, "num_hidden_layers": num_hidden_layers}
  for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
    sizes[name] = dropout
  config = modeling.BertConfig.from_dict(sizes)
  train_config = training_config.TrainConfig(
    output_dir=output_dir,
    train_batch_size=BATCH_SIZE,
    learning_rate=1e-3,
    num_warmup_steps=2,
    **{"num_train_steps": 20, "use_xla": False, **settings},
  )
  objective = pretraining.PretrainingObjective()
  runner = estimator.Estimator(objective, config, train_config)
  describe_devices = distribution.describe_devices

  def describe_devices_late():
    # Called between loading and the first save.
    time.sleep(0.0 if distribution.is_chief() else late)
    return describe_devices()

  with pytest.MonkeyPatch.context() as patched:
    if mode:
      chosen = compilation.Mode(mode)
      patched.setattr(compilation, "choose_mode", lambda *_: chosen)
    patched.setattr(distribution, "describe_devices", describe_devices_late)
    runner.train(lambda steps_done: input_fn(steps_done, pause))
  if runner.was_interrupted or not evaluates:
    return
  runner.load_for_inference()
  results_by_name = runner.evaluate(input_fn(1000).take(3))
  outputs = next(runner.predict(input_fn(2000).take(1)))
  results_by_name["logits"] = outputs.next_sentence_logits.tolist()
  path = pathlib.Path(output_dir, "results.json")
  path.write_text(json.dumps(results_by_name))


def main(kind, num_cpus, runs):
  cpu = tf.config.list_physical_devices("CPU")[0]
  tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * int(num_cpus)
  )
  strategy = distribution.create_strategy(kind)
  try:
    with strategy.scope(), distribution.translate_worker_loss():
      for output_dir, settings in json.loads(runs).items():
        train(output_dir, **settings)
  except distribution.WorkerLostError as error:
    print(error, file=sys.stderr, flush=True)
    os._exit(1)  # As the scripts do.


def environment():
  """Returns the environment of a child whose log has no TensorFlow notes."""
  return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


def start(start_python, folder, kind, num_cpus, runs, **options):
  """Starts and returns a process that trains `runs`, settings by name."""
  settings = {str(folder / name): value for name, value in runs.items()}
  return start_python(
    *("-m", "tests.support.scale_run", kind, num_cpus, json.dumps(settings)),
    cwd=checkout.ROOT,
    env={**environment(), **options},
    stderr=subprocess.PIPE,
    text=True,
  )


def finish(process):
  """Waits for a process, asserts that it succeeded, and returns its log."""
  log = process.communicate(timeout=600)[1]
  assert process.returncode == 0, log
  return log


def tensors(output_dir):
  """Returns all tensors in the newest checkpoint of a run, by name."""
  reader = checkpoints.CheckpointReader(
    checkpoints.find_latest(str(output_dir))
  )
  return {name: reader.get(name) for name in reader.shapes}


def results(output_dir):
  return json.loads((output_dir / "results.json").read_text())


def assert_same_run(output_dir, expected_dir):
  """Asserts that checkpoints, results and predictions agree to 1e-5."""
  actual, expected = tensors(output_dir), tensors(expected_dir)
  assert actual.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_allclose(actual[name], value, rtol=0, atol=1e-5)
  actual, expected = results(output_dir), results(expected_dir)
  for name, value in expected.items():
    np.testing.assert_allclose(actual[name], value, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
  logging.set_verbosity(logging.INFO)
  main(*sys.argv[1:])
