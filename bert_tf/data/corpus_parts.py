"""Builds one part of a corpus: documents as they were read, to sentences.

A part is all that is in memory at a time. The reader writes its documents to a
file; a worker makes of it the text, what is held out, and the counts.
"""

import collections
import dataclasses
import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator

from bert_tf.data import (
  corpus,
  corpus_filters,
  sentences,
  sources,
  text_config,
  wikitext,
)
from bert_tf.files import atomic, paths


@dataclasses.dataclass(frozen=True)
class Part:
  """Consecutive documents of the input."""

  index: int
  work_dir: str  # The folder of its files.
  config: text_config.TextConfig
  eval_fraction: float  # Share of the documents that is held out, [0, 1).
  random_seed: int  # Chooses these.

  def __str__(self) -> str:
    return f"part {self.index} of the text"

  @property
  def raw_file(self) -> str:
    """The documents as they were read, a JSON array each."""
    return self._file("raw.jsonl")

  @property
  def text_file(self) -> str:
    """The sentences."""
    return self._file("txt")

  @property
  def eval_file(self) -> str:
    """The sentences of documents that are held out."""
    return self._file("eval.txt")

  @property
  def counts_file(self) -> str:
    """What was counted; it is there when the part is finished."""
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
  """Builds a part that is not finished, in a worker.

  `report` is called with numbers of documents.
  """
  if is_finished(part):  # Beam may run a task twice.
    return
  counts: collections.Counter[str] = collections.Counter()
  targets = [part.text_file, part.eval_file, part.counts_file]
  with atomic.files(targets) as (text_file, eval_file, counts_file):
    with (
      open(text_file, "w", encoding="utf-8", newline="\n") as text,
      open(eval_file, "w", encoding="utf-8", newline="\n") as held_out,
    ):
      for document in _documents(part, counts, report):
        is_held_out = corpus.is_held_out(
          document, part.eval_fraction, part.random_seed
        )
        counts["eval_documents"] += is_held_out
        writer = held_out if is_held_out else text
        writer.write("\n".join(document) + "\n\n")
    with open(counts_file, "w", encoding="utf-8") as writer:
      json.dump(counts, writer)
  paths.remove(part.raw_file)


def read_counts(part: Part) -> collections.Counter[str]:
  """Returns what was counted in a finished part."""
  return collections.Counter(json.loads(paths.read_text(part.counts_file)))


def _documents(
  part: Part, counts: collections.Counter[str], report: Callable[[int], None]
) -> Iterator[list[str]]:
  """Yields the documents that are kept, as sentences."""
  config = part.config
  raw = [
    sources.Document(*json.loads(line))
    for line in corpus.read_lines(part.raw_file)
  ]
  texts = []
  for document in raw:
    texts.append(_lines(document))
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
      splitter = _splitter(config.language)
      lines = [s for line in lines for s in splitter.split(line)]
    counts["documents"] += 1
    counts["sentences"] += len(lines)
    counts["characters"] += sum(map(len, lines))
    yield lines


def _lines(document: sources.Document) -> list[str]:
  """Returns the lines of a document that are not blank."""
  text = document.text
  if document.hidden_namespaces is not None:
    text = wikitext.plain_text(text, document.hidden_namespaces)
  return [line.strip() for line in text.split("\n") if line.strip()]


@functools.lru_cache(maxsize=1)
def _splitter(language: str) -> sentences.Splitter:
  """Returns the splitter, loaded once in a process."""
  return sentences.Splitter(language)
