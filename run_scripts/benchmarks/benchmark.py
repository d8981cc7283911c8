"""Measures speed on this machine and compares it with the original release.

python benchmark.py tokenizer
python benchmark.py data
python benchmark.py train
python benchmark.py padding --data_dir=MRPC --vocab_file=vocab.txt
python benchmark.py scaling
python benchmark.py export --init_checkpoint=bert_model.ckpt
python benchmark.py serving --model=out --vocab_file=vocab.txt
python benchmark.py runtimes --saved_model=models/mrpc/1
"""

import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import export_benchmark
import numpy as np
import runtime_benchmark
import scaling_benchmark
import serving_benchmark
import tensorflow as tf
from absl import flags

from bert_tf import modeling, tokenization
from bert_tf.cli import command
from bert_tf.data import config as data_config
from bert_tf.data import (
  corpus,
  input_pipeline,
  pretraining_shards,
  vocabulary,
)
from bert_tf.inference import predictor
from bert_tf.tasks import pretraining
from bert_tf.tasks.classification import examples, glue
from bert_tf.tasks.classification import records as classification_data
from bert_tf.tasks.classification import task as classification
from bert_tf.training import config as training_config
from bert_tf.training import estimator

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "input_file",
  "pydoc",
  "Text to measure on: comma-separated files and globs, and the word pydoc for "
  "the documentation of the running Python.",
)
flags.DEFINE_string(
  "vocab_file",
  None,
  "Vocabulary to measure with; unset learns 5,000 entries from the text.",
)
flags.DEFINE_bool("do_lower_case", True, "Whether to lower-case the text.")
flags.DEFINE_string("data_dir", None, "For padding: the folder of MRPC.")
flags.DEFINE_string(
  "bert_config_file",
  None,
  "For padding and scaling: the model's sizes; unset: BERT-Tiny.",
)
flags.DEFINE_integer(
  "batch_size", 32, "For scaling: examples a step.", lower_bound=4
)
flags.DEFINE_integer(
  "max_seq_length",
  128,
  "For scaling, export and runtimes: word pieces an example.",
  lower_bound=8,
)
flags.DEFINE_integer("num_steps", 20, "For scaling: steps.", lower_bound=2)
flags.DEFINE_string(
  "init_checkpoint",
  None,
  "For export: a checkpoint, with bert_config.json and, unless --vocab_file is "
  "set, vocab.txt beside it.",
)
flags.DEFINE_string(
  "saved_model",
  None,
  "For runtimes: a SavedModel of export_savedmodel.py.",
)
flags.DEFINE_string(
  "hf_model_dir",
  None,
  "For export: the same model as transformers saves it, to time as well.",
)
flags.DEFINE_string(
  "model", None, "For serving: what serve.py is given; needs aiohttp."
)
flags.DEFINE_integer(
  "num_clients", 50, "For serving: clients at the same time.", lower_bound=1
)
flags.DEFINE_integer(
  "num_requests", 20, "For serving: requests of each client.", lower_bound=1
)

# The original's FullTokenizer on two CPU cores (it uses one), recorded by
# running it: the project's notes on its behaviour, "How fast it is".
ORIGINAL_TOKENIZER_MB_PER_S = 0.17

# The original's code (create_pretraining_data.py of commit d452612 with whole-
# word masking added, tokenization.py of f18bd94 with its later rules; of
# wikitext it makes the records that were recorded from eedf571) under
# tf.compat.v1, one core of an AMD EPYC, Python 3.11, TensorFlow 2.20: default
# flags, the released uncased vocabulary, the first 2 MB of 442 Wikipedia
# articles; CPU time from reading the vocabulary to closing the file. This
# project made 31,000 a second of the same text in the same minutes.
ORIGINAL_INSTANCES_PER_S = 3150

# The original's step on TF 2.15 with oneDNN on, recorded by running it on two
# CPU cores: the project's notes on its behaviour, "How fast it is".
ORIGINAL_STEP_MS = 355

