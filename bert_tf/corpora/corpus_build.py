"""Builds a corpus of one sentence per line from files of any format.

This process reads the input once, in order, and writes it in parts. Workers or
Beam split the parts into sentences. This process then joins the parts. The
result therefore does not depend on the number of workers, and a killed run can
resume with the parts that are finished.
"""

import collections
import contextlib
import dataclasses
import functools
import glob
import importlib.metadata
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tqdm
from absl import logging

from bert_tf.corpora import (
  corpus,
  corpus_parts,
  sentences,
  sources,
  text_config,
)
from bert_tf.files import atomic, beam_pipeline, paths, shard_files, worker_pool
from bert_tf.formats import parquet


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
  """The files to write."""

  output_file: str  # With several shards, their numbers are added to it.
  num_shards: int = 1
  eval_output_file: str | None = None  # Held-out documents; None for no split.
  eval_fraction: float = 0.1  # Share of held-out documents, (0, 1).
  random_seed: int = 12345  # Chooses the held-out documents.

  @property
  def files(self) -> list[str]:
    """The paths of the shards, in order."""
    return shard_files.shard_names(self.output_file, self.num_shards)

  @property
  def report_file(self) -> str:
    """Path of settings and counts as JSON; written last."""
    return f"{self.output_file}.report.json"


# Names of the counts, with their labels in the log.
LABELS = {
  "documents_read": "documents read",
  "blank": "without text",
  "documents": "documents written",
  "eval_documents": "of them held out",
  "sentences": "sentences",
  "characters": "characters",
}

# Function that builds the given parts, in local processes or on Beam.
Builder = Callable[[Iterable[corpus_parts.Part]], None]


def create(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  output: Output,
  num_workers: int = 1,
  resume: bool = False,
  build: Builder | None = None,
) -> dict[str, int]:
  """Writes a corpus and its report; logs and returns the counts.

  Each file appears when it is complete, the report last. Each worker holds a
  part of 8 MB in memory. The disk needs room for twice the text.

  Args:
    config: input format and sentence splitting.
    inputs: the files to read.
    output: the files to write.
    num_workers: processes that split text.
    resume: whether to reuse the finished parts of a run with the same settings.
    build: builds the parts. Default: `num_workers` local processes.

  Returns:
    The counts that are not 0, by their name in `LABELS`.

  Raises:
    ValueError: if the settings or the text are faulty, a file would get no
      document, or the run to resume had other settings.
    ImportError: if a package of the extra `corpus` is missing.
  """
  started = time.monotonic()
  _check(config, inputs, output)
  settings = _collect_settings(config, inputs, output)
  work_dir = atomic.hidden(output.output_file, "parts")
  if resume and _is_complete(output, settings, work_dir):
    logging.info("%s is complete.", output.output_file)
    return shard_files.read_settings(output.report_file)["counts"]
  if any(s.input_format != text_config.LINES for s in inputs):
    settings["sentencex"] = importlib.metadata.version("sentencex")
  _prepare(work_dir, settings, resume)
  build = build or functools.partial(_build_here, num_workers=num_workers)
  reader = corpus_parts.Reader(
    inputs,
    corpus_parts.Part(
      0,
      work_dir,
      config,
      output.eval_fraction if output.eval_output_file else 0.0,
      output.random_seed,
    ),
  )
  try:
    build(reader.unfinished_parts())
    counts = reader.total_counts()
    _publish(output, reader.parts(), counts)
  except ValueError:  # The input is faulty, so the parts cannot be reused.
    _remove_parts(work_dir)
    raise
  named = {name: counts[name] for name in LABELS if counts[name]}
  report = {**settings, "output_file": output.files, "counts": named}
  shard_files.write_settings(report, output.report_file)
  _remove_parts(work_dir)
  _log(output, named, time.monotonic() - started)
  _warn_of_paragraphs(config, inputs, named)
  return named


