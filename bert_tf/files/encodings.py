"""Detects text that is not UTF-8; errors tell how to convert it."""

import codecs

# UTF-32 comes first: its little-endian mark begins with that of UTF-16.
_MARKS = {
  codecs.BOM_UTF32_LE: "UTF-32",
  codecs.BOM_UTF32_BE: "UTF-32",
  codecs.BOM_UTF16_LE: "UTF-16",
  codecs.BOM_UTF16_BE: "UTF-16",
}
_SAMPLE_BYTES = 1 << 12

# UTF-16 without a byte order mark has at least this fraction of zero bytes, all
# at even or all at odd offsets. Russian text has one for each blank.
_MIN_ZEROS = 0.02


def check(path: str, start: bytes) -> None:
  """Raises ValueError if a file is encoded as UTF-16 or UTF-32.

  Most of UTF-16 is valid UTF-8 with odd characters, so that nothing else would
  notice.

  Args:
    path: The file.
    start: Content of the file, or its first line or block.
  """
  marks = [name for mark, name in _MARKS.items() if start.startswith(mark)]
  start = start[:_SAMPLE_BYTES]
  even, odd = start[::2].count(0), start[1::2].count(0)
  # UTF-8 may also have zero bytes, such as after a crash, at any offset.
  if not (even and odd) and even + odd >= max(2, _MIN_ZEROS * len(start)):
    marks.append("UTF-16LE" if odd else "UTF-16BE")
  if marks:
    raise ValueError(
      f"{path}:1: {marks[0]}, not UTF-8; convert the file, for example by "
      f"iconv -f {marks[0]} -t UTF-8."
    )


def not_utf8(path: str, line: int, byte: int) -> ValueError:
  """Returns the error for a line that is not UTF-8.

  Args:
    path: The file.
    line: Number of the line, from 1.
    byte: Offset of the first bad byte in the line.
  """
  return ValueError(
    f"{path}:{line}: not UTF-8 (byte {byte} of the line); convert the file "
    "from its encoding, for example by iconv -f WINDOWS-1252 -t UTF-8."
  )


def decode(path: str, content: bytes, first_line: int = 1) -> str:
  """Decodes whole lines of a file; raises ValueError if they are not UTF-8.

  Args:
    path: The file, for the message.
    content: Lines of the file.
    first_line: Number of the first of these lines, from 1.
  """
  try:
    return content.decode("utf-8")
  except UnicodeDecodeError as error:
    start = content.rfind(b"\n", 0, error.start) + 1
    line = first_line + content.count(b"\n", 0, start)
    raise not_utf8(path, line, error.start - start) from None