_NUM_STEPS = 20
# Three windows of batches that are grouped by length.
_NUM_PADDING_STEPS = 24
_NUM_WARM_PASSES = 3
_LEARNED_VOCAB_SIZE = 5000
_TINY = modeling.BertConfig(
  vocab_size=30522,
  hidden_size=128,
  num_hidden_layers=2,
  num_attention_heads=2,
  intermediate_size=512,
  type_vocab_size=2,
)
# The uncached path is slow: a part of the text measures it.
_UNCACHED_BYTES = 2_000_000


def _seconds(tokenize: Callable[[str], object], lines: Sequence[str]) -> float:
  """Seconds that `tokenize` takes for all lines."""
  start = time.perf_counter()
  for line in lines:
    tokenize(line)
  return time.perf_counter() - start


def _megabytes(lines: Sequence[str]) -> float:
  """Size of the lines as they stand in a file, in 10^6 bytes."""
  return sum(len(line.encode()) + 1 for line in lines) / 1e6


def _head(lines: Sequence[str], num_bytes: int) -> list[str]:
  """The first lines, up to about `num_bytes`."""
  head = []
  for line in lines:
    if num_bytes <= 0:
      break
    head.append(line)
    num_bytes -= len(line.encode()) + 1
  return head


def _vocab_file(lines: Sequence[str], folder: str) -> str:
  """The vocabulary that the flags ask for, learned in `folder` if need be."""
  if FLAGS.vocab_file:
    return FLAGS.vocab_file
  basic = tokenization.BasicTokenizer(FLAGS.do_lower_case)
  tokens = vocabulary.learn(
    vocabulary.count_words(lines, basic), _LEARNED_VOCAB_SIZE
  )
  path = os.path.join(folder, "vocab.txt")
  vocabulary.write_vocab(path, tokens)
  return path


def _tokenizer_of(lines: Sequence[str]) -> tokenization.FullTokenizer:
  """A tokenizer of the vocabulary that the flags ask for, its cache empty."""
  with tempfile.TemporaryDirectory() as folder:
    return tokenization.FullTokenizer(
      _vocab_file(lines, folder), FLAGS.do_lower_case
    )


def benchmark_tokenizer() -> None:
  """Prints MB/s of text to ids: first pass, later passes, and uncached."""
  paths = corpus.input_files(FLAGS.input_file)
  lines = [line for path in paths for line in corpus.read_lines(path)]
  tokenizer = _tokenizer_of(lines)
  basic, wordpiece = tokenizer.basic_tokenizer, tokenizer.wordpiece_tokenizer

  def uncached(line: str) -> list[int]:
    pieces = [
      piece
      for token in basic.tokenize(line)
      for piece in wordpiece.tokenize(token)
    ]
    return tokenizer.convert_tokens_to_ids(pieces)

  megabytes = _megabytes(lines)
  cold = megabytes / _seconds(tokenizer.tokenize_to_ids, lines)
  warm = megabytes / statistics.median(
    _seconds(tokenizer.tokenize_to_ids, lines) for _ in range(_NUM_WARM_PASSES)
  )
  head = _head(lines, _UNCACHED_BYTES)
  slow = _megabytes(head) / _seconds(uncached, head)

  print(f"{megabytes:.1f} MB of {FLAGS.input_file}, one core")
  print(f"{'':16}{'MB/s':>8}{'x original':>12}{'x uncached':>12}")
  for name, speed in (("cold", cold), ("warm", warm), ("uncached", slow)):
    ratio = speed / ORIGINAL_TOKENIZER_MB_PER_S
    print(f"{name:16}{speed:8.2f}{ratio:12.1f}{speed / slow:12.1f}")
  print(f"{'original, noted':16}{ORIGINAL_TOKENIZER_MB_PER_S:8.2f}{1:12.1f}")