def create_on_beam(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  output: Output,
  runner: str,
  pipeline_options: str = "",
  resume: bool = False,
) -> dict[str, int]:
  """Writes the same corpus as `create`, with parts built by Apache Beam.

  This process first writes the whole input to a hidden folder next to the
  output. Beam's workers must reach that folder under the same name. For
  `runner`, `pipeline_options` and their errors see `beam_pipeline.create`; for
  the rest see `create`.
  """
  pipeline = beam_pipeline.create(runner, pipeline_options)

  def build(parts: Iterable[corpus_parts.Part]) -> None:
    beam_pipeline.run_tasks(pipeline, _build_on_beam, list(parts))

  return create(config, inputs, output, resume=resume, build=build)


@contextlib.contextmanager
def as_lines(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  target: str,
  create_corpus: Callable[..., dict[str, int]],
) -> Iterator[list[str]]:
  """Yields files of one sentence per line: the inputs or a temporary corpus.

  Yields the inputs if all have the format `lines`. Otherwise the temporary
  corpus is in a hidden folder next to `target`, which is removed unless the
  body raises.

  Args:
    config: input format and sentence splitting.
    inputs: the files to read.
    target: a file that the caller makes from the text.
    create_corpus: `create` or `create_on_beam` with all arguments bound, except
      the first three.
  """
  if all(source.input_format == text_config.LINES for source in inputs):
    yield [source.path for source in inputs]
    return
  folder = atomic.hidden(target, "text")
  path = os.path.join(folder, "text.txt")
  try:
    create_corpus(config, inputs, Output(output_file=path))
  except ValueError:
    if paths.is_free(folder):  # Without text to continue from.
      paths.remove(folder)
    raise
  yield [path]
  paths.remove(folder)


def _build_on_beam(part: corpus_parts.Part) -> None:
  corpus_parts.build(part, lambda count: None)


def _check(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  output: Output,
) -> None:
  """Raises for faults that can be detected before the input is read."""
  if output.num_shards < 1:
    raise ValueError(f"num_shards {output.num_shards} is below 1.")
  names = output.files
  if output.eval_output_file:
    names = [*names, output.eval_output_file]
    if not 0 < output.eval_fraction < 1:
      raise ValueError(
        f"eval_fraction {output.eval_fraction} is not between 0 and 1."
      )
  if len(set(map(os.path.realpath, names))) < len(names):
    raise ValueError(
      f"{output.output_file} cannot hold both splits; name two files."
    )
  shard_files.check_output(names, (source.path for source in inputs))
  check_reading(config, inputs)


def check_reading(
  config: text_config.TextConfig, inputs: Sequence[sources.InputFile]
) -> None:
  """Checks the language and the packages, before the input is read.

  Raises:
    ValueError: if the language is unknown.
    ImportError: if pyarrow or sentencex is missing.
  """
  formats = {source.input_format for source in inputs}
  if text_config.PARQUET in formats:
    parquet.check_installed()
  if formats != {text_config.LINES}:
    sentences.Splitter(config.language)


def _collect_settings(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  output: Output,
) -> dict[str, Any]:
  """Returns the settings that the corpus depends on, without folders."""
  settings = dataclasses.asdict(config)
  settings["input_file"] = [
    [os.path.basename(s.path), s.input_format, paths.num_bytes(s.path)]
    for s in inputs
  ]
  for name in ("num_shards", "eval_fraction", "random_seed"):
    settings[name] = getattr(output, name)
  settings["part_chars"] = corpus_parts.PART_CHARS
  settings["eval_output_file"] = os.path.basename(output.eval_output_file or "")
  return settings


def _is_complete(
  output: Output, settings: dict[str, Any], work_dir: str
) -> bool:
  """Returns whether an earlier run is complete.

  Raises:
    ValueError: if the complete run had other settings.
  """
  if paths.exists(work_dir) or not paths.exists(output.report_file):
    return False
  shard_files.check_same_settings(settings, output.report_file)
  names = [*output.files, output.eval_output_file or output.output_file]
  return all(map(paths.exists, names))


