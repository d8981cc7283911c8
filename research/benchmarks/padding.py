"""Speed of fine-tuning with three kinds of padding."""

import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf import heads, tokenization
from bert_tf.data import input_pipeline
from bert_tf.model_folder import run_folder
from bert_tf.tasks import base, start_model
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import glue
from bert_tf.tasks.classification import task as classification
from bert_tf.training import config as training_config
from bert_tf.training import estimator, objective
from research.benchmarks import timing
from research.benchmarks.config import BenchmarkConfig

# Three windows of eight batches, within which examples are sorted by length.
_NUM_STEPS = 24

# Batches by kind of padding.
Batches = Mapping[str, Sequence[dict[str, tf.Tensor]]]


def measure(config: BenchmarkConfig) -> None:
  """Prints examples/s of fine-tuning on MRPC for each kind of padding."""
  bert_config = config.bert_config()
  with tempfile.TemporaryDirectory() as folder:
    batches = _make_batches(folder, config, bert_config.vocab_size)
    spec = glue.get_task("mrpc").label_spec()
    runner = estimator.Estimator(
      lambda: heads.ClassifierModel(bert_config, spec.num_outputs),
      objective.of_classifier(spec.problem_type),
      training_config.TrainConfig(
        output_dir=folder,
        learning_rate=1e-5,
        num_train_steps=1000,
        num_warmup_steps=100,
      ),
    )
    seconds = _measure_steps(runner.train_step.build, batches)
  print(f"{'32 x up to 128':16}{'examples/s':>11}{'x padded':>9}  widths")
  for name, times in seconds.items():
    widths = [int(b["input_ids"].shape[1]) for b in batches[name]]
    print(
      f"{name:16}{32 * len(times) / sum(times):11.1f}"
      f"{sum(seconds['padded']) / sum(times):9.2f}  "
      f"{min(widths)} to {max(widths)}, mean {np.mean(widths):.1f}"
    )


def _make_batches(
  folder: str, config: BenchmarkConfig, vocab_size: int
) -> Batches:
  """Returns the first batches of MRPC, padded in three ways."""
  task_config = classification_config.ClassificationConfig(
    task_name="mrpc",
    data_dir=config.needed("data_dir"),
    bert_config_file="",
    vocab_file=config.needed("vocab_file"),
    max_seq_length=128,
    long_text="truncate",
    train=training_config.FineTuningTrainConfig(output_dir=folder),
  )
  setup = base.Setup(
    task_config,
    config.bert_config(),
    tokenization.FullTokenizer(
      config.needed("vocab_file"), config.do_lower_case
    ),
    run_folder.RunFolder(folder, "classification"),
    start_model.StartModel(None),
  )
  task = classification.make_task(setup, None)
  data = task.prepare("train", task.read("train", ""))
  path = os.path.join(folder, "train.tf_record")
  records = task.write_records("train", path, data)
  padded = input_pipeline.training_dataset(
    records, task.spec("train"), 32, 0, 0, vocab_size
  )
  cut, grouped = (
    task.batches("train").for_training(
      records, 32, 0, 0, group_by_length=group_by_length
    )
    for group_by_length in (False, True)
  )
  datasets = {"padded": padded, "cut": cut, "cut and grouped": grouped}
  return {n: list(dataset.take(_NUM_STEPS)) for n, dataset in datasets.items()}


def _measure_steps(build: Callable, batches: Batches) -> dict[str, list[float]]:
  """Returns the seconds of each step, by kind of padding."""
  by_width = {
    batch["input_ids"].shape[1]: batch
    for same_padding in batches.values()
    for batch in same_padding
  }
  # As in training, one trace serves all widths.
  first = batches["padded"][0]
  step = build(
    {n: tf.TensorSpec([t.shape[0], None], t.dtype) for n, t in first.items()}
  )

  def take_step(iterator: Iterator[dict[str, tf.Tensor]]) -> None:
    np.array(step(next(iterator))["loss"][0])

  for batch in by_width.values():
    take_step(iter([batch]))  # Warms up the operations for this width.
  calls = {
    # The first call is not timed, so it repeats the first batch.
    name: functools.partial(take_step, iter([same_padding[0], *same_padding]))
    for name, same_padding in batches.items()
  }
  return timing.measure_in_turn(calls, _NUM_STEPS)
