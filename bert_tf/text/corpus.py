"""Reads and writes corpora: text files, also .gz and .bz2, and their shards.

A corpus has one sentence per line and a blank line between documents, as in
the 2018 release. The end of a file does not end a document. Only a newline ends
a line; carriage returns are dropped, as TensorFlow's readline does, which the
release used. A line is blank if `str.strip` leaves nothing.
"""

import array
import bisect
import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence

from bert_tf.files import atomic, text_lines


@dataclasses.dataclass(frozen=True)
class Span:
  """Consecutive whole lines of one file."""

  path: str
  start: int  # Offset of its first byte, after decompression.
  end: int  # Offset after its last byte, after decompression.


@dataclasses.dataclass(frozen=True)
class Shard:
  """Consecutive whole documents. Can be read without the rest of the corpus."""

  index: int  # Number of the shard, from 0.
  num_documents: int  # At least 1.
  spans: tuple[Span, ...]


def write_documents(path: str, documents: Iterable[Sequence[str]]) -> int:
  """Writes documents, one sentence per line; returns their number.

  Without any, it raises ValueError and writes nothing.
  """
  count = 0
  with (
    atomic.file(path) as unfinished,
    text_lines.text_writer(unfinished) as writer,
  ):
    for document in documents:
      writer.write("\n".join(document) + "\n\n")
      count += 1
    if not count:
      raise ValueError(f"no document for {path}: the text is blank.")
  return count


def is_held_out(document: Sequence[str], fraction: float, seed: int) -> bool:
  """Returns whether a document is held out for evaluation.

  A hash of `seed` and the text selects about `fraction` of all documents, so
  copies of a document are in the same split.
  """
  text = "\n".join([str(seed), *document]).encode()
  digest = hashlib.blake2b(text, digest_size=8).digest()
  return int.from_bytes(digest, "big") / 2**64 < fraction


def read_documents(paths: Sequence[str]) -> Iterator[list[str]]:
  """Yields each document as a list of its lines, stripped and not blank."""
  return _group_lines(text_lines.read_lines(*paths))


def _group_lines(lines: Iterable[str]) -> Iterator[list[str]]:
  document: list[str] = []
  for line in lines:
    line = line.strip()
    if line:
      document.append(line)
    elif document:
      yield document
      document = []
  if document:
    yield document


def plan_shards(paths: Sequence[str], num_shards: int) -> list[Shard]:
  """Divides a corpus into shards of whole documents and about equal size.

  Every file is read once, and a document takes eight bytes of memory. The
  shards hold the documents of `read_documents(paths)`, in the same order.
  Raises ValueError if `num_shards` is below 1 or above the number of documents.
  """
  starts = array.array("q")  # In the concatenated files.
  sizes: list[int] = []  # Of the files.
  follows_blank = True
  for path in paths:
    offset, size = sum(sizes), 0
    for end, line in text_lines.read_lines_from(path, 0):
      is_blank = not line.strip()
      if follows_blank and not is_blank:
        starts.append(offset + size)
      follows_blank, size = is_blank, end
    sizes.append(size)
  if not 1 <= num_shards <= len(starts):
    raise ValueError(
      f"num_shards {num_shards} must be from 1 to the {len(starts)} documents "
      "of the input; a blank line ends a document."
    )
  total = sum(sizes)
  firsts = [0]
  for shard in range(1, num_shards):
    goal = total * shard // num_shards
    after = bisect.bisect_left(starts, goal)
    around = [i for i in (after, after - 1) if 0 <= i < len(starts)]
    nearest = min(around, key=lambda i: abs(starts[i] - goal))
    last_allowed = len(starts) - (num_shards - shard)
    firsts.append(min(max(nearest, firsts[-1] + 1), last_allowed))
  shards = []
  bounds = itertools.pairwise([*firsts, len(starts)])
  for index, (first, last) in enumerate(bounds):
    end = starts[last] if last < len(starts) else total
    spans, offset = [], 0
    for path, size in zip(paths, sizes):
      start, stop = max(starts[first] - offset, 0), min(end - offset, size)
      if start < stop:
        spans.append(Span(path, start, stop))
      offset += size
    shards.append(Shard(index, last - first, tuple(spans)))
  return shards


def read_shard(shard: Shard) -> Iterator[list[str]]:
  """Yields the documents of one shard; see `read_documents`."""

  def read_lines() -> Iterator[str]:
    for span in shard.spans:
      for end, line in text_lines.read_lines_from(span.path, span.start):
        yield line
        if end >= span.end:
          break
      else:
        raise ValueError(f"{span.path} became shorter during the run.")

  return _group_lines(read_lines())
