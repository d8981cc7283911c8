"""Guesses a file's format for error messages."""

import re

from bert_tf.files import compression

_HEAD_BYTES = 1 << 16
# The first bytes of formats that are not text.
_MAGIC = {
  b"PAR1": "Parquet",
  b"\x1f\x8b": "gzip-compressed data (add .gz to its name)",
  b"BZh": "bzip2-compressed data (add .bz2 to its name)",
  b"\x80\x02\x8a\n": "a PyTorch file (save its weights as safetensors)",
}
_ZIP = b"PK\x03\x04"
# Names of files in the zip archives that programs write.
_IN_ZIP = {
  b"xl/": "an Excel file (save it as CSV)",
  b"/data.pkl": "a PyTorch file (save its weights as safetensors)",
}
_TEXT = {
  r"\s*(?i:<!doctype|<html|<\?xml)": "HTML or XML",
  r'\s*\{\s*"[^"\n]*"\s*:.*\}\s*\n\s*\{': "JSON lines",
  r'\s*\{\s*"[^"\n]*"\s*:': "a JSON object",
  r"\s*\[\s*[\[{]": "a JSON list",
}
_SEPARATORS = {"tabs": "\t", "semicolons": ";", "bars": "|", "commas": ","}


def form_of(path: str, is_binary: bool = False) -> str:
  """Names the form of a file; see `form`. "" if the file cannot be read.

  With `is_binary`, only forms that are not text count.
  """
  try:
    with compression.open_file(path) as reader:
      head = reader.read(_HEAD_BYTES)
    return _binary_form(head) if is_binary else form(head)
  except (OSError, ValueError):
    return ""


def _binary_form(head: bytes) -> str:
  for magic, name in _MAGIC.items():
    if head.startswith(magic):
      return name
  if head.startswith(_ZIP):
    names = (name for part, name in _IN_ZIP.items() if part in head)
    return next(names, "a zip archive (unzip it)")
  return ""


def form(head: bytes) -> str:
  """Names the form of a file by its beginning; "" for any other text.

  "JSON lines" are several objects, and "columns between semicolons" means that
  all lines have the same number of them.
  """
  head = head[:_HEAD_BYTES]
  if name := _binary_form(head):
    return name
  text = head.decode("utf-8", "ignore").removeprefix("\ufeff")
  for pattern, name in _TEXT.items():
    if re.match(pattern, text):
      return name
  lines = text.split("\n")
  if len(head) == _HEAD_BYTES:
    lines.pop()  # It may be cut.
  lines = [line for line in lines if line.strip()][:20]
  for name, sign in _SEPARATORS.items():
    counts = {line.count(sign) for line in lines}
    if len(lines) > 1 and len(counts) == 1 and 0 not in counts:
      return f"columns between {name}"
  return ""
