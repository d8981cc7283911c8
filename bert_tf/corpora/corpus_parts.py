"""Reads a corpus in parts and builds each part: filters, then sentences.

A worker holds one part in memory at a time. The reader writes the documents of
each part to a file. A worker turns it into the text, the held-out text and the
counts.
"""

import collections
import dataclasses
import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from bert_tf.corpora import (
  corpus,
  corpus_filters,
  near_duplicates,
  sentences,
  sources,
  text_config,
)
from bert_tf.files import atomic, json_files, paths, text_lines

DISTINCT = "distinct."

# Size of a part in characters. A worker holds one part in memory.
PART_CHARS = 1 << 23


@dataclasses.dataclass(frozen=True)
class Part:
  """Consecutive documents of the input."""

  index: int
  work_dir: str  # The folder of all parts.
  config: text_config.TextConfig
  eval_fraction: float  # Share of held-out documents, [0, 1).
  random_seed: int  # Chooses the held-out documents.
  stage: str = ""  # DISTINCT for the files without near-duplicates.

  def __str__(self) -> str:
    return f"part {self.index} of the text"

  @property
  def raw_file(self) -> str:
    """Path of the documents as read: one `sources.Document` per line, as JSON.

    Removed when the part is built.
    """
    return self._file("raw.jsonl")

  @property
  def text_file(self) -> str:
    """Path of the training text, one sentence per line."""
    return self._file("txt")

  @property
  def eval_file(self) -> str:
    """Path of the held-out text, one sentence per line."""
    return self._file("eval.txt")

  @property
  def sketches_file(self) -> str:
    """Path of the sketches: [is held out, sketch] as JSON per document."""
    return self._file("sketches.jsonl")

  @property
  def counts_file(self) -> str:
    """Path of the counts as JSON. Written after the texts."""
    return self._file("json")

  @property
  def distinct(self) -> "Part":
    """The part without near-duplicates, written by `drop_near_duplicates`."""
    return dataclasses.replace(self, stage=DISTINCT)

  def _file(self, suffix: str) -> str:
    name = f"{self.index:05d}.{self.stage}{suffix}"
    return os.path.join(self.work_dir, name)


def is_finished(part: Part) -> bool:
  """Returns whether a part is built."""
  files = [part.counts_file]
  if part.config.near_duplicate_similarity:
    files.append(part.sketches_file)
  return all(map(paths.exists, files))


def write_raw(part: Part, documents: Iterable[sources.Document]) -> None:
  """Writes the documents for the worker that builds the part."""
  rows = (json.dumps(dataclasses.astuple(document)) for document in documents)
  atomic.write_lines(part.raw_file, rows)


def build(part: Part, report: Callable[[int], None]) -> None:
  """Builds a part in a worker and removes its raw file.

  Does nothing if the part is finished.

  Args:
    part: the part. Its documents have been written.
    report: called with 1 for each document.

  Raises:
    ChildProcessError: if a document cannot be split into sentences. Not a
      ValueError, after which the caller discards all parts.
  """
  if is_finished(part):  # Beam may run a task twice.
    return
  counts: collections.Counter[str] = collections.Counter()
  documents = _mark_held_out(part, _documents(part, counts, report))
  try:
    if part.config.near_duplicate_similarity:
      with (
        atomic.file(part.sketches_file) as path,
        _open_text(path) as sketches,
      ):
        _write(part, _write_sketches(part, documents, sketches), counts)
    else:
      _write(part, documents, counts)
  except ValueError as error:
    raise ChildProcessError(
      f"{part}, {part.raw_file}, cannot be split into sentences ({error}); "
      "`resume` reuses the finished parts."
    ) from error
  paths.remove(part.raw_file)


def drop_near_duplicates(parts: Sequence[Part]) -> collections.Counter[str]:
  """Writes the finished parts again, in order, without near-duplicates.

  Returns:
    The changes to add to the total counts.
  """
  changes: collections.Counter[str] = collections.Counter()
  if not parts:
    return changes
  similarity = parts[0].config.near_duplicate_similarity
  seen = near_duplicates.NearDuplicates(similarity, parts[0].random_seed)
  for part in parts:
    counts = read_counts(part)
    distinct = _select_distinct(part, seen, counts)
    _write(part.distinct, distinct, counts)
    changes.update(counts)
    changes.subtract(read_counts(part))
  return changes


def _write(
  part: Part,
  documents: Iterable[tuple[bool, list[str]]],
  counts: collections.Counter[str],
) -> None:
  """Writes the training and held-out text of a part, then its counts.

  Sets the count "eval_documents". The iterator `documents` sets the others.
  """
  targets = [part.text_file, part.eval_file, part.counts_file]
  with atomic.files(targets) as (text_file, eval_file, counts_file):
    counts["eval_documents"] = 0
    with _open_text(text_file) as text, _open_text(eval_file) as held_out:
      for is_held_out, lines in documents:
        counts["eval_documents"] += is_held_out
        writer = held_out if is_held_out else text
        writer.write("\n".join(lines) + "\n\n")
    with _open_text(counts_file) as writer:
      json.dump(counts, writer)


def _open_text(path: str) -> TextIO:
  return open(path, "w", encoding="utf-8", newline="\n")


