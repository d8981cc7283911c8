"""Estimates time, disk and memory of pre-training from text.

Runs the data steps on the beginning of the text and scales the measurements by
the size of the input. Times training steps on synthetic batches.
"""

import collections
import dataclasses
import glob
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from bert_tf import model_size, modeling
from bert_tf.corpora import corpus, corpus_build, sources, text_config
from bert_tf.data import pretraining_data, synthetic
from bert_tf.files import compression, paths, text_lines
from bert_tf.pipeline import config as pipeline_config
from bert_tf.pipeline import text_steps
from bert_tf.tasks import pretraining
from bert_tf.training import config as training_config
from bert_tf.training import estimator

# Number of characters of the input to read for the plan's estimates.
_SAMPLE_CHARS = 500_000

# Bytes of text per byte of Parquet, which is compressed.
_PARQUET_EXPANSION = 2.0

# Outputs of a run whose disk space the plan includes.
_FOLDERS, _WEIGHTS = ("data", "saved_model"), "model.ckpt-*"

# Memory of Python, TensorFlow and the input pipeline, in bytes.
_RUNTIME_BYTES = 700_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
  """Estimates for a run."""

  text_bytes: float  # Size of the corpus.
  corpus_seconds: float
  vocab_seconds: float | None  # None if the model has a vocabulary.
  records_seconds: float
  record_bytes: float
  num_instances: float
  num_records: float  # A record holds one or more instances.
  start_seconds: float  # Time of set-up and the first training steps.
  step_seconds: float
  train_seconds: float
  batch_size: int
  memory_bytes: float
  checkpoint_bytes: int

  @property
  def num_train_steps(self) -> int:
    """Number of steps that fit into the training time."""
    return int((self.train_seconds - self.start_seconds) / self.step_seconds)

  @property
  def disk_bytes(self) -> float:
    """Disk space: corpus twice, records, three checkpoints and the export."""
    return 2 * self.text_bytes + self.record_bytes + 4 * self.checkpoint_bytes

  def lines(self) -> Iterator[str]:
    """Yields the lines of the plan."""
    epochs = self.num_train_steps * self.batch_size / self.num_records
    rows = [
      ("sentences", self.corpus_seconds, f"{_bytes(self.text_bytes)} of text"),
      ("vocabulary", self.vocab_seconds, ""),
      (
        "records",
        self.records_seconds,
        f"{self.num_instances:,.0f} instances, {_bytes(self.record_bytes)}",
      ),
      (
        "training",
        self.train_seconds,
        f"{self.num_train_steps:,} steps of {self.batch_size}, "
        f"{1e3 * self.step_seconds:.0f} ms each, {epochs:.1f} epochs",
      ),
    ]
    for name, seconds, note in rows:
      if seconds is not None:
        yield f"{name:22}{_time(seconds):>10}  {note}".rstrip()
    yield f"{'disk':22}{_bytes(self.disk_bytes):>10}"
    yield f"{'memory':22}{_bytes(self.memory_bytes):>10}"

  def check(self, output_dir: str) -> None:
    """Raises ValueError if the training time or the disk is too small.

    Does not check the space of remote folders.
    """
    if self.num_train_steps < 20:
      raise ValueError(
        f"a training time of {self.train_seconds:g} s is too short: training "
        f"starts after {self.start_seconds:.0f} s and a step takes "
        f"{self.step_seconds:.2g} s; raise `train_hours` or `train_minutes`, "
        "or choose a smaller `size` or `model`."
      )
    if paths.is_remote(output_dir):
      return
    folder = os.path.abspath(output_dir)
    while not os.path.isdir(folder):
      folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    needed = self.disk_bytes - _existing_bytes(output_dir)
    if free < needed:
      raise ValueError(
        f"the disk of {output_dir} has {_bytes(free)} left, but the plan needs "
        f"{_bytes(needed)}; choose another `output_dir`."
      )


def _existing_bytes(output_dir: str) -> int:
  """Returns the size of outputs in the plan that already exist."""
  written = glob.glob(os.path.join(glob.escape(output_dir), _WEIGHTS))
  for name in _FOLDERS:
    for folder, _, names in os.walk(os.path.join(output_dir, name)):
      written += [os.path.join(folder, file) for file in names]
  return sum(map(os.path.getsize, filter(os.path.isfile, written)))


