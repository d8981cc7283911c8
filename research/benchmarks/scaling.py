"""Cost and gain of micro-batches, mixed precision and checkpointing.

Each setting trains on the same random batches in its own process, so that the
peak memory is that of the setting.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, distribution, modeling
from bert_tf.data import synthetic
from bert_tf.pipeline import stages
from bert_tf.tasks import pretraining
from bert_tf.training import config as training_config
from bert_tf.training import restore
from research.benchmarks import steps
from research.benchmarks.config import BenchmarkConfig
from research.benchmarks.peers import step_timing

# The first setting is the baseline.
SETTINGS: dict[str, dict[str, Any]] = {
  "1 device": {},
  "2 logical devices": {"num_devices": 2},
  "2 micro-batches": {"gradient_accumulation_steps": 2},
  "4 micro-batches": {"gradient_accumulation_steps": 4},
  "recompute": {"recompute": True},
  "bfloat16": {"precision": "bfloat16"},
  "float16": {"precision": "float16"},
}

# Word pieces per masked position.
_PIECES_PER_PREDICTION = 6


def measure(config: BenchmarkConfig) -> None:
  """Prints speed, peak memory and weight differences of each of SETTINGS.

  The model has no dropout. The first step compiles and is not timed.
  """
  shared = {
    "config": config.bert_config().to_dict(),
    "batch_size": config.batch_size,
    "length": config.max_seq_length,
    "num_steps": config.num_steps,
  }
  title = f"{config.num_steps} x {config.batch_size} x {config.max_seq_length}"
  print(
    f"{title:20}{'examples/s':>11}{'x':>6}{'peak MB':>9}{'x':>6}  "
    "largest difference of a weight, its mean"
  )
  baseline: dict[str, Any] = {}
  for name, settings in SETTINGS.items():
    result = _run_process({**shared, **settings})
    baseline = baseline or result
    differences = [
      np.abs(result["weights"][n] - w) for n, w in baseline["weights"].items()
    ]
    largest = max(d.max() for d in differences)
    mean = sum(d.sum() for d in differences) / sum(d.size for d in differences)
    speed, peak = result["speed"], result["peak"]
    print(
      f"{name:20}{speed:11.1f}{speed / baseline['speed']:6.2f}"
      f"{peak:9.0f}{peak / baseline['peak']:6.2f}  "
      f"{largest:.1e}, {mean:.1e}",
      flush=True,
    )


def _run_process(settings: Mapping[str, Any]) -> dict[str, Any]:
  """Trains in a new process; returns speed, peak memory and weights."""
  with tempfile.TemporaryDirectory() as folder:
    process = subprocess.run(
      [sys.executable, "-m", __name__, folder, json.dumps(settings)],
      env=steps.environment(is_ours=True),
      capture_output=True,
      text=True,
    )
    if process.returncode:
      raise ValueError(f"{dict(settings)} failed: {process.stderr[-1000:]}")
    result = json.loads(process.stdout.splitlines()[-1])
    reader = checkpoints.CheckpointReader(
      checkpoints.list_checkpoints(folder)[0]
    )
    weights = {
      name: reader.get(name) for name in reader.shapes if "adam" not in name
    }
  return {**result, "weights": weights}


def _train(
  folder: str,
  config: dict[str, Any],
  batch_size: int,
  length: int,
  num_steps: int,
  num_devices: int = 1,
  **settings: Any,
) -> None:
  """Trains with one setting; prints speed and peak memory as JSON."""
  no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
  bert_config = modeling.BertConfig.from_dict({**config, **no_dropout})
  tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * num_devices,
  )
  train_config = training_config.TrainConfig(
    output_dir=folder,
    train_batch_size=batch_size,
    learning_rate=1e-4,
    num_train_steps=num_steps,
    num_warmup_steps=num_steps // 10,
    **settings,
  )
  num_predictions = length // _PIECES_PER_PREDICTION
  batches = [
    synthetic.pretraining_batch(
      bert_config.vocab_size, batch_size, length, num_predictions, seed
    )
    for seed in range(num_steps)
  ]
  strategy = "mirrored" if num_devices > 1 else "one"
  with distribution.create_strategy(strategy).scope():
    runner = pretraining.build_estimator(bert_config, train_config)
    seconds = stages.time_steps(runner, batches)
    variables = restore.training_variables(runner.model, runner.update)
    checkpoints.save(folder, {n: v.value for n, v in variables.items()}, 1)
  peak = step_timing.peak_bytes(resource.getrusage(resource.RUSAGE_SELF)) / 1e6
  # The median, since other work on the machine slows some steps.
  speed = batch_size / statistics.median(seconds[1:])
  print(json.dumps({"speed": speed, "peak": peak}))


if __name__ == "__main__":
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  _train(sys.argv[1], **json.loads(sys.argv[2]))