def _mark_held_out(
  part: Part, documents: Iterable[list[str]]
) -> Iterator[tuple[bool, list[str]]]:
  """Yields (whether the document is held out, the document)."""
  for lines in documents:
    fraction, seed = part.eval_fraction, part.random_seed
    yield corpus.is_held_out(lines, fraction, seed), lines


def _write_sketches(
  part: Part, documents: Iterable[tuple[bool, list[str]]], sketches: TextIO
) -> Iterator[tuple[bool, list[str]]]:
  for is_held_out, lines in documents:
    sketch = near_duplicates.sketch(lines, part.random_seed)
    sketches.write(json.dumps([is_held_out, sketch]) + "\n")
    yield is_held_out, lines


def _select_distinct(
  part: Part,
  seen: near_duplicates.NearDuplicates,
  counts: collections.Counter[str],
) -> Iterator[tuple[bool, list[str]]]:
  """Yields a finished part's new documents; updates the counts for the rest."""
  text = corpus.documents([part.text_file])
  held_out = corpus.documents([part.eval_file])
  for row in text_lines.read_lines(part.sketches_file):
    is_held_out, sketch = json_files.parse(row, part.sketches_file)
    lines = next(held_out if is_held_out else text)
    if seen.is_new(sketch):
      yield is_held_out, lines
      continue
    counts["near_duplicates"] += 1
    counts["documents"] -= 1
    counts["sentences"] -= len(lines)
    counts["characters"] -= sum(map(len, lines))


def read_counts(part: Part) -> collections.Counter[str]:
  """Returns the counts of a finished part."""
  return collections.Counter(json_files.read_object(part.counts_file))


def _documents(
  part: Part, counts: collections.Counter[str], report: Callable[[int], None]
) -> Iterator[list[str]]:
  """Yields documents that pass the filters, as sentences; updates counts."""
  config = part.config
  raw = [
    # A third value is of an earlier version.
    sources.Document(*json_files.parse(line, part.raw_file)[:2])
    for line in text_lines.read_lines(part.raw_file)
  ]
  texts = []
  for document in raw:
    texts.append(
      [line.strip() for line in document.text.split("\n") if line.strip()]
    )
    report(1)
  texts = corpus_filters.without_repeated_lines(
    texts, config.max_line_repeats, counts
  )
  for document, lines in zip(raw, texts):
    reason = corpus_filters.reason_to_drop(lines, config)
    if reason:
      counts[reason] += 1
      continue
    if not document.is_split:
      splitter = _load_splitter(config.language)
      lines = [s for line in lines for s in splitter.split(line)]
    counts["documents"] += 1
    counts["sentences"] += len(lines)
    counts["characters"] += sum(map(len, lines))
    yield lines


@functools.lru_cache(maxsize=1)
def _load_splitter(language: str) -> sentences.Splitter:
  return sentences.Splitter(language)


class Reader:
  """Reads the input in parts. A resumed run reads it only if needed."""

  def __init__(
    self,
    config: text_config.TextConfig,
    inputs: Sequence[sources.InputFile],
    part: Callable[[int], Part],
    work_dir: str,
  ) -> None:
    """Makes a reader.

    Args:
      config: input format and filters.
      inputs: the files to read.
      part: returns the part with a given index.
      work_dir: the folder of the parts.
    """
    self._config = config
    self._inputs = inputs
    # Written when the whole input has been read: {"num_parts", "counts"}.
    self._note = os.path.join(work_dir, "read.json")
    self._part = part

  def unfinished_parts(self) -> Iterator[Part]:
    """Yields each part to build, after its documents have been written."""
    if paths.exists(self._note):
      parts = self.parts()
      yield from (p for p in parts if not is_finished(p))
      return
    counts: collections.Counter[str] = collections.Counter()
    num_parts = 0
    for documents in _group_documents(self._documents(counts)):
      part = self._part(num_parts)
      num_parts += 1
      if not is_finished(part):
        write_raw(part, documents)
        yield part
    note = {"num_parts": num_parts, "counts": counts}
    atomic.write(self._note, [json.dumps(note)])

  def parts(self) -> list[Part]:
    """Returns all parts. Call it after the input has been read."""
    note = self._read_note()
    return [self._part(index) for index in range(note["num_parts"])]

  def _read_note(self) -> dict[str, Any]:
    types = {"num_parts": int, "counts": dict[str, int]}
    return json_files.read_object(self._note, types, tuple(types))

  def total_counts(self) -> collections.Counter[str]:
    """Returns the total counts. Call it after all parts are built."""
    note = self._read_note()
    total = collections.Counter(note["counts"])
    for part in self.parts():
      total.update(read_counts(part))
    return total

  def _documents(
    self, counts: collections.Counter[str]
  ) -> Iterator[sources.Document]:
    """Yields the documents of all files, without copies if configured."""
    config = self._config
    duplicates = corpus_filters.Duplicates()
    for source in self._inputs:
      for document in sources.read(source, config, counts):
        if config.drop_duplicates and not duplicates.is_new(document.text):
          counts["duplicates"] += 1
        else:
          yield document


def _group_documents(
  documents: Iterable[sources.Document],
) -> Iterator[list[sources.Document]]:
  """Groups documents into lists of consecutive ones.

  Each list except the last has at least PART_CHARS characters.
  """
  group = []
  num_chars = 0
  for document in documents:
    group.append(document)
    num_chars += len(document.text)
    if num_chars >= PART_CHARS:
      yield group
      group, num_chars = [], 0
  if group:
    yield group
