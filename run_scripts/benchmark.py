"""Measures speed on this machine and compares it with the original release.

python run_scripts/benchmark.py tokenizer
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

import common_flags
from absl import flags

from bert_tf import corpus, tokenization, vocabulary

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

# The original's FullTokenizer on two CPU cores (it uses one), recorded by
# running it: the project's notes on its behaviour, "How fast it is".
ORIGINAL_TOKENIZER_MB_PER_S = 0.17

_NUM_WARM_PASSES = 3
_LEARNED_VOCAB_SIZE = 5000
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


def _tokenizer_of(lines: Sequence[str]) -> tokenization.FullTokenizer:
  """A tokenizer of the vocabulary that the flags ask for, its cache empty."""
  if FLAGS.vocab_file:
    return tokenization.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
  basic = tokenization.BasicTokenizer(FLAGS.do_lower_case)
  tokens = vocabulary.learn(
    vocabulary.count_words(lines, basic), _LEARNED_VOCAB_SIZE
  )
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "vocab.txt")
    vocabulary.write_vocab(path, tokens)
    return tokenization.FullTokenizer(path, FLAGS.do_lower_case)


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


# A new benchmark is a function above and a line here.
BENCHMARKS = {"tokenizer": benchmark_tokenizer}

if __name__ == "__main__":
  common_flags.run_command(BENCHMARKS)
