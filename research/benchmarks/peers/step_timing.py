"""What the processes of `benchmark.py train` and `forward` share.

Without TensorFlow and bert_tf: the peers' processes import this too.
"""

import dataclasses
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

# Compile, and let allocators and thread pools settle; not timed.
_NUM_WARM_STEPS = 2

# Rows and columns of the matrices whose product is timed, by device.
PRODUCT_SIZES = {"cpu": 2048, "gpu": 8192}
_NUM_PRODUCTS = 5

Batch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """A model, its batches, and how often to compute them."""

  task: str  # "train" or "forward", or "start": one step of training.
  compiled: bool | str  # By XLA or by torch.compile; pieces of it, by name.
  precision: str  # "float32" or "bfloat16".
  device: str  # "cpu" or "gpu".
  batch_size: int
  length: int  # Word pieces an example.
  num_predictions: int  # Masked positions an example.
  num_steps: int
  vocab_size: int
  hidden_size: int
  num_hidden_layers: int
  num_attention_heads: int
  intermediate_size: int
  original_dir: str = ""  # The original's files, for the process that runs it.

  @property
  def sizes(self) -> dict[str, Any]:
    """The sizes of the model, by the names of bert_config.json."""
    return {
      "vocab_size": self.vocab_size,
      "hidden_size": self.hidden_size,
      "num_hidden_layers": self.num_hidden_layers,
      "num_attention_heads": self.num_attention_heads,
      "intermediate_size": self.intermediate_size,
    }


def read_settings() -> Settings:
  """Returns the settings, JSON in the first argument of the process."""
  return Settings(**json.loads(sys.argv[1]))


def synthetic_batch(
  vocab_size: int, batch_size: int, length: int, num_predictions: int, seed: int
) -> Batch:
  """Returns a pre-training batch without padding.

  Of each example 15% of the word pieces are predicted, at most num_predictions,
  as in records of texts that fill them.
  """
  rng = np.random.default_rng(seed)

  def ints(end: int, *shape: int) -> np.ndarray:
    return rng.integers(end, size=shape, dtype=np.int32)

  positions = rng.permuted(np.tile(np.arange(length), (batch_size, 1)), axis=1)
  is_masked = np.arange(num_predictions) < round(0.15 * length)
  return {
    "input_ids": ints(vocab_size, batch_size, length),
    "input_mask": np.ones((batch_size, length), np.int32),
    "segment_ids": ints(2, batch_size, length),
    "masked_lm_positions": positions[:, :num_predictions].astype(np.int32),
    "masked_lm_ids": ints(vocab_size, batch_size, num_predictions),
    "masked_lm_weights": np.tile(is_masked, (batch_size, 1)).astype(np.float32),
    "next_sentence_labels": ints(2, batch_size, 1),
  }


def batch_of(settings: Settings) -> Batch:
  """Returns the batch that each step takes."""
  return synthetic_batch(
    settings.vocab_size,
    settings.batch_size,
    settings.length,
    settings.num_predictions,
    seed=0,
  )


def report(
  settings: Settings,
  version: str,
  step: Callable[[], object],
  product: Callable[[], object],
  peak_of_gpu: Callable[[], int] | None = None,
) -> None:
  """Times steps and prints what they took, as a line of JSON.

  Args:
    settings: how many steps.
    version: the libraries that are measured, with their versions.
    step: computes one step to its end.
    product: computes one product of two matrices of PRODUCT_SIZES.
    peak_of_gpu: returns the most bytes of a GPU that were in use; None for
      those of the process.
  """
  if settings.task == "start":  # The whole process is timed.
    step()
    return
  for _ in range(_NUM_WARM_STEPS):
    step()
  times = [_milliseconds(step) for _ in range(settings.num_steps)]
  if peak_of_gpu:
    peak = peak_of_gpu()
  else:
    peak = peak_bytes(resource.getrusage(resource.RUSAGE_SELF))
  product_ms = min(_milliseconds(product)[0] for _ in range(_NUM_PRODUCTS))
  size = PRODUCT_SIZES[settings.device]
  found = {
    "version": version,
    "ms": [wall for wall, _ in times],
    "cpu_ms": statistics.median(cpu for _, cpu in times),
    "peak_mb": peak / 1e6,
    "product_gflops": 2 * size**3 / product_ms / 1e6,
  }
  print(json.dumps(found), flush=True)


def peak_bytes(usage: resource.struct_rusage) -> int:
  """Returns the most memory that a process held."""
  # Kilobytes on Linux, bytes on macOS.
  return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1 << 10)


def _milliseconds(run: Callable[[], object]) -> tuple[float, float]:
  """Returns the time on the clock and that of all cores."""
  wall, cpu = time.perf_counter(), time.process_time()
  run()
  return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)
