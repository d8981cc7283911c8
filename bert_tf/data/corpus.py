"""Where text comes from: files, globs, .gz, and the running Python's docs.

A corpus is one sentence a line with a blank line between documents. A blank
line ends a document, the end of a file does not, as in the original release.
Lines end at newlines only, every carriage return is dropped, as TensorFlow's
readline did for the original, and a line is blank when `str.strip` leaves
nothing.
"""

import array
import atexit
import bisect
import contextlib
import dataclasses
import glob
import gzip
import hashlib
import os
import re
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, TextIO

from bert_tf.data import pydoc_corpus
from bert_tf.files import atomic
from bert_tf.files import paths as file_access

_BLOCK_BYTES = 1 << 22

# One white-space character of `str.strip`, as UTF-8.
_SPACE = b"|".join(
  re.escape(chr(code).encode())
  for code in range(sys.maxunicode + 1)
  if chr(code).isspace()
)
_BLANK_LINES = re.compile(rb"\n(?:" + _SPACE + rb")*\n")


@dataclasses.dataclass(frozen=True)
class Span:
  """A run of whole lines of one file.

  Attributes:
    path: the file.
    start: offset of its first byte, after decompression.
    end: offset behind its last byte, after decompression.
  """

  path: str
  start: int
  end: int


@dataclasses.dataclass(frozen=True)
class Shard:
  """A run of whole documents that can be read without the rest.

  Attributes:
    index: position among the shards, from 0.
    num_documents: how many documents it holds, at least 1.
    spans: where they are, in order.
  """

  index: int
  num_documents: int
  spans: tuple[Span, ...]

  @property
  def num_bytes(self) -> int:
    """Bytes of text, after decompression."""
    return sum(span.end - span.start for span in self.spans)


def input_files(
  patterns: str, pydoc_packages: str = "", work_dir: str | None = None
) -> list[str]:
  """Finds the files that `--input_file` names.

  Args:
    patterns: comma-separated files and globs, gs:// too; the word `pydoc`
      stands for the documentation of the running Python, which is then
      written to a file (a file of that name is `./pydoc`).
    pydoc_packages: comma-separated installed packages whose docstrings join
      `pydoc`.
    work_dir: existing folder for `pydoc.txt`; None uses a temporary one that
      goes when the process ends.

  Returns:
    The files in the order of the patterns, those of one glob sorted.

  Raises:
    ValueError: a pattern that matches nothing, a file that is missing or
      empty, a package that is not installed, or packages without `pydoc`.
  """
  names = [name.strip() for name in patterns.split(",") if name.strip()]
  if not names:
    raise ValueError("input_file names no file; give files, globs or pydoc.")
  packages = [name.strip() for name in pydoc_packages.split(",")]
  packages = [name for name in packages if name]
  if packages and "pydoc" not in names:
    raise ValueError(
      f"pydoc_packages={pydoc_packages} has no meaning without pydoc in "
      f"input_file={patterns}; add it, or drop the packages."
    )
  paths = []
  for name in names:
    if name == "pydoc":
      paths.append(_write_pydoc(packages, work_dir))
    else:
      paths.extend(_matches(name))
  return paths


def _matches(pattern: str) -> list[str]:
  """The files of one file name or glob, checked."""
  if file_access.exists(pattern):
    paths = [pattern]
  elif glob.has_magic(pattern):
    paths = file_access.matches(pattern)
    if not paths:
      raise ValueError(f"input_file: {pattern} matches no file.")
  else:
    raise ValueError(f"input_file: there is no file {pattern}.")
  for path in paths:
    if file_access.is_folder(path):
      raise ValueError(f"input_file: {path} is a folder; try {path}/*.")
    if file_access.is_empty(path):
      raise ValueError(f"input_file: {path} is empty (0 bytes).")
  return paths


def _write_pydoc(packages: Sequence[str], work_dir: str | None) -> str:
  """Writes the documentation of the running Python; returns the path."""
  if work_dir is None:
    temporary = tempfile.TemporaryDirectory(prefix="bert_tf_pydoc_")
    atexit.register(temporary.cleanup)
    work_dir = temporary.name
  path = os.path.join(work_dir, "pydoc.txt")
  write_documents(path, pydoc_corpus.documents(packages))
  return path


def write_documents(path: str, documents_: Iterable[Sequence[str]]) -> int:
  """Writes documents, one sentence a line; the file appears when whole.

  Args:
    path: where to; a name in .gz is compressed.
    documents_: lists of sentences without line ends.

  Returns:
    How many documents were written.

  Raises:
    ValueError: there is no document; nothing is then written.
    OSError: `path` cannot be written.
  """
  count = 0
  with _text_writer(path) as writer:
    for document in documents_:
      _write_document(writer, document)
      count += 1
    if not count:
      raise ValueError(f"no document to write to {path}: the text is blank.")
  return count


