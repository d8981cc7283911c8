"""Reads a corpus in parts and splits the documents of each into sentences.

A worker holds one part in memory at a time. The reader writes the documents of
each part to a file. A worker turns it into the text, the held-out text and the
counts.
"""

import collections
import dataclasses
import functools
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from bert_tf.corpora import (
  corpus,
  sentences,
  sources,
  text_config,
)
from bert_tf.files import atomic, json_files, paths, text_lines

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
  def counts_file(self) -> str:
    """Path of the counts as JSON. Written after the texts."""
    return self._file("json")

  def _file(self, suffix: str) -> str:
    return os.path.join(self.work_dir, f"{self.index:05d}.{suffix}")


def is_finished(part: Part) -> bool:
  """Returns whether a part is built."""
  return paths.exists(part.counts_file)


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
  targets = [part.text_file, part.eval_file, part.counts_file]
  try:
    with (
      atomic.files(targets) as (text_file, eval_file, counts_file),
      _open_text(text_file) as text,
      _open_text(eval_file) as held_out,
      _open_text(counts_file) as counts_writer,
    ):
      for lines in _documents(part):
        is_held_out = corpus.is_held_out(
          lines, part.eval_fraction, part.random_seed
        )
        writer = held_out if is_held_out else text
        writer.write("\n".join(lines) + "\n\n")
        counts["documents"] += 1
        counts["eval_documents"] += is_held_out
        counts["sentences"] += len(lines)
        counts["characters"] += sum(map(len, lines))
        report(1)
      json.dump(counts, counts_writer)
  except ValueError as error:
    raise ChildProcessError(
      f"{part}, {part.raw_file}, cannot be split into sentences ({error}); "
      "`resume` reuses the finished parts."
    ) from error
  paths.remove(part.raw_file)


def _open_text(path: str) -> TextIO:
  return open(path, "w", encoding="utf-8", newline="\n")


def _documents(part: Part) -> Iterator[list[str]]:
  """Yields the documents of a part, each as a list of sentences."""
  for row in text_lines.read_lines(part.raw_file):
    # A third value is of an earlier version.
    document = sources.Document(*json_files.parse(row, part.raw_file)[:2])
    lines = [line.strip() for line in document.text.split("\n")]
    lines = [line for line in lines if line]
    if not document.is_split:
      splitter = _load_splitter(part.config.language)
      lines = [s for line in lines for s in splitter.split(line)]
    yield lines


@functools.lru_cache(maxsize=1)
def _load_splitter(language: str) -> sentences.Splitter:
  return sentences.Splitter(language)


class Reader:
  """Reads the input in parts. A resumed run reads it only if needed."""

  def __init__(
    self, inputs: Sequence[sources.InputFile], first_part: Part
  ) -> None:
    self._inputs = inputs
    self._first_part = first_part
    # Written when the whole input has been read: {"num_parts", "counts"}.
    self._note = os.path.join(first_part.work_dir, "read.json")

  def unfinished_parts(self) -> Iterator[Part]:
    """Yields each part to build, after its documents have been written."""
    if paths.exists(self._note):
      yield from (p for p in self.parts() if not is_finished(p))
      return
    counts: collections.Counter[str] = collections.Counter()
    num_parts = 0
    text = itertools.chain.from_iterable(
      sources.read(source, self._first_part.config, counts)
      for source in self._inputs
    )
    for documents in _group_documents(text):
      part = dataclasses.replace(self._first_part, index=num_parts)
      num_parts += 1
      if not is_finished(part):
        write_raw(part, documents)
        yield part
    note = {"num_parts": num_parts, "counts": counts}
    atomic.write(self._note, [json.dumps(note)])

  def parts(self) -> list[Part]:
    """Returns all parts. Call it after the input has been read."""
    return [
      dataclasses.replace(self._first_part, index=index)
      for index in range(self._read_note()["num_parts"])
    ]

  def total_counts(self) -> collections.Counter[str]:
    """Returns the total counts. Call it after all parts are built."""
    total = collections.Counter(self._read_note()["counts"])
    for part in self.parts():
      total.update(json_files.read_object(part.counts_file))
    return total

  def _read_note(self) -> dict[str, Any]:
    types = {"num_parts": int, "counts": dict[str, int]}
    return json_files.read_object(self._note, types, tuple(types))


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
