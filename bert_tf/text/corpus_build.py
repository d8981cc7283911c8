"""Builds a corpus of one sentence per line from files of any format.

This process reads the input once, in order. Workers split groups of documents
into sentences, and this process writes them in the order of the input, so the
result does not depend on the number of workers.
"""

import atexit
import codecs
import collections
import contextlib
import dataclasses
import functools
import itertools
import os
import re
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence

import tqdm
from absl import logging

from bert_tf.files import (
  atomic,
  json_files,
  packages,
  paths,
  shard_files,
  tables,
  text_lines,
  worker_pool,
)
from bert_tf.text import corpus, pydoc_corpus, text_config

# Longer documents of running text are cut, to bound the memory.
_MAX_DOCUMENT_CHARS = 1 << 20

# A line end between two characters of scripts without spaces.
_LINE_END_WITHOUT_SPACE = re.compile(
  "(?<=[\u0e00-\u0eff\u2e80-\ua4cf\uf900-\ufaff\uff00-\uffef])\n"
  "(?=[\u0e00-\u0eff\u2e80-\ua4cf\uf900-\ufaff\uff00-\uffef])"
)

# Size in characters of a group of documents, which a worker holds in memory.
_GROUP_CHARS = 1 << 20


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
  names, documented = (
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
      corpus.write_documents(path, pydoc_corpus.read_documents(documented))
      files.append(InputFile(path, text_config.LINES))
      continue
    for path in shard_files.expand(name):
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
    head = reader.read(1 << 16)
  name = text_lines.without_suffix(os.path.basename(path).lower())
  if text_lines.name_format(head) == "Parquet" or name.endswith(".parquet"):
    return text_config.PARQUET
  start = head.removeprefix(codecs.BOM_UTF8).lstrip()
  marks = (b"<mediawiki", b"<?xml", b"<doc ")
  if start.startswith(marks) or name.endswith(".xml"):
    raise ValueError(
      f"{path} is XML; extract its text first (see docs/corpora.md)."
    )
  is_object = re.match(rb'\{\s*"[^"\n]*"\s*:', start)
  if name.endswith((".jsonl", ".ndjson", ".json")) or is_object:
    return text_config.JSONL
  return plain_format


def read_documents(
  source: InputFile, config: text_config.TextConfig
) -> Iterator[str]:
  """Yields the documents of a file, a sentence or a paragraph a line.

  A row of a table may be blank.
  """
  path, input_format, column = (
    source.path,
    source.input_format,
    config.text_column,
  )
  if input_format == text_config.LINES:
    return map("\n".join, corpus.read_documents([path]))
  if input_format in (text_config.JSONL, text_config.PARQUET):
    column = config.text_column
    table = tables.Table(path, input_format, (column,), {column: "text_column"})
    return tables.read(
      table, lambda _, row: tables.get_text(row, column, may_be_empty=True)
    )
  if config.documents == "line":
    return filter(str.strip, text_lines.read_lines(path))
  if config.documents == "blank_line":
    return _read_paragraphs(path)
  return _read_book(path)


def _read_book(path: str) -> Iterator[str]:
  held, num_chars = list[str](), 0
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
  held, num_chars = list[str](), 0
  for line in itertools.chain(text_lines.read_lines(path), [""]):
    line = line.strip()
    if held and (not line or num_chars > _MAX_DOCUMENT_CHARS):
      text = "\n".join(held)
      yield _LINE_END_WITHOUT_SPACE.sub("", text).replace("\n", " ")
      held, num_chars = [], 0
    if line:
      held.append(line)
      num_chars += len(line)


def build_corpus(
  config: text_config.TextConfig,
  inputs: Sequence[InputFile],
  output: text_config.Output,
  num_workers: int = 1,
) -> dict[str, int]:
  """Writes a corpus and its report; logs and returns the counts.

  The files appear when they are complete, the report last. `num_workers`
  processes split the text. The counts are those that are not 0 of documents,
  eval_documents, sentences and characters. Raises ValueError if a file would
  get no document.
  """
  started = time.monotonic()
  names = [output.output_file, *filter(None, [output.eval_output_file])]
  if len(set(map(os.path.realpath, names))) < len(names):
    raise ValueError(
      f"{output.output_file} cannot hold both splits. Name two files."
    )
  shard_files.check_output(names, (source.path for source in inputs))
  check_reading(inputs)
  with atomic.lock_file(output.output_file):
    with atomic.files(names) as unfinished:
      counts = _write_splits(config, inputs, output, unfinished, num_workers)
      paths.remove(output.report_file)
    report = {
      **dataclasses.asdict(config),
      **dataclasses.asdict(output),
      "input_file": [[s.path, s.input_format] for s in inputs],
      "counts": counts,
    }
    json_files.write(output.report_file, report)
  for name, count in counts.items():
    logging.info("%-28s %s", name.replace("_", " "), f"{count:,}")
  logging.info("%-28s %.1f s", "time", time.monotonic() - started)
  logging.info("Wrote %s.", ", ".join(names))
  is_text = any(s.input_format == text_config.TEXT for s in inputs)
  mean = counts["sentences"] / counts["documents"]
  if is_text and config.documents == "blank_line" and mean < 3:
    logging.warning(
      "A document has %.1f sentences on average. If blank lines end only "
      "paragraphs, use `documents=file`.",
      mean,
    )
  return counts


def _write_splits(
  config: text_config.TextConfig,
  inputs: Sequence[InputFile],
  output: text_config.Output,
  files: Sequence[str],
  num_workers: int,
) -> dict[str, int]:
  """Writes the training and the held-out documents; returns their counts."""
  fraction = output.eval_fraction if output.eval_output_file else 0.0
  split = functools.partial(_split, config.language)
  groups = worker_pool.run(split, _read_groups(config, inputs), num_workers)
  counts = collections.Counter[str]()
  with (
    contextlib.closing(groups),
    contextlib.ExitStack() as stack,
    tqdm.tqdm(desc="documents", unit="", unit_scale=True, disable=None) as bar,
  ):
    opened = map(text_lines.text_writer, files)
    writers = [stack.enter_context(writer) for writer in opened]
    for _, documents in groups:
      for lines in documents:
        is_eval = corpus.is_held_out(lines, fraction, output.random_seed)
        writers[is_eval].write("\n".join(lines) + "\n\n")
        counts["documents"] += 1
        counts["eval_documents"] += is_eval
        counts["sentences"] += len(lines)
        counts["characters"] += sum(map(len, lines))
      bar.update(len(documents))
  num_eval = counts["eval_documents"]
  num_train = counts["documents"] - num_eval
  if not counts["documents"]:
    raise ValueError(f"no document for {output.output_file}: blank text.")
  if output.eval_output_file and not (num_train and num_eval):
    raise ValueError(
      f"eval_fraction {output.eval_fraction} leaves {num_train} documents to "
      f"train on and {num_eval} to evaluate on."
    )
  return dict(+counts)


def check_reading(inputs: Sequence[InputFile]) -> None:
  """Raises ImportError if a package is missing that reads or splits."""
  formats = {source.input_format for source in inputs}
  if text_config.PARQUET in formats:
    tables.check_parquet_installed()
  if formats != {text_config.LINES}:
    with packages.needs_extra("splitting text into sentences", extra="corpus"):
      import sentencex  # noqa: F401


def _read_groups(
  config: text_config.TextConfig, inputs: Sequence[InputFile]
) -> Iterator[tuple[list[str], bool]]:
  """Yields groups of documents, large enough to be worth their transfer.

  Also yields whether each of their lines is a sentence.
  """
  for source in inputs:
    is_split = source.input_format == text_config.LINES
    group, num_chars = list[str](), 0
    for document in filter(str.strip, read_documents(source, config)):
      group.append(document)
      num_chars += len(document)
      if num_chars >= _GROUP_CHARS:
        yield group, is_split
        group, num_chars = [], 0
    yield group, is_split


def _split(language: str, group: tuple[list[str], bool]) -> list[list[str]]:
  """Returns the sentences of each document."""
  texts, is_split = group
  split = functools.partial(split_sentences, language)
  documents = []
  for text in texts:
    lines = list(filter(None, map(str.strip, text.split("\n"))))
    documents.append(
      lines if is_split else [*itertools.chain.from_iterable(map(split, lines))]
    )
  return documents


def split_sentences(language: str, paragraph: str) -> Iterator[str]:
  """Yields the sentences, each without line breaks. Skips empty ones.

  The language is a code such as en, de-AT or zh_Hans. Those without rules of
  their own get the rules of English, with the marks of all scripts.
  """
  import sentencex

  language = text_config.normalize_language(language).partition("-")[0]
  # Longer sentences are cut at a space. Lao and Thai do not mark the end of a
  # sentence; a space ends a clause, and some clauses count as a sentence.
  max_chars = 120 if language in ("lo", "th") else 1000
  for piece in sentencex.segment(language, paragraph):
    sentence = " ".join(piece.split())
    if len(sentence) > max_chars:
      yield from textwrap.wrap(
        sentence, max_chars, break_long_words=False, break_on_hyphens=False
      )
    elif sentence:
      yield sentence