def split_documents(
  documents_: Iterable[Sequence[str]],
  train_path: str,
  eval_path: str,
  eval_fraction: float,
  seed: int,
) -> tuple[int, int]:
  """Writes each document to one of two files, chosen by its text and `seed`.

  The same document always falls on the same side, so a copy of it never
  leaks from one file to the other.

  Args:
    documents_: lists of sentences without line ends.
    train_path: gets about `1 - eval_fraction` of the documents.
    eval_path: gets the others.
    eval_fraction: in (0, 1), exclusive.
    seed: another seed is another choice.

  Returns:
    How many documents each file has.

  Raises:
    ValueError: a fraction out of range, one path for both, or a side that got
      no document; neither file is then written.
    OSError: a file cannot be written.
  """
  if not 0 < eval_fraction < 1:
    raise ValueError(f"eval_fraction {eval_fraction} is not between 0 and 1.")
  if os.path.realpath(train_path) == os.path.realpath(eval_path):
    raise ValueError(f"{train_path} cannot hold both sides; name two files.")
  counts = [0, 0]
  with (
    _text_writer(train_path) as train_writer,
    _text_writer(eval_path) as eval_writer,
  ):
    for document in documents_:
      is_eval = _fraction_of(document, seed) < eval_fraction
      _write_document(eval_writer if is_eval else train_writer, document)
      counts[is_eval] += 1
    if 0 in counts:
      raise ValueError(
        f"{sum(counts)} documents with eval_fraction {eval_fraction} leave "
        f"{counts[0]} to train on and {counts[1]} to evaluate on; give more "
        "documents or change the fraction or the seed."
      )
  return counts[0], counts[1]


def _fraction_of(document: Sequence[str], seed: int) -> float:
  """A number in [0, 1) that depends on the text and the seed alone."""
  text = "\n".join([str(seed), *document])
  digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
  return int.from_bytes(digest, "big") / 2**64


def _write_document(writer: TextIO, document: Sequence[str]) -> None:
  writer.write("\n".join(document) + "\n\n")


@contextlib.contextmanager
def _text_writer(path: str) -> Iterator[TextIO]:
  """Opens a text file, or a .gz, that appears when it is whole."""
  with atomic.file(path) as unfinished:
    open_ = gzip.open if path.endswith(".gz") else open
    with open_(unfinished, "wt", encoding="utf-8", newline="\n") as writer:
      yield writer


def read_lines(path: str) -> Iterator[str]:
  """Yields the lines of a text file or a .gz, without their line ends.

  Raises:
    ValueError: bytes that are not UTF-8, named by file and line, or a damaged
      .gz.
  """
  with _opened(path) as reader:
    for number, line in enumerate(reader, 1):
      try:
        yield _decoded(line).removesuffix("\n")
      except UnicodeDecodeError as error:
        raise _not_utf8(path, number, error.start) from None


def documents(paths: Sequence[str]) -> Iterator[list[str]]:
  """Yields each document as its stripped lines that are not blank.

  Raises:
    ValueError: as `read_lines`.
  """
  return _grouped(line for path in paths for line in read_lines(path))


def _grouped(lines: Iterable[str]) -> Iterator[list[str]]:
  """Yields runs of stripped lines between blank lines."""
  document: list[str] = []
  for line in lines:
    line = line.strip()
    if line:
      document.append(line)
    elif document:
      yield document
      document = []
  if document:
    yield document


def plan_shards(paths: Sequence[str], num_shards: int) -> list[Shard]:
  """Cuts a corpus into runs of whole documents of about equal bytes.

  Reads every file once, a block at a time, and holds eight bytes a document.
  The documents of the shards, in order, are those of `documents(paths)`.

  Raises:
    ValueError: fewer documents than `num_shards`, text that is not UTF-8, or
      a damaged .gz.
  """
  if num_shards < 1:
    raise ValueError(f"num_shards {num_shards} is below 1.")
  starts, sizes = _scan(paths)
  if not starts:
    raise ValueError(f"{', '.join(paths)}: no line of text.")
  if len(starts) < num_shards:
    raise ValueError(
      f"the input has {len(starts)} documents, fewer than num_shards "
      f"{num_shards}; a blank line ends a document. Lower the flag."
    )
  total = sum(sizes)
  firsts = _first_documents(starts, total, num_shards)
  shards = []
  for index, first in enumerate(firsts):
    last = firsts[index + 1] if index + 1 < num_shards else len(starts)
    end = starts[last] if last < len(starts) else total
    spans = _spans(paths, sizes, starts[first], end)
    shards.append(Shard(index, last - first, tuple(spans)))
  return shards


