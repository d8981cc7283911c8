"""Says what a file holds, for messages about a file of another form."""

import re

from bert_tf.files import compression

_HEAD_BYTES = 1 << 16
_SEPARATORS = {"tabs": "\t", "semicolons": ";", "bars": "|", "commas": ","}


def form_of(path: str) -> str:
  """Names the form of a file; see `form`. "" if the file cannot be read."""
  try:
    with compression.open_file(path) as reader:
      return form(reader.read(_HEAD_BYTES))
  except (OSError, ValueError):
    return ""


def form(head: bytes) -> str:
  """Names the form of a file by its beginning; "" for any other text.

  "JSON lines" are several objects, and "columns between semicolons" means that
  all lines have the same number of them.
  """
  text = head[:_HEAD_BYTES].decode("utf-8", "ignore").removeprefix("\ufeff")
  lines = text.split("\n")
  if len(head) >= _HEAD_BYTES:
    lines.pop()  # It may be cut.
  lines = [line for line in lines if line.strip()][:20]
  for pattern, name in {
    "PAR1": "Parquet",
    "PK\x03\x04": "a zip archive, as Excel writes it",
    r"\s*(?i:<!doctype|<html|<\?xml)": "HTML or XML",
    r'\s*\{\s*"[^"\n]*"\s*:.*\}\s*\n\s*\{': "JSON lines",
    r'\s*\{\s*"[^"\n]*"\s*:': "a JSON object",
    r"\s*\[\s*[\[{]": "a JSON list",
  }.items():
    if re.match(pattern, text):
      return name
  for name, sign in _SEPARATORS.items():
    counts = {line.count(sign) for line in lines}
    if len(lines) > 1 and len(counts) == 1 and 0 not in counts:
      return f"columns between {name}"
  return ""
