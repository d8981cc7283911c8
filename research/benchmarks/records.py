"""Disk, padding and speed of training by how pre-training records are made."""

import dataclasses
import os
import statistics
import tempfile
import time

import numpy as np
import tensorflow as tf

from bert_tf import modeling, tokenization
from bert_tf.corpora import corpus
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

STATIC, DYNAMIC, GROUPED, PACKED = "static", "dynamic", "grouped", "packed"
_FORMS = STATIC, DYNAMIC, GROUPED, PACKED

_STATIC_PASSES = 10  # The original's default.


@dataclasses.dataclass(frozen=True)
class _Measured:
  """A data set, what making it took, and how to train on it."""

  megabytes: float
  padding: float  # Share of all positions, where batches are not cut.
  make_seconds: float  # CPU time.
  runner: estimator.Estimator
  batches: tf.data.Dataset


def measure(config: BenchmarkConfig) -> None:
  """Prints disk, padding and instances/s of static, dynamic, packed records.

  The forms take turns, so that other work on the machine slows all of them.
  Times are CPU times of this process, its input pipeline included.

  Raises:
    ValueError: without a vocabulary, or if text, vocabulary and model do not
      fit.
  """
  bert_config = config.bert_config()
  vocab_file = config.needed("vocab_file")
  vocab = tokenization.load_vocab(vocab_file)
  bert_config.check_vocab(
    len(vocab), vocab_file, config.bert_config_file or "BERT-Tiny's"
  )
  bert_config.check_lengths(
    config.max_seq_length, config.bert_config_file or "BERT-Tiny's"
  )
  with tempfile.TemporaryDirectory() as folder:
    forms = {
      name: _measured(name, config, bert_config, folder) for name in _FORMS
    }
    speeds = _speeds(forms, config)
  length, size = config.max_seq_length, config.batch_size
  print(f"{config.input_file}, {size} x {length}, CPU time")
  print(
    f"{'':10}{'MB':>9}{'padding':>9}{'made in s':>11}{'instances/s':>13}"
    f"{'x static':>10}"
  )
  for name, found in forms.items():
    print(
      f"{name:10}{found.megabytes:9.1f}{found.padding:9.1%}"
      f"{found.make_seconds:11.1f}{speeds[name]:13.1f}"
      f"{speeds[name] / speeds['static']:10.2f}"
    )


def _measured(
  name: str,
  config: BenchmarkConfig,
  bert_config: modeling.BertConfig,
  folder: str,
) -> _Measured:
  """Makes the records of a form and what trains on them."""
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
    settings, corpus.input_files(config.input_file), path
  ).counts
  seconds = time.process_time() - start
  runner = pretraining.build_estimator(
    bert_config,
    training_config.TrainConfig(
      output_dir=folder,
      train_batch_size=config.batch_size,
      learning_rate=1e-4,
      use_xla=False,
    ),
  )
  positions = counts.num_records * config.max_seq_length
  return _Measured(
    os.path.getsize(path) / 1e6,
    1 - counts.num_tokens / positions,
    seconds,
    runner,
    _batches(path, settings, config.batch_size, bert_config, name == GROUPED),
  )


def _batches(
  path: str,
  settings: data_config.PretrainingDataConfig,
  batch_size: int,
  bert_config: modeling.BertConfig,
  group_by_length: bool,
) -> tf.data.Dataset:
  """Returns training batches without end."""
  records = pretraining_records.PretrainingRecords(
    input_pipeline.open_records(path),
    pretraining_records.Form.of(path),
    None
    if settings.mask
    else dynamic_masking.DynamicMasker(
      settings.masking_config, tokenization.load_vocab(settings.vocab_file), 0
    ),
    group_by_length=group_by_length,
  )
  return records.training_dataset(
    batch_size, 0, 0, bert_config.vocab_size, bert_config.type_vocab_size
  )


def _speeds(
  forms: dict[str, _Measured], config: BenchmarkConfig
) -> dict[str, float]:
  """Returns instances a second of each form: medians over the rounds."""
  found: dict[str, list[float]] = {name: [] for name in forms}
  batches = {name: iter(form.batches) for name, form in forms.items()}
  steps = {
    name: form.runner.train_step.build(form.batches.element_spec)
    for name, form in forms.items()
  }
  for i in range(config.num_rounds + 1):
    for name, step in steps.items():
      num_instances, start = 0.0, time.process_time()
      for _ in range(config.num_steps):
        sums = step(next(batches[name]))
        if "instances_per_row" in sums:
          num_instances += np.array(sums["instances_per_row"][0]).item()
        else:
          num_instances += config.batch_size
        np.array(sums["loss"][0])  # Waits for the step.
      if i:  # The first round compiles and fills buffers.
        found[name].append(num_instances / (time.process_time() - start))
  return {name: statistics.median(speeds) for name, speeds in found.items()}
