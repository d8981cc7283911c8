"""Reads and writes text files, plain or compressed as .gz or .bz2."""

import bz2
import codecs
import contextlib
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TextIO

from bert_tf.files import paths

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


def name_format(head: bytes) -> str:
  """Names a format that is not text by a file's first bytes; "" for others."""
  formats = {
    b"PAR1": "Parquet",
    b"PK\x03\x04": "a zip archive, Excel file or PyTorch file",
    b"\x1f\x8b": "gzip-compressed data (add .gz to its name)",
    b"<": "HTML or XML",
  }
  start = head.removeprefix(codecs.BOM_UTF8).lstrip()
  return next((formats[m] for m in formats if start.startswith(m)), "")


@contextlib.contextmanager
def open_decompressed(path: str) -> Iterator[BinaryIO]:
  """Opens a file for reading bytes; decompresses .gz and .bz2.

  Raises:
    ValueError: while reading, if a compressed file is damaged or incomplete.
    OSError: if the file cannot be read.
  """
  suffix = os.path.splitext(path)[1]
  with paths.open_bytes(path) as stored:
    if suffix not in _OPENERS:
      yield stored
      return
    try:
      with _OPENERS[suffix](stored) as reader:
        yield reader
    except (OSError, EOFError, zlib.error) as error:
      if isinstance(error, OSError) and error.errno is not None:
        raise  # An error of the system, not of gzip or bz2.
      raise ValueError(f"{path}: not a whole {suffix} file: {error}.") from None


def text_writer(path: str) -> TextIO:
  """Opens a local file for writing text; compresses by its suffix."""
  opener: Callable[..., TextIO] = _OPENERS.get(os.path.splitext(path)[1], open)
  return opener(path, "wt", encoding="utf-8", newline="\n")


def without_suffix(path: str) -> str:
  """Returns a path without its .gz or .bz2."""
  return path.removesuffix(".gz").removesuffix(".bz2")


def read_lines(*names: str) -> Iterator[str]:
  """Yields the lines of text files, .gz or .bz2, without line ends.

  Drops a byte order mark and all carriage returns.

  Raises:
    ValueError: if the text is not UTF-8 (names file and line), or a compressed
      file is damaged (names the file).
  """
  return (line for name in names for _, line in read_lines_from(name, 0))


def read_lines_from(path: str, start: int) -> Iterator[tuple[int, str]]:
  """Yields (end, line) of the lines from an offset on, as `read_lines`.

  Offsets count bytes after decompression. `end` is that of the next line.
  """
  end = start
  with open_decompressed(path) as reader:
    if start:  # A pipe has no offsets.
      reader.seek(start)
    for number, line in enumerate(reader, 1):
      end += len(line)
      if number == 1 and not start:
        line = line.removeprefix(codecs.BOM_UTF8)
      text = decode(path, line, number)
      yield end, text.replace("\r", "").removesuffix("\n")


def read_text(path: str) -> str:
  """Returns the content of a UTF-8 file without a byte order mark.

  The file is not decompressed, and line ends are not converted. Raises
  ValueError if it is not UTF-8.
  """
  return decode(path, paths.read_bytes(path).removeprefix(codecs.BOM_UTF8))


def decode(path: str, content: bytes, first_line: int = 1) -> str:
  """Decodes whole lines of a file.

  `first_line` is the number of the first of these lines, from 1.

  Raises:
    ValueError: if they are not UTF-8. Names the file and the line, or what else
      the file holds.
  """
  try:
    return content.decode("utf-8")
  except UnicodeDecodeError as error:
    # A pipe cannot be opened again.
    head = paths.read_bytes(path, 64) if paths.is_file(path) else b""
    if form := name_format(head):
      raise ValueError(f"{path} is not text, but {form}.") from None
    line = first_line + content.count(b"\n", 0, error.start)
    raise ValueError(
      f"{path}:{line}: not UTF-8. If it is Latin-1, convert it: iconv -f "
      f"LATIN1 -t UTF-8 {path} > utf8_{os.path.basename(path)}"
    ) from None