def benchmark_data() -> None:
  """Prints instances/s of text to TFRecords, one process, default settings."""
  paths = corpus.input_files(FLAGS.input_file)
  lines = [line for path in paths for line in corpus.read_lines(path)]
  with tempfile.TemporaryDirectory() as folder:
    vocab_file = _vocab_file(lines, folder)
    config = data_config.PretrainingDataConfig(vocab_file, FLAGS.do_lower_case)
    start = time.process_time()
    summary = pretraining_shards.create(
      config, paths, os.path.join(folder, "data.tfrecord")
    )
    seconds = time.process_time() - start
    num_bytes = os.path.getsize(summary.output_files[0])
  speed = summary.counts.num_instances / seconds
  # Kilobytes on Linux, bytes on macOS.
  unit = 1 if sys.platform == "darwin" else 1 << 10
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
  print(
    f"{_megabytes(lines):.1f} MB of {FLAGS.input_file}, one core: "
    f"{summary.counts.num_instances:,} instances, {num_bytes / 1e6:.0f} MB"
  )
  print(f"{'':16}{'instances/s':>12}{'x original':>12}")
  ratio = speed / ORIGINAL_INSTANCES_PER_S
  print(f"{'one shard':16}{speed:12,.0f}{ratio:12.1f}")
  print(f"{'original, noted':16}{ORIGINAL_INSTANCES_PER_S:12,}{1:12.1f}")
  print(
    f"peak memory of the process, TensorFlow included: {peak / 1e6:,.0f} MB"
  )


def benchmark_train() -> None:
  """Prints ms of a pre-training step of BERT-Tiny, with and without XLA."""
  config = _TINY
  print(f"{'32 x 128':16}{'ms/step':>8}{'x plain':>10}{'x original':>12}")
  plain = _step_ms(config, use_xla=False)
  for name, ms in (("plain", plain), ("XLA", _step_ms(config, use_xla=True))):
    ratio = ORIGINAL_STEP_MS / ms
    print(f"{name:16}{ms:8.0f}{plain / ms:10.2f}{ratio:12.1f}")
  print(f"{'original, noted':16}{ORIGINAL_STEP_MS:8.0f}{'':10}{1:12.1f}")


def _step_ms(config: modeling.BertConfig, use_xla: bool) -> float:
  """Median milliseconds of a training step on made-up records."""
  rng = np.random.default_rng(0)

  def ints(limit: int, *shape: int) -> tf.Tensor:
    return tf.constant(rng.integers(limit, size=shape), tf.int32)

  features = {
    "input_ids": ints(config.vocab_size, 32, 128),
    "input_mask": tf.ones((32, 128), tf.int32),
    "segment_ids": ints(2, 32, 128),
    "masked_lm_positions": ints(128, 32, 20),
    "masked_lm_ids": ints(config.vocab_size, 32, 20),
    "masked_lm_weights": tf.ones((32, 20)),
    "next_sentence_labels": ints(2, 32, 1),
  }
  with tempfile.TemporaryDirectory() as folder:
    runner = pretraining.build_estimator(
      config,
      training_config.TrainConfig(
        output_dir=folder,
        train_batch_size=32,
        learning_rate=1e-4,
        num_train_steps=100,
        num_warmup_steps=10,
        use_xla=use_xla,
      ),
    )
    spec = {n: tf.TensorSpec(t.shape, t.dtype) for n, t in features.items()}
    step = runner.train_step.build(spec)
    times = []
    for _ in range(_NUM_STEPS + 1):
      start = time.perf_counter()
      step(features)["loss"][0].numpy()
      times.append(time.perf_counter() - start)
  return 1e3 * statistics.median(times[1:])  # The first one compiles.


