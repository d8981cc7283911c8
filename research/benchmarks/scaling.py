"""The cost and gain of splitting a batch, mixed precision and checkpointing.

Each setting takes the same steps on the same made-up records in a process of
its own, so that its peak memory is its own.
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
from bert_tf.pipeline import plan
from bert_tf.tasks import pretraining
from bert_tf.training import config as training_config
from bert_tf.training import restore
from research.benchmarks import steps
from research.benchmarks.config import BenchmarkConfig

# The first one is what the others are compared with.
SETTINGS: dict[str, dict[str, Any]] = {
  "1 device": {},
  "2 logical devices": {"num_devices": 2},
  "2 micro-batches": {"gradient_accumulation_steps": 2},
  "4 micro-batches": {"gradient_accumulation_steps": 4},
  "recompute": {"recompute": True},
  "bfloat16": {"precision": "bfloat16"},
  "float16": {"precision": "float16"},
}

# One in this many word pieces is predicted.
_LENGTH_A_PREDICTION = 6


def measure(config: BenchmarkConfig) -> None:
  """Prints a table of SETTINGS; the model's dropout is left out.

  The first step compiles and is not timed.
  """
  num_steps, batch_size = config.num_steps, config.batch_size
  length = config.max_seq_length
  title = f"{num_steps} x {batch_size} x {length}"
  print(
    f"{title:20}{'examples/s':>11}{'x':>6}{'peak MB':>9}{'x':>6}  "
    "largest difference of a weight, its mean"
  )
  first: dict[str, Any] = {}
  for name, settings in SETTINGS.items():
    found = _in_a_process(
      {
        "config": config.bert_config().to_dict(),
        "batch_size": batch_size,
        "length": length,
        "num_steps": num_steps,
        **settings,
      }
    )
    first = first or found
    differences = [
      np.abs(found["weights"][n] - w) for n, w in first["weights"].items()
    ]
    largest = max(d.max() for d in differences)
    mean = sum(d.sum() for d in differences) / sum(d.size for d in differences)
    print(
      f"{name:20}{found['speed']:11.1f}{found['speed'] / first['speed']:6.2f}"
      f"{found['peak']:9.0f}{found['peak'] / first['peak']:6.2f}  "
      f"{largest:.1e}, {mean:.1e}",
      flush=True,
    )


def _in_a_process(settings: Mapping[str, Any]) -> dict[str, Any]:
  """Returns speed, peak memory and weights of one setting."""
  with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run(
      [sys.executable, "-m", __name__, folder, json.dumps(settings)],
      env=steps.environment(is_ours=True),
      capture_output=True,
      text=True,
    )
    if done.returncode:
      raise ValueError(f"{dict(settings)} failed: {done.stderr[-1000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    reader = checkpoints.CheckpointReader(checkpoints.listed(folder)[0])
    weights = {
      name: reader.get(name) for name in reader.shapes if "adam" not in name
    }
  return {**found, "weights": weights}


def _run(
  folder: str,
  config: dict[str, Any],
  batch_size: int,
  length: int,
  num_steps: int,
  num_devices: int = 1,
  **settings: Any,
) -> None:
  """Takes the steps of one setting and prints what they took, as JSON."""
  no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
  bert_config = modeling.BertConfig.from_dict({**config, **no_dropout})
  tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * num_devices,
  )
  kind = "mirrored" if num_devices > 1 else "one"
  train_config = training_config.TrainConfig(
    output_dir=folder,
    train_batch_size=batch_size,
    learning_rate=1e-4,
    num_train_steps=num_steps,
    num_warmup_steps=num_steps // 10,
    **settings,
  )
  num_predictions = length // _LENGTH_A_PREDICTION
  batches = [
    synthetic.pretraining_batch(
      bert_config.vocab_size, batch_size, length, num_predictions, seed
    )
    for seed in range(num_steps)
  ]
  with distribution.create_strategy(kind).scope():
    runner = pretraining.build_estimator(bert_config, train_config)
    seconds = plan.step_seconds(runner, batches)
    variables = restore.training_variables(runner.model, runner.optimizer)
    checkpoints.save(folder, {n: v.value for n, v in variables.items()}, 1)
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
  # The median: other work on the machine slows some of them.
  speed = batch_size / statistics.median(seconds[1:])
  print(json.dumps({"speed": speed, "peak": peak}))


if __name__ == "__main__":
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  _run(sys.argv[1], **json.loads(sys.argv[2]))
