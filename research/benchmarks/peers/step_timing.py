"""Settings, timing and report of the processes that compute steps.

Imports neither TensorFlow nor bert_tf, since the peers' interpreters import
this module.
"""

import dataclasses
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

# These steps compile and warm up allocators and thread pools. Not timed.
_NUM_WARM_STEPS = 2

# Steps that are profiled after the timed ones, if STEP_PROFILE names a folder.
NUM_PROFILED_STEPS = 3

# Rows and columns of the matrices whose product is timed.
PRODUCT_SIZES = {"cpu": 2048, "gpu": 8192}
_NUM_PRODUCTS = 5

# Model sizes with the names in bert_config.json.
SIZES = (
  *("vocab_size", "hidden_size", "num_hidden_layers"),
  *("num_attention_heads", "intermediate_size"),
)

Batch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """A model, its batch and the number of steps."""

  task: str  # "train", "forward", or "start" for one training step.
  compiled: bool | str  # XLA or torch.compile; "clustered": only clusters.
  precision: str  # "float32" or "bfloat16".
  device: str  # "cpu" or "gpu".
  batch_size: int
  length: int  # Word pieces per example.
  num_predictions: int  # Masked positions per example.
  num_steps: int
  vocab_size: int
  hidden_size: int
  num_hidden_layers: int
  num_attention_heads: int
  intermediate_size: int
  original_dir: str = ""  # The checkout of google-research/bert.

  @property
  def product_size(self) -> int:
    """Rows and columns of the matrices whose product is timed."""
    return PRODUCT_SIZES[self.device]

  @property
  def sizes(self) -> dict[str, Any]:
    """The sizes of the model, by the names of bert_config.json."""
    return {name: getattr(self, name) for name in SIZES}

  def batch(self) -> Batch:
    """Returns a pre-training batch without padding.

    15% of the word pieces of each example are predicted, at most
    `num_predictions`, as in records of full-length text.
    """
    rng = np.random.default_rng(0)

    def draw_ints(end: int, *shape: int) -> np.ndarray:
      return rng.integers(end, size=shape, dtype=np.int32)

    size, length, count = self.batch_size, self.length, self.num_predictions
    positions = rng.permuted(np.tile(np.arange(length), (size, 1)), axis=1)
    is_masked = np.arange(count) < round(0.15 * length)
    return {
      "input_ids": draw_ints(self.vocab_size, size, length),
      "input_mask": np.ones((size, length), np.int32),
      "segment_ids": draw_ints(2, size, length),
      "masked_lm_positions": positions[:, :count].astype(np.int32),
      "masked_lm_ids": draw_ints(self.vocab_size, size, count),
      "masked_lm_weights": np.tile(is_masked, (size, 1)).astype(np.float32),
      "next_sentence_labels": draw_ints(2, size, 1),
    }


# Computes one step or product, and waits for its end.
Step = Callable[[], object]


def run(
  version: str,
  training_step: Callable[[Settings], Step],
  forward_step: Callable[[Settings], Step],
  product: Callable[[Settings], Step],
  gpu_peak: Callable[[], int] | None = None,
  profile: Callable[[str, Step], None] | None = None,
) -> None:
  """Times the steps of `settings.task` and prints a line of JSON.

  The first command-line argument holds the settings as JSON. The task "start"
  computes one step and prints nothing.

  Args:
    version: the measured libraries, with their versions.
    training_step: returns a function that computes one training step and waits
      for its end.
    forward_step: the same for the encoder's forward pass.
    product: returns a function that multiplies two square matrices with
      `settings.product_size` rows.
    gpu_peak: returns the peak GPU memory in bytes.
    profile: writes a profile of a function to a folder; see
      research.kernels.kernel_times.
  """
  settings = Settings(**json.loads(sys.argv[1]))
  make = forward_step if settings.task == "forward" else training_step
  step = make(settings)
  if settings.task == "start":  # The caller times the whole process.
    step()
    return
  for _ in range(_NUM_WARM_STEPS):
    step()
  times = [_milliseconds(step) for _ in range(settings.num_steps)]
  if gpu_peak and settings.device == "gpu":
    peak = gpu_peak()
  else:
    peak = peak_bytes(resource.getrusage(resource.RUSAGE_SELF))
  if profile and (folder := os.environ.get("STEP_PROFILE")):
    profile(folder, lambda: [step() for _ in range(NUM_PROFILED_STEPS)])
  multiply = product(settings)
  product_ms = min(_milliseconds(multiply)[0] for _ in range(_NUM_PRODUCTS))
  report = {
    "version": version,
    "ms": [wall for wall, _ in times],
    "cpu_ms": statistics.median(cpu for _, cpu in times),
    "peak_mb": peak / 1e6,
    "product_gflops": 2 * settings.product_size**3 / product_ms / 1e6,
  }
  print(json.dumps(report), flush=True)


def multiply_in_tensorflow(settings: Settings) -> Step:
  """Returns a function that multiplies two matrices in TensorFlow 2."""
  import tensorflow as tf

  size = settings.product_size
  matrix = tf.cast(tf.random.normal([size, size]), settings.precision)
  return lambda: tf.matmul(matrix, matrix)[0, 0].numpy()


def peak_bytes(usage: resource.struct_rusage) -> int:
  """Returns the peak memory of a process in bytes."""
  # ru_maxrss is in kilobytes on Linux and in bytes on macOS.
  return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1 << 10)


def _milliseconds(run: Callable[[], object]) -> tuple[float, float]:
  """Returns wall time and CPU time of a call, in milliseconds."""
  wall, cpu = time.perf_counter(), time.process_time()
  run()
  return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)
