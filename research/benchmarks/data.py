"""Speed of the tokenizer and of making pre-training data."""

import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from bert_tf import tokenization
from bert_tf.corpora import corpus
from bert_tf.data import config as data_config
from bert_tf.data import pretraining_shards, vocabulary
from bert_tf.files import atomic, text_lines
from research.benchmarks.config import BenchmarkConfig

_NUM_WARM_PASSES = 3
_LEARNED_VOCAB_SIZE = 5000
# The uncached tokenizer is slow: this much of the text measures it.
_UNCACHED_BYTES = 2_000_000


def measure_tokenizer(config: BenchmarkConfig) -> None:
  """Prints MB/s of text to ids: first pass, later passes, and uncached."""
  lines = read_lines(config)
  tokenizer = _tokenizer_of(lines, config)
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

  print(f"{megabytes:.1f} MB of {config.input_file}, one core")
  print(f"{'':16}{'MB/s':>8}{'x uncached':>12}")
  for name, speed in (("cold", cold), ("warm", warm), ("uncached", slow)):
    print(f"{name:16}{speed:8.2f}{speed / slow:12.1f}")


def measure_data(config: BenchmarkConfig) -> None:
  """Prints instances/s of text to TFRecords, one process, default settings."""
  lines = read_lines(config)
  with tempfile.TemporaryDirectory() as folder:
    settings = data_config.PretrainingDataConfig(
      vocab_file=_vocab_file(lines, config, folder),
      do_lower_case=config.do_lower_case,
    )
    start = time.process_time()
    summary = pretraining_shards.create(
      settings,
      corpus.input_files(config.input_file),
      os.path.join(folder, "data.tfrecord"),
    )
    seconds = time.process_time() - start
    num_bytes = os.path.getsize(summary.output_files[0])
  speed = summary.counts.num_instances / seconds
  # Kilobytes on Linux, bytes on macOS.
  unit = 1 if sys.platform == "darwin" else 1 << 10
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
  print(
    f"{_megabytes(lines):.1f} MB of {config.input_file}, one core: "
    f"{summary.counts.num_instances:,} instances, {num_bytes / 1e6:.0f} MB"
  )
  print(f"instances/s, one shard: {speed:,.0f}")
  print(
    f"peak memory of the process, TensorFlow included: {peak / 1e6:,.0f} MB"
  )


def read_lines(config: BenchmarkConfig) -> list[str]:
  """Returns the lines of the text to measure on."""
  paths = corpus.input_files(config.input_file)
  return [line for path in paths for line in text_lines.read_lines(path)]


def _seconds(tokenize: Callable[[str], object], lines: Sequence[str]) -> float:
  """Returns the seconds that `tokenize` takes for all lines."""
  start = time.perf_counter()
  for line in lines:
    tokenize(line)
  return time.perf_counter() - start


def _megabytes(lines: Sequence[str]) -> float:
  """Returns the size of the lines in a file, in 10^6 bytes."""
  return sum(len(line.encode()) + 1 for line in lines) / 1e6


def _head(lines: Sequence[str], num_bytes: int) -> list[str]:
  """Returns the first lines, up to about `num_bytes`."""
  head = []
  for line in lines:
    if num_bytes <= 0:
      break
    head.append(line)
    num_bytes -= len(line.encode()) + 1
  return head


def _vocab_file(
  lines: Sequence[str], config: BenchmarkConfig, folder: str
) -> str:
  """Returns the vocabulary to use, learned in `folder` if none is given."""
  if config.vocab_file:
    return config.vocab_file
  basic = tokenization.BasicTokenizer(config.do_lower_case)
  tokens = vocabulary.learn(
    vocabulary.count_words(lines, basic), _LEARNED_VOCAB_SIZE
  )
  path = os.path.join(folder, "vocab.txt")
  atomic.write_lines(path, tokens)
  return path


def _tokenizer_of(
  lines: Sequence[str], config: BenchmarkConfig
) -> tokenization.FullTokenizer:
  """Returns a tokenizer of the vocabulary to use, its cache empty."""
  with tempfile.TemporaryDirectory() as folder:
    return tokenization.FullTokenizer(
      _vocab_file(lines, config, folder), config.do_lower_case
    )
