"""Reads the input of a corpus once, in order, and writes it in parts."""

import collections
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from bert_tf.corpora import corpus_filters, corpus_parts, sources, text_config
from bert_tf.files import atomic, json_files, paths

# A part of the input, which one worker has in memory.
PART_CHARS = 1 << 23


class Reader:
  """Reads the input in parts; knows them again when it has been read."""

  def __init__(
    self,
    config: text_config.TextConfig,
    inputs: Sequence[sources.Source],
    part: Callable[[int], corpus_parts.Part],
    work_dir: str,
  ) -> None:
    """Remembers what to read.

    Args:
      config: what the input is.
      inputs: the files.
      part: returns the part of an index.
      work_dir: the folder of the parts.
    """
    self._config = config
    self._inputs = inputs
    # Written when all is read: {"num_parts", "counts"}.
    self._note = os.path.join(work_dir, "read.json")
    self._part = part

  def unfinished_parts(self) -> Iterator[corpus_parts.Part]:
    """Yields parts to build when they are read."""
    if paths.exists(self._note):
      parts = self.parts()
      yield from (p for p in parts if not corpus_parts.is_finished(p))
      return
    counts: collections.Counter[str] = collections.Counter()
    num_parts = 0
    for documents in _grouped(self._documents(counts)):
      part = self._part(num_parts)
      num_parts += 1
      if not corpus_parts.is_finished(part):
        corpus_parts.write_raw(part, documents)
        yield part
    note = {"num_parts": num_parts, "counts": counts}
    atomic.write(self._note, [json.dumps(note)])

  def parts(self) -> list[corpus_parts.Part]:
    """Returns all parts, after the input has been read."""
    note = self._read_note()
    return [self._part(index) for index in range(note["num_parts"])]

  def _read_note(self) -> dict[str, Any]:
    types = {"num_parts": int, "counts": dict[str, int]}
    return json_files.read_object(self._note, types, tuple(types))

  def total_counts(self) -> collections.Counter[str]:
    """Returns the sums of what was counted, after all parts are built."""
    note = self._read_note()
    total = collections.Counter(note["counts"])
    for part in self.parts():
      total.update(corpus_parts.read_counts(part))
    return total

  def _documents(
    self, counts: collections.Counter[str]
  ) -> Iterator[sources.Document]:
    """Yields the documents of all files, without copies if so wanted."""
    config = self._config
    duplicates = corpus_filters.Duplicates()
    for source in self._inputs:
      for document in sources.read(source, config, counts):
        if config.drop_duplicates and not duplicates.is_new(document.text):
          counts["duplicates"] += 1
        else:
          yield document


def _grouped(
  documents: Iterable[sources.Document],
) -> Iterator[list[sources.Document]]:
  """Yields documents in lists of about PART_CHARS characters."""
  held = []
  num_chars = 0
  for document in documents:
    held.append(document)
    num_chars += len(document.text)
    if num_chars >= PART_CHARS:
      yield held
      held, num_chars = [], 0
  if held:
    yield held
