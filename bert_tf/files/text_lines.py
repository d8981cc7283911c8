"""Reads text files, plain or compressed."""

import codecs
from collections.abc import Iterator

from bert_tf.files import compression, paths, recognize


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
    if paths.is_file(path) and (form := recognize.form_of(path, True)):
      raise ValueError(f"{path} is not text, but {form}.") from None
    line = first_line + content.count(b"\n", 0, error.start)
    raise ValueError(
      f"{path}:{line}: not UTF-8; convert the file to UTF-8."
    ) from None