def benchmark_padding() -> None:
  """Prints examples/s of fine-tuning on MRPC, padded, cut and grouped."""
  if not (FLAGS.data_dir and FLAGS.vocab_file):
    raise ValueError("padding needs --data_dir, of MRPC, and --vocab_file.")
  config = _TINY
  if FLAGS.bert_config_file:
    config = modeling.BertConfig.from_json_file(FLAGS.bert_config_file)
  with tempfile.TemporaryDirectory() as folder:
    batches = _padding_batches(folder, config.vocab_size)
    runner = classification.build_estimator(
      config,
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
    widths = sorted({int(b["input_ids"].shape[1]) for b in batches[name]})
    print(
      f"{name:16}{speed:11.1f}{padded / sum(seconds):9.2f}  "
      f"{', '.join(map(str, widths))}"
    )


def _padding_batches(
  folder: str, vocab_size: int
) -> dict[str, list[dict[str, tf.Tensor]]]:
  """Returns the first batches of MRPC's training set, in three forms."""
  task = glue.get_task("mrpc")
  data = examples.read_examples(FLAGS.data_dir, task.train, task)
  tokenizer = tokenization.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
  path = os.path.join(folder, "train.tf_record")
  records = classification_data.write_records(
    path, data, task.label_spec(), tokenizer, 128
  )
  spec = input_pipeline.classifier_spec(128, 2, "classification")
  padded = input_pipeline.training_dataset(records, spec, 32, 0, 0, vocab_size)
  cut, grouped = (
    classification_data.training_batches(
      records, task.label_spec(), 128, 32, 0, 0, vocab_size, group_by_length
    )
    for group_by_length in (False, True)
  )
  datasets = {"padded": padded, "cut": cut, "cut and grouped": grouped}
  return {
    name: list(dataset.take(_NUM_PADDING_STEPS))
    for name, dataset in datasets.items()
  }


def _alternating_seconds(
  runner: estimator.Estimator,
  batches: dict[str, list[dict[str, tf.Tensor]]],
) -> dict[str, list[float]]:
  """Returns the seconds of each step, the forms taken in turn."""
  every = [batch for form in batches.values() for batch in form]
  by_width = {batch["input_ids"].shape[1]: batch for batch in every}
  # As in training: one trace of any width, which XLA compiles for each.
  step = runner.train_step.build(
    {
      name: tf.TensorSpec([t.shape[0], None], t.dtype)
      for name, t in every[0].items()
    }
  )
  for batch in by_width.values():
    step(batch)["loss"][0].numpy()  # Compiles.
  seconds = {name: [] for name in batches}
  for i in range(_NUM_PADDING_STEPS):
    for name, form in batches.items():
      start = time.perf_counter()
      step(form[i])["loss"][0].numpy()
      seconds[name].append(time.perf_counter() - start)
  return seconds


def benchmark_scaling() -> None:
  """Prints speed, memory and weights of the ways to cut a batch."""
  config = _TINY
  if FLAGS.bert_config_file:
    config = modeling.BertConfig.from_json_file(FLAGS.bert_config_file)
  scaling_benchmark.measure(
    config, FLAGS.batch_size, FLAGS.max_seq_length, FLAGS.num_steps
  )


def benchmark_serving() -> None:
  """Prints what a server answers to many clients, and how fast."""
  if not FLAGS.model:
    raise ValueError("serving needs --model, of serve.py.")
  names = ("vocab_file", "bert_config_file", "do_lower_case")
  given = {name: FLAGS[name].value for name in names if FLAGS[name].present}
  served = predictor.Predictor(FLAGS.model, **given)
  lines = [
    line
    for path in corpus.input_files(FLAGS.input_file)
    for line in corpus.read_lines(path)
  ]
  sentences = [line for line in map(str.strip, lines) if 40 <= len(line) <= 300]
  count = FLAGS.num_clients * FLAGS.num_requests
  serving_benchmark.measure(
    FLAGS.model,
    [f"--{name}={value}" for name, value in given.items()],
    served,
    random.Random(0).choices(sentences, k=count),
    FLAGS.num_clients,
  )


def benchmark_export() -> None:
  """Prints the milliseconds that SavedModels take for 1 and 32 texts."""
  if not FLAGS.init_checkpoint:
    raise ValueError("export needs --init_checkpoint.")
  export_benchmark.measure(
    FLAGS.init_checkpoint,
    FLAGS.vocab_file,
    FLAGS.do_lower_case,
    FLAGS.max_seq_length,
    FLAGS.hf_model_dir,
  )


def benchmark_runtimes() -> None:
  """Prints how large, close and fast ONNX and LiteRT files of a model are."""
  if not FLAGS.saved_model:
    raise ValueError("runtimes needs --saved_model.")
  runtime_benchmark.measure(FLAGS.saved_model, FLAGS.max_seq_length)


# A new benchmark is a function above and a line here.
BENCHMARKS = {
  "tokenizer": benchmark_tokenizer,
  "data": benchmark_data,
  "train": benchmark_train,
  "padding": benchmark_padding,
  "scaling": benchmark_scaling,
  "export": benchmark_export,
  "serving": benchmark_serving,
  "runtimes": benchmark_runtimes,
}

if __name__ == "__main__":
  command.run_one_of(BENCHMARKS, __doc__)
