"""Speed of fine-tuning, by how batches are padded."""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.data import input_pipeline
from bert_tf.tasks.classification import examples, glue
from bert_tf.tasks.classification import records as classification_records
from bert_tf.tasks.classification import task as classification
from bert_tf.training import config as training_config
from bert_tf.training import estimator
from research.benchmarks.config import BenchmarkConfig

# Three windows of batches that are grouped by length.
_NUM_PADDING_STEPS = 24

Batches = Mapping[str, Sequence[dict[str, tf.Tensor]]]


def measure(config: BenchmarkConfig) -> None:
  """Prints examples/s of fine-tuning on MRPC, by how batches are padded."""
  bert_config = config.bert_config()
  with tempfile.TemporaryDirectory() as folder:
    batches = _padding_batches(folder, config, bert_config.vocab_size)
    runner = classification.build_estimator(
      bert_config,
      glue.get_task("mrpc").label_spec(),
      training_config.TrainConfig(
        output_dir=folder,
        learning_rate=1e-5,
        num_train_steps=1000,
        num_warmup_steps=100,
      ),
    )
    times = _alternating_seconds(runner, batches)
  print(f"{'32 x up to 128':16}{'examples/s':>11}{'x padded':>9}  widths")
  padded = sum(times["padded"])
  for name, seconds in times.items():
    speed = 32 * len(seconds) / sum(seconds)
    widths = [int(b["input_ids"].shape[1]) for b in batches[name]]
    print(
      f"{name:16}{speed:11.1f}{padded / sum(seconds):9.2f}  "
      f"{min(widths)} to {max(widths)}, mean {np.mean(widths):.1f}"
    )


def _padding_batches(
  folder: str, config: BenchmarkConfig, vocab_size: int
) -> Batches:
  """Returns the first batches of MRPC's training set, padded in three ways."""
  task = glue.get_task("mrpc")
  assert task.train
  data = examples.read_examples(config.needed("data_dir"), task.train, task)
  tokenizer = tokenization.FullTokenizer(
    config.needed("vocab_file"), config.do_lower_case
  )
  path = os.path.join(folder, "train.tf_record")
  records = classification_records.write_records(
    path, data, task.label_spec(), tokenizer, 128
  )
  spec = input_pipeline.classifier_spec(128, 2, "classification")
  padded = input_pipeline.training_dataset(records, spec, 32, 0, 0, vocab_size)
  cut, grouped = (
    classification_records.batches(
      task.label_spec(), 128, vocab_size, group_by_length
    ).for_training(records, 32, 0, 0)
    for group_by_length in (False, True)
  )
  datasets = {"padded": padded, "cut": cut, "cut and grouped": grouped}
  return {
    name: list(dataset.take(_NUM_PADDING_STEPS))
    for name, dataset in datasets.items()
  }


def _alternating_seconds(
  runner: estimator.Estimator,
  batches: Batches,
) -> dict[str, list[float]]:
  """Returns the seconds of each step, the ways taken in turn."""
  every = [batch for way in batches.values() for batch in way]
  by_width = {batch["input_ids"].shape[1]: batch for batch in every}
  # As in training: one trace of any width.
  step = runner.train_step.build(
    {
      name: tf.TensorSpec([t.shape[0], None], t.dtype)
      for name, t in every[0].items()
    }
  )
  for batch in by_width.values():
    np.array(step(batch)["loss"][0])  # Prepares the products of the width.
  seconds: dict[str, list[float]] = {name: [] for name in batches}
  for i in range(_NUM_PADDING_STEPS):
    for name, way in batches.items():
      start = time.perf_counter()
      np.array(step(way[i])["loss"][0])
      seconds[name].append(time.perf_counter() - start)
  return seconds
