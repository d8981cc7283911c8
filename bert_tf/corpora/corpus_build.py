"""Builds a corpus of one sentence per line from files of any format.

This process reads the input once, in order. Workers split groups of documents
into sentences, and this process writes them in the order of the input, so the
result does not depend on the number of workers.
"""

import collections
import contextlib
import dataclasses
import functools
import importlib.metadata
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tqdm
from absl import logging

from bert_tf.corpora import corpus, sentences, sources, text_config
from bert_tf.files import atomic, lock, paths, shard_files, worker_pool
from bert_tf.formats import parquet

# Size in characters of a group of documents, which a worker holds in memory.
_GROUP_CHARS = 1 << 20


def create(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  output: text_config.Output,
  num_workers: int = 1,
  resume: bool = False,
) -> dict[str, int]:
  """Writes a corpus and its report; logs and returns the counts.

  Each file appears when it is complete, the report last. The disk needs room
  for twice the text. `num_workers` processes split it. `resume` keeps a
  complete corpus of the same settings. The counts are those that are not 0:
  documents_read, those that are blank, and the documents, eval_documents,
  sentences and characters that were written. Raises ValueError if a file would
  get no document, or the corpus to keep has other settings.
  """
  started = time.monotonic()
  names = [*output.files, *filter(None, [output.eval_output_file])]
  if output.eval_output_file and not 0 < output.eval_fraction < 1:
    raise ValueError(
      f"eval_fraction {output.eval_fraction} must be between 0 and 1."
    )
  if len(set(map(os.path.realpath, names))) < len(names):
    raise ValueError(
      f"{output.output_file} cannot hold both splits. Name two files."
    )
  shard_files.check_output(names, (source.path for source in inputs))
  check_reading(config, inputs)
  settings: dict[str, Any] = {
    **dataclasses.asdict(config),
    "input_file": [
      [
        os.path.basename(s.path),
        s.input_format,
        # A pipe can be read only once.
        paths.sha256(s.path) if paths.is_file(s.path) else None,
      ]
      for s in inputs
    ],
    "num_shards": output.num_shards,
    "eval_fraction": output.eval_fraction,
    "random_seed": output.random_seed,
    "eval_output_file": os.path.basename(output.eval_output_file or ""),
  }
  with lock.hold_file(output.output_file):
    if resume and paths.exists(output.report_file):
      shard_files.check_same_settings(settings, output.report_file)
      if all(map(paths.exists, names)):
        logging.info("%s is complete.", output.output_file)
        return shard_files.read_settings(output.report_file)["counts"]
    counts: collections.Counter[str] = collections.Counter()
    with atomic.hidden_folder(f"{output.output_file}.text") as folder:
      texts = [os.path.join(folder, name) for name in ("train.txt", "eval.txt")]
      groups = _read_groups(config, inputs, counts)
      split = functools.partial(_split, config.language)
      with contextlib.closing(
        worker_pool.run(split, groups, num_workers)
      ) as results:
        _write_texts(results, texts, output, counts)
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
      shards = corpus.plan_shards(texts[:1], output.num_shards)
      if len(shards) > 1:
        # Shards of two corpora would look like a complete one.
        for name in output.files:
          paths.remove(name)
      for name, shard in zip(output.files, shards):
        corpus.write_documents(name, corpus.shard_documents(shard))
      if held_out := output.eval_output_file:
        corpus.write_documents(held_out, corpus.documents(texts[1:]))
    if any(s.input_format != text_config.LINES for s in inputs):
      settings["sentencex"] = importlib.metadata.version("sentencex")
    named = {name: count for name, count in counts.items() if count}
    report = {**settings, "output_file": output.files, "counts": named}
    shard_files.write_settings(report, output.report_file)
  for name, count in named.items():
    logging.info("%-28s %s", name.replace("_", " "), f"{count:,}")
  logging.info("%-28s %.1f s", "time", time.monotonic() - started)
  logging.info("Wrote %s.", ", ".join(names))
  is_text = any(s.input_format == text_config.TEXT for s in inputs)
  mean = named["sentences"] / named["documents"]
  if is_text and config.documents == text_config.BLANK_LINE and mean < 3:
    logging.warning(
      "A document has %.1f sentences on average. If blank lines end only "
      "paragraphs, use `documents=file`.",
      mean,
    )
  return named


@contextlib.contextmanager
def as_lines(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  target: str,
  num_workers: int = 1,
) -> Iterator[list[str]]:
  """Yields files of one sentence per line.

  They are the inputs if all have the format `lines`. Otherwise they are a
  temporary corpus in a hidden folder next to `target`, a file that the caller
  makes from the text. See `create` for the other arguments.
  """
  if all(source.input_format == text_config.LINES for source in inputs):
    yield [source.path for source in inputs]
    return
  folder = atomic.hidden(target, "text")
  path = os.path.join(folder, "text.txt")
  with lock.hold_file(folder):
    try:
      output = text_config.Output(output_file=path)
      create(config, inputs, output, num_workers)
      yield [path]
    finally:
      paths.remove(folder)


def check_reading(
  config: text_config.TextConfig, inputs: Sequence[sources.InputFile]
) -> None:
  """Fails early for an unknown language or a missing package."""
  formats = {source.input_format for source in inputs}
  if text_config.PARQUET in formats:
    parquet.check_installed()
  if formats != {text_config.LINES}:
    sentences.Splitter(config.language)


def _read_groups(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  counts: collections.Counter[str],
) -> Iterator[list[sources.Document]]:
  """Yields groups of documents, large enough to be worth their transfer."""
  group: list[sources.Document] = []
  num_chars = 0
  for source in inputs:
    for document in sources.read(source, config, counts):
      group.append(document)
      num_chars += len(document.text)
      if num_chars >= _GROUP_CHARS:
        yield group
        group, num_chars = [], 0
  yield group


_load_splitter = functools.lru_cache(maxsize=1)(sentences.Splitter)


def _split(language: str, group: Sequence[sources.Document]) -> list[list[str]]:
  documents = []
  for document in group:
    lines = [line.strip() for line in document.text.split("\n")]
    lines = [line for line in lines if line]
    if not document.is_split:
      split = _load_splitter(language).split
      lines = [sentence for line in lines for sentence in split(line)]
    documents.append(lines)
  return documents


def _write_texts(
  groups: Iterable[tuple[Any, list[list[str]]]],
  texts: Sequence[str],
  output: text_config.Output,
  counts: collections.Counter[str],
) -> None:
  fraction = output.eval_fraction if output.eval_output_file else 0.0
  with contextlib.ExitStack() as stack:
    writers = [
      stack.enter_context(open(path, "w", encoding="utf-8", newline="\n"))
      for path in texts
    ]
    bar = stack.enter_context(
      tqdm.tqdm(desc="documents", unit="", unit_scale=True, disable=None)
    )
    for _, documents in groups:
      for lines in documents:
        is_held_out = corpus.is_held_out(lines, fraction, output.random_seed)
        writers[is_held_out].write("\n".join(lines) + "\n\n")
        counts["documents"] += 1
        counts["eval_documents"] += is_held_out
        counts["sentences"] += len(lines)
        counts["characters"] += sum(map(len, lines))
      bar.update(len(documents))
