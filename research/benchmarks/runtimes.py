"""A SavedModel compared with its ONNX and LiteRT conversions."""

import functools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping

import tensorflow as tf

from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import runtimes
from bert_tf.inference import ids_functions
from research.benchmarks.config import BenchmarkConfig

_BATCH_SIZES = (1, 8)
_NUM_ROUNDS = 20


def measure(config: BenchmarkConfig) -> None:
  """Prints size, difference and latency of each model, on one CPU thread."""
  saved_model, length = config.needed("saved_model"), config.max_seq_length
  tf.config.threading.set_intra_op_parallelism_threads(1)
  tf.config.threading.set_inter_op_parallelism_threads(1)
  source = ModelFolder.open(saved_model)
  bert_config = source.config
  model = ids_functions.open_functions(source)[ids_functions.IDS]
  files = [os.path.join(saved_model, "saved_model.pb")]
  files += tf.io.gfile.glob(
    os.path.join(saved_model, "variables", "variables.*")
  )
  sizes = {"SavedModel": sum(tf.io.gfile.stat(f).length for f in files)}
  differences = {"SavedModel": 0.0}
  calls: dict[str, ids_functions.IdsFunction] = {"SavedModel": model}
  with tempfile.TemporaryDirectory() as folder:
    for runtime, file in runtimes.FILES.items():
      for is_int8 in (False, True):
        name = f"{runtime} {'int8' if is_int8 else 'float32'}"
        differences_by_output = runtimes.convert(
          saved_model, folder, bert_config, runtime, is_int8
        )
        path = os.path.join(folder, file)
        sizes[name] = os.path.getsize(path)
        differences[name] = max(differences_by_output.values())
        calls[name] = ids_functions.load_runtime_file(path, bert_config, 1)
    columns = []
    for size in _BATCH_SIZES:
      inputs = runtimes.sample(model, bert_config, size, length)
      columns.append(
        _measure_in_turn(
          {name: functools.partial(f, inputs) for name, f in calls.items()}
        )
      )
  titles = "".join(f"{f'batch {size}, ms':>14}" for size in _BATCH_SIZES)
  print(f"{f'length {length}':18}{'MB':>8}{'difference':>12}{titles}")
  for name in calls:
    medians = [1e3 * statistics.median(column[name]) for column in columns]
    cells = "".join(f"{median:14.1f}" for median in medians)
    print(f"{name:18}{sizes[name] / 1e6:8.1f}{differences[name]:12.1e}{cells}")


def _measure_in_turn(
  calls: Mapping[str, Callable[[], object]],
) -> dict[str, list[float]]:
  """Returns the seconds of each call; other work slows all of them alike."""
  seconds: dict[str, list[float]] = {name: [] for name in calls}
  for number in range(_NUM_ROUNDS + 1):
    for name, call in calls.items():
      start = time.perf_counter()
      call()
      if number:  # The first call may compile.
        seconds[name].append(time.perf_counter() - start)
  return seconds