def shard_documents(shard: Shard) -> Iterator[list[str]]:
  """Yields the documents of one shard; as `documents`.

  Raises:
    ValueError: the text is not UTF-8, so the file has changed since the plan.
  """
  return _grouped(line for span in shard.spans for line in _span_lines(span))


def _first_documents(
  starts: Sequence[int], total: int, num_shards: int
) -> list[int]:
  """The first document of each shard: nearest to even, none empty."""
  firsts = [0]
  for shard in range(1, num_shards):
    goal = total * shard // num_shards
    after = bisect.bisect_left(starts, goal)
    is_nearer_before = after == len(starts) or (
      after > 0 and goal - starts[after - 1] < starts[after] - goal
    )
    nearest = after - 1 if is_nearer_before else after
    last_allowed = len(starts) - (num_shards - shard)
    firsts.append(min(max(nearest, firsts[-1] + 1), last_allowed))
  return firsts


def _spans(
  paths: Sequence[str], sizes: Sequence[int], start: int, end: int
) -> Iterator[Span]:
  """Where bytes `start` to `end` of all files together lie."""
  offset = 0
  for path, size in zip(paths, sizes):
    first, last = max(start - offset, 0), min(end - offset, size)
    if first < last:
      yield Span(path, first, last)
    offset += size


def _scan(paths: Sequence[str]) -> tuple[Sequence[int], list[int]]:
  """Finds where documents start, as an offset into all files together.

  Returns:
    starts: int64 array, one offset a document.
    sizes: bytes of each file after decompression.
  """
  starts = array.array("q", [0])
  sizes = []
  offset = 0
  for path in paths:
    file_start = offset
    for block in _whole_line_blocks(path):
      # Each line of the block now stands between two line ends.
      framed = b"\n" + block + (b"" if block.endswith(b"\n") else b"\n")
      for match in _BLANK_LINES.finditer(framed):
        start = offset + min(match.end() - 1, len(block))
        if match.start() == 0 and starts[-1] == offset:
          starts[-1] = start  # Blank lines go on from the block before.
        else:
          starts.append(start)
      offset += len(block)
    sizes.append(offset - file_start)
  if starts[-1] == offset:
    starts.pop()
  return starts, sizes


def _whole_line_blocks(path: str) -> Iterator[bytes]:
  """Yields a file in blocks that end with a line, checked for UTF-8."""
  num_lines = 0
  with _opened(path) as reader:
    while block := reader.read(_BLOCK_BYTES):
      block += reader.readline()
      try:
        block.decode("utf-8")
      except UnicodeDecodeError as error:
        line_start = block.rfind(b"\n", 0, error.start) + 1
        line = num_lines + block.count(b"\n", 0, line_start) + 1
        raise _not_utf8(path, line, error.start - line_start) from None
      num_lines += block.count(b"\n")
      yield block


def _span_lines(span: Span) -> Iterator[str]:
  """Yields the lines of a span."""
  with _opened(span.path) as reader:
    reader.seek(span.start)
    position = span.start
    while position < span.end:
      line = reader.readline()
      if not line:
        raise ValueError(
          f"{span.path}: ends at byte {position}, before byte {span.end}; it "
          "has changed while it was read. Start again."
        )
      position += len(line)
      try:
        yield _decoded(line)
      except UnicodeDecodeError:
        raise ValueError(
          f"{span.path}: not UTF-8 before byte {position}; it has changed "
          "while it was read. Start again."
        ) from None


def _decoded(line: bytes) -> str:
  return line.decode("utf-8").replace("\r", "")


def _not_utf8(path: str, line: int, byte: int) -> ValueError:
  return ValueError(
    f"{path}:{line}: not UTF-8 (byte {byte} of the line); convert the file, "
    "for example with iconv -t UTF-8."
  )


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
  """Opens a file, here or at gs://, or a .gz decompressed, to read bytes.

  Raises:
    ValueError: a damaged .gz.
  """
  with file_access.open_bytes(path) as stored:
    if not path.endswith(".gz"):
      yield stored
      return
    try:
      with gzip.GzipFile(fileobj=stored) as reader:
        yield reader
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
      raise ValueError(f"{path}: not a whole gzip file ({error}).") from None
