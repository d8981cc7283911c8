"""Builds a corpus of one sentence per line from files of any format.

This process reads the input once, in order. Workers split groups of documents
into sentences, and this process writes them in the order of the input, so the
result does not depend on the number of workers.
"""

import collections
import contextlib
import dataclasses
import functools
import glob
import os
import time
from collections.abc import Iterator, Sequence

import tqdm
from absl import logging

from bert_tf.files import (
  atomic,
  json_files,
  lock,
  paths,
  shard_files,
  tables,
  text_lines,
  worker_pool,
)
from bert_tf.text import corpus, sentences, sources, text_config

# Size in characters of a group of documents, which a worker holds in memory.
_GROUP_CHARS = 1 << 20


def build_corpus(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  output: text_config.Output,
  num_workers: int = 1,
) -> dict[str, int]:
  """Writes a corpus and its report; logs and returns the counts.

  The files appear when they are complete, the report last. `num_workers`
  processes split the text. The counts are those that are not 0: documents_read,
  those that are blank, and the documents, eval_documents, sentences and
  characters that were written. Raises ValueError if a file would get no
  document.
  """
  started = time.monotonic()
  names = [output.output_file, *filter(None, [output.eval_output_file])]
  if len(set(map(os.path.realpath, names))) < len(names):
    raise ValueError(
      f"{output.output_file} cannot hold both splits. Name two files."
    )
  shard_files.check_output(names, (source.path for source in inputs))
  check_reading(inputs)
  counts: collections.Counter[str] = collections.Counter()
  with lock.hold_file(output.output_file):
    for name in names:
      atomic.remove_unfinished(glob.escape(name))  # Of a killed process.
    with atomic.files(names) as unfinished:
      _write_texts(config, inputs, output, num_workers, unfinished, counts)
      num_eval = counts["eval_documents"]
      num_train = counts["documents"] - num_eval
      if not counts["documents"]:
        raise ValueError(f"no document for {output.output_file}: blank text.")
      if output.eval_output_file and not (num_train and num_eval):
        raise ValueError(
          f"eval_fraction {output.eval_fraction} leaves {num_train} documents "
          f"to train on and {num_eval} to evaluate on."
        )
      paths.remove(output.report_file)
    result = {name: count for name, count in counts.items() if count}
    report = {
      **dataclasses.asdict(config),
      **dataclasses.asdict(output),
      "input_file": [[s.path, s.input_format] for s in inputs],
      "counts": result,
    }
    json_files.write(output.report_file, report)
  for name, count in result.items():
    logging.info("%-28s %s", name.replace("_", " "), f"{count:,}")
  logging.info("%-28s %.1f s", "time", time.monotonic() - started)
  logging.info("Wrote %s.", ", ".join(names))
  is_text = any(s.input_format == text_config.TEXT for s in inputs)
  mean = result["sentences"] / result["documents"]
  if is_text and config.documents == "blank_line" and mean < 3:
    logging.warning(
      "A document has %.1f sentences on average. If blank lines end only "
      "paragraphs, use `documents=file`.",
      mean,
    )
  return result


def check_reading(inputs: Sequence[sources.InputFile]) -> None:
  """Raises ImportError if a package is missing that reads or splits."""
  formats = {source.input_format for source in inputs}
  if text_config.PARQUET in formats:
    tables.check_parquet_installed()
  if formats != {text_config.LINES}:
    sentences.check_installed()


# Documents of a file, and whether each of their lines is a sentence.
_Group = tuple[list[str], bool]


def _read_groups(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  counts: collections.Counter[str],
) -> Iterator[_Group]:
  """Yields groups of documents, large enough to be worth their transfer."""
  for source in inputs:
    is_split = source.input_format == text_config.LINES
    group: list[str] = []
    num_chars = 0
    for document in sources.read_documents(source, config, counts):
      group.append(document)
      num_chars += len(document)
      if num_chars >= _GROUP_CHARS:
        yield group, is_split
        group, num_chars = [], 0
    yield group, is_split


def _split(language: str, group: _Group) -> list[list[str]]:
  """Returns the sentences of each document."""
  texts, is_split = group
  documents = []
  for text in texts:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not is_split:
      split = functools.partial(sentences.split_sentences, language)
      lines = [sentence for line in lines for sentence in split(line)]
    documents.append(lines)
  return documents


def _write_texts(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  output: text_config.Output,
  num_workers: int,
  unfinished: Sequence[str],
  counts: collections.Counter[str],
) -> None:
  """Writes sentences to the train file and, if there is one, the eval file."""
  names = [output.output_file, output.eval_output_file or ""]
  fraction = output.eval_fraction if output.eval_output_file else 0.0
  groups = _read_groups(config, inputs, counts)
  split = functools.partial(_split, config.language)
  with contextlib.ExitStack() as stack:
    results = worker_pool.run(split, groups, num_workers)
    stack.enter_context(contextlib.closing(results))
    writers = [
      stack.enter_context(text_lines.text_writer(path, name))
      for path, name in zip(unfinished, names)
    ]
    bar = stack.enter_context(
      tqdm.tqdm(desc="documents", unit="", unit_scale=True, disable=None)
    )
    for _, documents in results:
      for lines in documents:
        is_held_out = corpus.is_held_out(lines, fraction, output.random_seed)
        writers[is_held_out].write("\n".join(lines) + "\n\n")
        counts["documents"] += 1
        counts["eval_documents"] += is_held_out
        counts["sentences"] += len(lines)
        counts["characters"] += sum(map(len, lines))
      bar.update(len(documents))
