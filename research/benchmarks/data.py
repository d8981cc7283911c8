"""Speed of tokenization and of pre-training data creation."""

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

from bert_tf import tokenization
from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import pretraining_shards
from bert_tf.files import atomic, text_lines
from bert_tf.text import corpus_build, vocabulary
from research.benchmarks.config import BenchmarkConfig
from research.benchmarks.peers import step_timing

_NUM_WARM_PASSES = 3
_LEARNED_VOCAB_SIZE = 5000
# Tokenization without a cache is slow, so it is measured on less text.
_NUM_UNCACHED_LINES = 40_000


def measure_tokenizer(config: BenchmarkConfig) -> None:
  """Prints MB/s of tokenization: first pass, later passes, without cache."""
  lines = read_lines(config)
  with tempfile.TemporaryDirectory() as folder:
    vocab_file = _prepare_vocab(lines, config, folder)
    tokenizer = tokenization.FullTokenizer(vocab_file, config.do_lower_case)
  basic, wordpiece = tokenizer.basic_tokenizer, tokenizer.wordpiece_tokenizer

  def tokenize_uncached(line: str) -> list[int]:
    pieces = [
      piece
      for token in basic.tokenize(line)
      for piece in wordpiece.tokenize(token)
    ]
    return tokenizer.convert_tokens_to_ids(pieces)

  cold = _measure_speed(tokenizer.tokenize_to_ids, lines)
  warm = statistics.median(
    _measure_speed(tokenizer.tokenize_to_ids, lines)
    for _ in range(_NUM_WARM_PASSES)
  )
  uncached = _measure_speed(tokenize_uncached, lines[:_NUM_UNCACHED_LINES])
  print(f"{_megabytes(lines):.1f} MB of {config.input_file}, one core")
  print(f"{'':16}{'MB/s':>8}{'x uncached':>12}")
  for name, speed in (("cold", cold), ("warm", warm), ("uncached", uncached)):
    print(f"{name:16}{speed:8.2f}{speed / uncached:12.1f}")


def measure_data(config: BenchmarkConfig) -> None:
  """Prints instances per CPU second and the peak memory of one process."""
  lines = read_lines(config)
  with tempfile.TemporaryDirectory() as folder:
    settings = PretrainingDataConfig(
      vocab_file=_prepare_vocab(lines, config, folder),
      do_lower_case=config.do_lower_case,
    )
    start = time.process_time()
    summary = pretraining_shards.create(
      settings,
      [file.path for file in corpus_build.find_files(config.input_file)],
      os.path.join(folder, "data.tfrecord"),
    )
    seconds = time.process_time() - start
    num_bytes = os.path.getsize(summary.output_files[0])
  speed = summary.counts.num_instances / seconds
  peak = step_timing.peak_bytes(resource.getrusage(resource.RUSAGE_SELF))
  print(
    f"{_megabytes(lines):.1f} MB of {config.input_file}, one core: "
    f"{summary.counts.num_instances:,} instances, {num_bytes / 1e6:.0f} MB"
  )
  print(f"instances/s, one shard: {speed:,.0f}")
  print(f"peak memory of the process, with TensorFlow: {peak / 1e6:,.0f} MB")


def read_lines(config: BenchmarkConfig) -> list[str]:
  """Returns the lines of the text to measure on."""
  paths = [file.path for file in corpus_build.find_files(config.input_file)]
  return list(text_lines.read_lines(*paths))


def _measure_speed(
  tokenize: Callable[[str], object], lines: Sequence[str]
) -> float:
  """Returns MB/s of tokenizing the lines."""
  start = time.perf_counter()
  for line in lines:
    tokenize(line)
  return _megabytes(lines) / (time.perf_counter() - start)


def _megabytes(lines: Sequence[str]) -> float:
  return sum(len(line.encode()) + 1 for line in lines) / 1e6


def _prepare_vocab(
  lines: Sequence[str], config: BenchmarkConfig, folder: str
) -> str:
  """Returns the vocabulary file; learns one in `folder` if none is set."""
  if config.vocab_file:
    return config.vocab_file
  basic = tokenization.BasicTokenizer(config.do_lower_case)
  counts, _ = vocabulary.count_words(lines, basic)
  path = os.path.join(folder, "vocab.txt")
  atomic.write_lines(path, vocabulary.learn_tokens(counts, _LEARNED_VOCAB_SIZE))
  return path
