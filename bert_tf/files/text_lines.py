"""Reads the lines of text files, plain or compressed."""

import codecs
from collections.abc import Iterator

from bert_tf.files import compression, paths


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
  with compression.open_file(path) as reader:
    if start:  # A pipe has no offsets.
      reader.seek(start)
    for number, line in enumerate(reader, 1):
      end += len(line)
      if number == 1 and not start:
        line = line.removeprefix(codecs.BOM_UTF8)
      text = paths.decode(path, line, number)
      yield end, text.replace("\r", "").removesuffix("\n")
