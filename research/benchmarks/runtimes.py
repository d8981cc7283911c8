"""A SavedModel compared with its conversions to ONNX and LiteRT."""

import os
import statistics
import tempfile
import time
from collections.abc import Mapping

import tensorflow as tf

from bert_tf.export.runtimes import config as runtime_config
from bert_tf.export.runtimes import conversion, ids_models
from bert_tf.export.runtimes.ids_models import Run
from research.benchmarks.config import BenchmarkConfig

_BATCH_SIZES = (1, 8)
_NUM_ROUNDS = 20


def measure(config: BenchmarkConfig) -> None:
  """Prints size, difference and milliseconds, on one CPU thread each.

  The runtimes take turns, so that other work of the machine slows all.
  """
  saved_model, length = config.needed("saved_model"), config.max_seq_length
  tf.config.threading.set_intra_op_parallelism_threads(1)
  tf.config.threading.set_inter_op_parallelism_threads(1)
  model = ids_models.IdsModel(saved_model)
  sizes = {"SavedModel": _size(saved_model)}
  differences = {"SavedModel": 0.0}
  runs = {"SavedModel": model.run}
  with tempfile.TemporaryDirectory() as folder:
    for ending, runtime in conversion.FORMATS.items():
      for is_int8 in (False, True):
        name = f"{ending} {'int8' if is_int8 else 'float32'}"
        path = os.path.join(folder, f"{int(is_int8)}{ending}")
        found = conversion.convert(
          runtime_config.ConversionConfig(
            saved_model=saved_model,
            output_file=path,
            quantize="int8" if is_int8 else "none",
          )
        )
        sizes[name] = os.path.getsize(path)
        differences[name] = max(found.values())
        runs[name] = runtime.load(path, num_threads=1)
    samples = [model.sample(size, length) for size in _BATCH_SIZES]
    times = [_milliseconds(runs, inputs) for inputs in samples]
  heads = "".join(f"{f'batch {size}, ms':>14}" for size in _BATCH_SIZES)
  print(f"{f'length {length}':18}{'MB':>8}{'difference':>12}{heads}")
  for name in runs:
    columns = "".join(f"{column[name]:14.1f}" for column in times)
    print(
      f"{name:18}{sizes[name] / 1e6:8.1f}{differences[name]:12.1e}{columns}"
    )


def _size(saved_model: str) -> int:
  """Returns the bytes of the graph and the variables."""
  variables = os.path.join(saved_model, "variables", "variables.*")
  paths = [os.path.join(saved_model, "saved_model.pb")]
  paths += tf.io.gfile.glob(variables)
  return sum(tf.io.gfile.stat(path).length for path in paths)


def _milliseconds(
  runs: Mapping[str, Run], inputs: ids_models.Inputs
) -> dict[str, float]:
  """Returns the median time of each runtime."""
  seconds: dict[str, list[float]] = {name: [] for name in runs}
  for number in range(_NUM_ROUNDS + 1):
    for name, run in runs.items():
      start = time.perf_counter()
      run(inputs)
      if number:  # The first call of a size prepares.
        seconds[name].append(time.perf_counter() - start)
  return {name: 1e3 * statistics.median(s) for name, s in seconds.items()}
