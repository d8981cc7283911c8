"""Reads the lines of text files, stored as they are or compressed."""

from collections.abc import Iterator

from bert_tf.files import compression, encodings, paths

_SNIFFED_BYTES = 1 << 12


def read_lines(path: str) -> Iterator[str]:
  """Yields the lines of a text file, .gz or .bz2, without their line ends.

  A byte order mark is left out.

  Raises:
    ValueError: if bytes are not UTF-8, naming file and line, or a .gz or
      .bz2 is damaged.
  """
  with compression.opened(path) as reader:
    # The first line may be too short to tell the encoding.
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
