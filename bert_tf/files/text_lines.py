"""Reads the lines of text files, plain or compressed."""

import codecs
from collections.abc import Iterator

from bert_tf.files import compression, paths


def read_lines(path: str) -> Iterator[str]:
  """Yields the lines of a text file, .gz or .bz2, without line ends.

  Drops a byte order mark and all carriage returns.

  Raises:
    ValueError: if the text is not UTF-8 (names file and line), or a compressed
      file is damaged (names the file).
  """
  with compression.open_file(path) as reader:
    for number, line in enumerate(reader, 1):
      if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
      text = paths.decode(path, line, number)
      yield text.replace("\r", "").removesuffix("\n")