def estimate(
  config: pipeline_config.PipelineConfig, inputs: Sequence[sources.InputFile]
) -> Plan:
  """Returns the plan of a run, measured on the beginning of its text.

  Raises:
    ValueError: if the text cannot be read or no sentence is left of it.
  """
  with tempfile.TemporaryDirectory() as folder:
    start = time.monotonic()
    text = _write_sample(config, inputs, folder)
    corpus_seconds = time.monotonic() - start
    sample_bytes = os.path.getsize(text)
    scale = max(1.0, sum(map(_text_bytes, inputs)) / sample_bytes)
    vocab_seconds = None
    if config.initial_model:
      vocab_file = config.initial_model.vocab_file
    else:
      vocab_file = os.path.join(folder, "vocab.txt")
      start = time.monotonic()
      text_steps.learn_vocabulary(config, [text], vocab_file)
      # Most of the time goes to distinct words, whose number grows more slowly
      # than the text. A tenth of the sample's time per character is a guess.
      vocab_seconds = max(1, scale / 10) * (time.monotonic() - start)
    records = os.path.join(folder, "records")
    num_chars = scale * sum(map(len, text_lines.read_lines(text)))
    settings = text_steps.train_record_config(config, vocab_file, num_chars)
    start = time.monotonic()
    counts = pretraining_data.build_shard(
      corpus.plan_shards([text], 1)[0],
      settings,
      pretraining_data.load_tokenizer(settings),
      config.seed,
      [records],
      lambda count: None,
    )
    records_seconds = time.monotonic() - start
    record_bytes = os.path.getsize(records)
  start_seconds, step_seconds = _step_seconds(config)
  num_parts = config.compute.gradient_accumulation_steps
  memory = model_size.training_memory(
    _bert_config(config),
    model_size.BatchSizes(
      train_batch_size=-(-config.model_size.train_batch_size // num_parts),
      max_seq_length=config.max_seq_length,
      max_predictions_per_seq=config.max_predictions_per_seq,
    ),
  )
  num_shards = text_steps.num_shards(scale * sample_bytes)
  return Plan(
    text_bytes=scale * sample_bytes,
    corpus_seconds=scale * corpus_seconds / config.num_workers,
    vocab_seconds=vocab_seconds,
    records_seconds=(
      scale * records_seconds / min(config.num_workers, num_shards)
    ),
    record_bytes=scale * record_bytes,
    num_instances=scale * counts.num_instances,
    num_records=scale * counts.num_records,
    start_seconds=start_seconds,
    step_seconds=step_seconds,
    train_seconds=config.train_seconds,
    batch_size=config.model_size.train_batch_size,
    memory_bytes=_RUNTIME_BYTES + model_size.total(memory),
    checkpoint_bytes=3 * memory[0].value,
  )


def _write_sample(
  config: pipeline_config.PipelineConfig,
  inputs: Sequence[sources.InputFile],
  folder: str,
) -> str:
  """Writes a corpus of the first documents and returns its path."""
  counts: collections.Counter[str] = collections.Counter()
  documents = itertools.chain.from_iterable(
    sources.read(source, config.reading, counts) for source in inputs
  )
  part = corpus_build.Part(0, folder, config.reading, 0.0, config.seed)
  part.write_raw(corpus_build.read_group(documents, _SAMPLE_CHARS))
  corpus_build.build_part(part)
  text = part.file("txt")
  if not paths.num_bytes(text):
    raise ValueError(f"{config.text}: the text is blank.")
  return text


def _text_bytes(source: sources.InputFile) -> float:
  """Estimates how many bytes of text a file has, from its beginning."""
  num_bytes: float = paths.num_bytes(source.path)
  if source.path.endswith(compression.SUFFIXES):
    with paths.open_bytes(source.path) as stored:
      with compression.decompressed(source.path, stored) as reader:
        content = reader.read(4 * _SAMPLE_CHARS)
      num_bytes *= len(content) / max(1, stored.tell())
  if source.input_format == text_config.PARQUET:
    num_bytes *= _PARQUET_EXPANSION
  return num_bytes


def _bert_config(
  config: pipeline_config.PipelineConfig,
) -> modeling.BertConfig:
  vocab_size = config.model_size.vocab_size
  return modeling.BertConfig.from_dict(config.bert_config(vocab_size))


def _step_seconds(
  config: pipeline_config.PipelineConfig,
) -> tuple[float, float]:
  """Returns the seconds of set-up with the first step, and of a later step."""
  bert_config, size = _bert_config(config), config.model_size
  start = time.monotonic()
  with tempfile.TemporaryDirectory() as folder:
    runner = pretraining.build_estimator(
      bert_config,
      training_config.TrainConfig(
        output_dir=folder,
        train_batch_size=size.train_batch_size,
        **vars(config.compute),
      ),
    )
  batch = synthetic.pretraining_batch(
    bert_config.vocab_size,
    size.train_batch_size,
    config.max_seq_length,
    config.max_predictions_per_seq,
    config.seed,
  )
  _, *later = time_steps(runner, [batch] * 4)
  return time.monotonic() - start - sum(later), min(later)


def time_steps(
  runner: estimator.Estimator, batches: Sequence[synthetic.Batch]
) -> list[float]:
  """Returns the seconds of a step for each batch; the first also compiles."""
  step = runner.build_step(
    {
      name: tf.TensorSpec(value.shape, value.dtype)
      for name, value in batches[0].items()
    }
  )
  seconds = []
  for batch in batches:
    features = {name: tf.constant(value) for name, value in batch.items()}
    start = time.perf_counter()
    np.array(step(features)["loss"][0])  # Waits for the step.
    seconds.append(time.perf_counter() - start)
  return seconds


def _bytes(number: float) -> str:
  """Formats a number of bytes: 1.5 GB."""
  for unit in ("B", "kB", "MB", "GB"):
    if number < 1000:
      return f"{number:.3g} {unit}"
    number /= 1000
  return f"{number:.3g} TB"


def _time(seconds: float) -> str:
  """Formats a time: 42 s, 7 min, 2.5 h."""
  if seconds < 100:
    return f"{seconds:.0f} s"
  minutes = seconds / 60
  return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
