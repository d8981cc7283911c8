"""Size, padding and training speed of each form of pre-training records."""

import dataclasses
import os
import statistics
import tempfile
import time

import numpy as np
import tensorflow as tf

from bert_tf import modeling, tokenization
from bert_tf.corpora import sources
from bert_tf.data import config as data_config
from bert_tf.data import (
  dynamic_masking,
  input_pipeline,
  masking,
  pretraining_records,
  pretraining_shards,
)
from bert_tf.tasks import pretraining
from bert_tf.training import config as training_config
from bert_tf.training import estimator
from research.benchmarks.config import BenchmarkConfig

STATIC, DYNAMIC, PACKED = "static", "dynamic", "packed"

_STATIC_PASSES = 10  # The default of google-research/bert.


@dataclasses.dataclass(frozen=True)
class _DataSet:
  """Records, the cost of making them, and the training on them."""

  megabytes: float
  padding: float  # Share of padding in rows of max_seq_length positions.
  make_seconds: float  # CPU time of making the records.
  runner: estimator.Estimator
  batches: tf.data.Dataset


def measure(config: BenchmarkConfig) -> None:
  """Prints size, padding and instances/s of each form of records.

  The forms take turns, so that other work on the machine slows all of them.
  Times are CPU times of this process, with the input pipeline.
  """
  bert_config = config.bert_config()
  with tempfile.TemporaryDirectory() as folder:
    data_sets = {
      name: _make_data_set(name, config, bert_config, folder)
      for name in (STATIC, DYNAMIC, PACKED)
    }
    speeds = _measure_speeds(data_sets, config)
  length, size = config.max_seq_length, config.batch_size
  print(f"{config.input_file}, {size} x {length}, CPU time")
  print(
    f"{'':10}{'MB':>9}{'padding':>9}{'made in s':>11}{'instances/s':>13}"
    f"{'x static':>10}"
  )
  for name, data in data_sets.items():
    print(
      f"{name:10}{data.megabytes:9.1f}{data.padding:9.1%}"
      f"{data.make_seconds:11.1f}{speeds[name]:13.1f}"
      f"{speeds[name] / speeds[STATIC]:10.2f}"
    )


def _make_data_set(
  name: str,
  config: BenchmarkConfig,
  bert_config: modeling.BertConfig,
  folder: str,
) -> _DataSet:
  """Makes the records of a form, and the estimator that trains on them."""
  settings = data_config.PretrainingDataConfig(
    vocab_file=config.needed("vocab_file"),
    do_lower_case=config.do_lower_case,
    max_seq_length=config.max_seq_length,
    masking_config=masking.MaskingConfig(
      max_predictions_per_seq=config.max_predictions_per_seq
    ),
    mask=name == STATIC,
    dupe_factor=_STATIC_PASSES if name == STATIC else 1,
    pack_sequences=name == PACKED,
  )
  path = os.path.join(folder, f"{name}.tfrecord")
  start = time.process_time()
  counts = pretraining_shards.create(
    settings,
    [file.path for file in sources.find_files(config.input_file)],
    path,
  ).counts
  seconds = time.process_time() - start
  mask = None
  if name != STATIC:
    vocab = tokenization.load_vocab(settings.vocab_file)
    masker = dynamic_masking.DynamicMasker(settings.masking_config, vocab, 0)
    mask = masker.mask
  records = pretraining_records.PretrainingRecords(
    input_pipeline.open_records(path),
    pretraining_records.RecordFormat.read(path),
    mask,
  )
  return _DataSet(
    os.path.getsize(path) / 1e6,
    1 - counts.num_tokens / (counts.num_records * config.max_seq_length),
    seconds,
    pretraining.build_estimator(
      bert_config,
      training_config.TrainConfig(
        output_dir=folder,
        train_batch_size=config.batch_size,
        learning_rate=1e-4,
        use_xla=False,
      ),
    ),
    records.training_dataset(
      config.batch_size,
      0,
      0,
      bert_config.vocab_size,
      bert_config.type_vocab_size,
    ),
  )


def _measure_speeds(
  data_sets: dict[str, _DataSet], config: BenchmarkConfig
) -> dict[str, float]:
  """Returns the instances per second of each form, medians of the rounds."""
  speeds: dict[str, list[float]] = {name: [] for name in data_sets}
  batches = {name: iter(data.batches) for name, data in data_sets.items()}
  steps = {
    name: data.runner.train_step.build(data.batches.element_spec)
    for name, data in data_sets.items()
  }
  for number in range(config.num_rounds + 1):
    for name, step in steps.items():
      num_instances, start = 0.0, time.process_time()
      for _ in range(config.num_steps):
        sums = step(next(batches[name]))
        if "instances_per_row" in sums:
          num_instances += np.array(sums["instances_per_row"][0]).item()
        else:
          num_instances += config.batch_size
        np.array(sums["loss"][0])  # Waits for the step.
      if number:  # The first round compiles and fills buffers.
        speeds[name].append(num_instances / (time.process_time() - start))
  return {name: statistics.median(rounds) for name, rounds in speeds.items()}