def _prepare(work_dir: str, settings: dict[str, Any], resume: bool) -> None:
  """Makes a folder for parts, or checks the settings of the one to resume."""
  note = _settings_file(work_dir)
  if resume and paths.exists(note):
    shard_files.check_same_settings(settings, note)
    atomic.remove_unfinished(os.path.join(glob.escape(work_dir), "*"))
  else:
    _remove_parts(work_dir)
    shard_files.write_settings(settings, note)


def _remove_parts(work_dir: str) -> None:
  """Removes the folder of parts.

  The settings go first. If the process is killed meanwhile, no run then resumes
  with the remaining parts.
  """
  paths.remove(_settings_file(work_dir))
  paths.remove(work_dir)


def _settings_file(work_dir: str) -> str:
  return os.path.join(work_dir, "settings.json")


def _build_here(parts: Iterable[corpus_parts.Part], num_workers: int) -> None:
  """Builds parts on this machine, with a progress bar on a terminal."""
  with tqdm.tqdm(
    desc="documents", unit="", unit_scale=True, disable=None
  ) as bar:
    with contextlib.closing(
      worker_pool.run(corpus_parts.build, parts, num_workers, bar.update)
    ) as results:
      for _ in results:
        pass


def _publish(
  output: Output,
  parts: Sequence[corpus_parts.Part],
  counts: collections.Counter[str],
) -> None:
  """Writes the output from the finished parts; raises as `_check_counts`."""
  _check_counts(output, counts)
  texts = [part.text_file for part in parts]
  paths.remove(output.report_file)
  if output.num_shards == 1:
    corpus.write_documents(output.output_file, corpus.documents(texts))
  else:
    shards = corpus.plan_shards(texts, output.num_shards)
    # Shards of two corpora would look like a complete one.
    for name in output.files:
      paths.remove(name)
    for name, shard in zip(output.files, shards):
      corpus.write_documents(name, corpus.shard_documents(shard))
  if output.eval_output_file:
    held_out = corpus.documents([part.eval_file for part in parts])
    corpus.write_documents(output.eval_output_file, held_out)


def _check_counts(output: Output, counts: collections.Counter[str]) -> None:
  """Raises ValueError if the training or held-out text has no document."""
  num_eval = counts["eval_documents"]
  num_train = counts["documents"] - num_eval
  if not counts["documents"]:
    raise ValueError(f"no document for {output.output_file}: blank text.")
  if output.eval_output_file and not (num_train and num_eval):
    raise ValueError(
      f"{counts['documents']} documents with eval_fraction "
      f"{output.eval_fraction} leave {num_train} to train on and {num_eval} to "
      "evaluate on; give more documents or change the fraction or the seed."
    )


def _log(output: Output, counts: dict[str, int], seconds: float) -> None:
  """Logs a line for each count, and the output files."""
  for name, count in counts.items():
    logging.info("%-28s %s", LABELS[name], f"{count:,}")
  speed = counts["characters"] / 1e6 / max(seconds, 1e-9)
  logging.info("%-28s %.1f s, %.1f M characters/s", "time", seconds, speed)
  num_eval = counts.get("eval_documents", 0)
  others = f" and {output.num_shards - 1} more" if output.num_shards > 1 else ""
  num_train = counts["documents"] - num_eval
  logging.info("%d documents to %s%s", num_train, output.files[0], others)
  if output.eval_output_file:
    logging.info("%d documents to %s", num_eval, output.eval_output_file)


def _warn_of_paragraphs(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  counts: dict[str, int],
) -> None:
  """Warns if blank lines seem to end paragraphs instead of documents."""
  is_text = any(s.input_format == text_config.TEXT for s in inputs)
  mean = counts["sentences"] / counts["documents"]
  if is_text and config.documents == text_config.BLANK_LINE and mean < 3:
    logging.warning(
      "A document has %.1f sentences on average; if blank lines end "
      "paragraphs, not documents, use `documents=file`.",
      mean,
    )
