"""Reads the lines of text files, plain or compressed."""

from collections.abc import Iterator

from bert_tf.files import compression, encodings, paths

_SNIFFED_BYTES = 1 << 12


def read_lines(path: str) -> Iterator[str]:
  """Yields the lines of a text file, .gz or .bz2, without line ends.

  Drops a byte order mark and all carriage returns.

  Raises:
    ValueError: if the text is not UTF-8 (names file and line), or a compressed
      file is damaged (names the file).
  """
  with compression.open_file(path) as reader:
    # The first line may be too short to detect the encoding.
    start = reader.peek(_SNIFFED_BYTES)  # type: ignore[attr-defined]
    encodings.check(path, start)
    for number, line in enumerate(reader, 1):
      if number == 1:
        line = paths.without_mark(path, line)
      try:
        yield decoded(line).removesuffix("\n")
      except UnicodeDecodeError as error:
        raise encodings.not_utf8(path, number, error.start) from None


def decoded(line: bytes) -> str:
  """Returns the text of a line, without carriage returns.

  Raises:
    UnicodeDecodeError: if it is not UTF-8.
  """
  return line.decode("utf-8").replace("\r", "")
