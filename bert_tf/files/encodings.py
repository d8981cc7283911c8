"""Detects text that is not UTF-8; errors give a command to convert it."""

import codecs
import os
import shlex

# UTF-32 comes first: its little-endian mark begins with that of UTF-16.
_MARKS = {
  codecs.BOM_UTF32_LE: "UTF-32",
  codecs.BOM_UTF32_BE: "UTF-32",
  codecs.BOM_UTF16_LE: "UTF-16",
  codecs.BOM_UTF16_BE: "UTF-16",
}
_SAMPLE_BYTES = 1 << 12

# UTF-16 without a byte order mark has at least this share of zero bytes, all at
# even or all at odd offsets. Russian text has one for each blank.
_MIN_ZEROS = 0.02


def check(path: str, start: bytes) -> None:
  """Raises ValueError if a file is encoded as UTF-16 or UTF-32.

  Args:
    path: The file.
    start: Content of the file, or its first line or block.
  """
  for mark, encoding in _MARKS.items():
    if start.startswith(mark):
      raise ValueError(
        f"{path}:1: {encoding} (begins with its byte order mark), not UTF-8; "
        f"convert the file: {_format_command(path, encoding)}"
      )
  likely = _guess_encoding(start[:_SAMPLE_BYTES])
  if likely:
    raise ValueError(
      f"{path}:1: {likely} (has zero bytes between the others), not UTF-8; "
      f"convert the file: {_format_command(path, likely)}"
    )


def not_utf8(path: str, line: int, byte: int) -> ValueError:
  """Returns the error for a line that is not UTF-8.

  Args:
    path: The file.
    line: Number of the line, from 1.
    byte: Offset of the first bad byte in the line.
  """
  return ValueError(
    f"{path}:{line}: not UTF-8 (byte {byte} of the line). Use its encoding, "
    "such as WINDOWS-1252, GB18030 or SHIFT_JIS, for ENCODING to convert the "
    f"file: {_format_command(path, 'ENCODING')}"
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


def _guess_encoding(start: bytes) -> str | None:
  """Returns the name of the encoding if text looks like UTF-16 or UTF-32.

  UTF-8 text may also have zero bytes, such as at the end of a file after a
  crash. Such bytes are at even and odd offsets.
  """
  zeros = [start[offset::4].count(0) for offset in range(4)]
  even, odd = zeros[0] + zeros[2], zeros[1] + zeros[3]
  if even + odd < max(2, _MIN_ZEROS * len(start)):
    return None
  if zeros[2] and zeros[3] == len(start) // 4 and not zeros[0]:
    return "UTF-32LE"
  if zeros[1] and zeros[0] == (len(start) + 3) // 4 and not zeros[3]:
    return "UTF-32BE"
  if even and odd:
    return None
  return "UTF-16LE" if odd else "UTF-16BE"


def _format_command(path: str, encoding: str) -> str:
  name, suffix = os.path.splitext(path)
  convert = f"iconv -f {encoding} -t UTF-8"
  unpack = {".gz": "gzip", ".bz2": "bzip2"}.get(suffix)
  if unpack:
    name, suffix = os.path.splitext(name)
  target = shlex.quote(f"{name}.utf-8{suffix}")
  if unpack:
    return f"{unpack} -dc {shlex.quote(path)} | {convert} > {target}"
  return f"{convert} {shlex.quote(path)} > {target}"
