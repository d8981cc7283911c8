"""Reads documents from files of any format, one at a time and in order."""

import atexit
import collections
import dataclasses
import itertools
import os
import re
import tempfile
from collections.abc import Iterator

from bert_tf.files import paths, shard_files, tables, text_lines
from bert_tf.text import corpus, pydoc_corpus, text_config

# Longer documents of running text are cut, to bound the memory.
_MAX_DOCUMENT_CHARS = 1 << 20

_SNIFFED_BYTES = 1 << 16

# A line end between two characters of scripts without spaces.
_LINE_END_WITHOUT_SPACE = re.compile(
  "(?<=[\u0e00-\u0eff\u2e80-\ua4cf\uf900-\ufaff\uff00-\uffef])\n"
  "(?=[\u0e00-\u0eff\u2e80-\ua4cf\uf900-\ufaff\uff00-\uffef])"
)

# The beginning of a line that is a JSON object.
_JSON = re.compile(rb'\{\s*"[^"\n]*"\s*:')


@dataclasses.dataclass(frozen=True)
class InputFile:
  """A file to read."""

  path: str
  input_format: str  # A format of text_config, except AUTO.


def find_files(
  patterns: str,
  config: text_config.TextConfig | None = None,
  plain_format: str = text_config.LINES,
  pydoc_packages: str = "",
) -> list[InputFile]:
  """Returns the files that the patterns name, a glob's files sorted.

  The patterns are files and globs, separated by commas. `pydoc` stands for the
  documentation of the running Python and of `pydoc_packages`, in a temporary
  file; write `./pydoc` for a file. With AUTO, the default of `config`, the
  content and name of a file tell its format, or else it is the `plain_format`.
  """
  names, packages = (
    [name.strip() for name in value.split(",") if name.strip()]
    for value in (patterns, pydoc_packages)
  )
  if not names:
    raise ValueError("no input files are given; give files, globs or pydoc.")
  config = config or text_config.TextConfig()
  files = []
  for name in names:
    if name == "pydoc":
      temporary = tempfile.TemporaryDirectory(prefix="bert_tf_pydoc_")
      atexit.register(temporary.cleanup)
      path = os.path.join(temporary.name, "pydoc.txt")
      corpus.write_documents(path, pydoc_corpus.read_documents(packages))
      files.append(InputFile(path, text_config.LINES))
      continue
    matches = shard_files.expand(name)
    if not matches:
      raise ValueError(f"{name} matches no file.")
    for path in matches:
      if paths.is_folder(path):
        raise ValueError(f"{path} is a folder; try {path}/*.")
      if paths.is_file(path) and not paths.num_bytes(path):
        raise ValueError(f"{path} is empty (0 bytes).")
      files.append(InputFile(path, _detect_format(path, config, plain_format)))
  return files


def find_lines(patterns: str, pydoc_packages: str = "") -> list[str]:
  """Returns files of one sentence a line; see `find_files`.

  Raises ValueError for a file of another format.
  """
  files = find_files(patterns, pydoc_packages=pydoc_packages)
  for file in files:
    if file.input_format != text_config.LINES:
      raise ValueError(
        f"{file.path} is not plain text but {file.input_format}; convert it "
        "with build-corpus."
      )
  return [file.path for file in files]


def _detect_format(
  path: str, config: text_config.TextConfig, plain_format: str
) -> str:
  if config.input_format != text_config.AUTO:
    return config.input_format
  if not paths.is_file(path):
    return plain_format  # Reading a pipe would consume its content.
  with text_lines.open_decompressed(path) as reader:
    head = reader.read(_SNIFFED_BYTES)
  name = text_lines.without_suffix(os.path.basename(path).lower())
  start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
  if head.startswith(b"PAR1") or name.endswith(".parquet"):
    return text_config.PARQUET
  is_xml = start.startswith((b"<mediawiki", b"<?xml", b"<doc "))
  if is_xml or name.endswith(".xml"):
    raise ValueError(
      f"{path} is XML; extract its text first (see docs/corpora.md)."
    )
  if name.endswith((".jsonl", ".ndjson", ".json")) or _JSON.match(start):
    return text_config.JSONL
  return plain_format


def read_documents(
  source: InputFile,
  config: text_config.TextConfig,
  counts: collections.Counter[str],
) -> Iterator[str]:
  """Yields the documents of a file, a sentence or a paragraph a line.

  Blank documents are left out. `counts` receives the numbers of
  "documents_read" and of "blank" ones.
  """
  path, input_format = source.path, source.input_format
  texts: Iterator[str]
  if input_format == text_config.LINES:
    texts = map("\n".join, corpus.read_documents([path]))
  elif input_format in (text_config.JSONL, text_config.PARQUET):
    texts = _read_table(path, input_format, config.text_column)
  elif config.documents == "line":
    texts = filter(str.strip, text_lines.read_lines(path))
  elif config.documents == "blank_line":
    texts = _read_paragraphs(path)
  else:
    texts = _read_book(path)
  for text in texts:
    counts["documents_read"] += 1
    if text.strip():
      yield text
    else:
      counts["blank"] += 1


def _read_book(path: str) -> Iterator[str]:
  held: list[str] = []
  num_chars = 0
  for paragraph in _read_paragraphs(path):
    if held and num_chars + len(paragraph) > _MAX_DOCUMENT_CHARS:
      yield "\n".join(held)
      held, num_chars = [], 0
    held.append(paragraph)
    num_chars += len(paragraph)
  yield "\n".join(held)


def _read_paragraphs(path: str) -> Iterator[str]:
  """Yields the paragraphs between blank lines, each joined into one line.

  Cuts a paragraph longer than _MAX_DOCUMENT_CHARS.
  """
  held: list[str] = []
  num_chars = 0
  for line in itertools.chain(text_lines.read_lines(path), [""]):
    line = line.strip()
    if held and (not line or num_chars > _MAX_DOCUMENT_CHARS):
      text = "\n".join(held)
      yield _LINE_END_WITHOUT_SPACE.sub("", text).replace("\n", " ")
      held, num_chars = [], 0
    if line:
      held.append(line)
      num_chars += len(line)


def _read_table(path: str, input_format: str, column: str) -> Iterator[str]:
  table = tables.Table(path, input_format, (column,), {column: "text_column"})
  for line, row in tables.read_rows(table):
    try:
      yield tables.get_text(row, column, may_be_empty=True)
    except tables.BadRowError as error:
      raise ValueError(f"{path}:{line}: {error} (`text_column`).") from None
