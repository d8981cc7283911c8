"""Builds a corpus of one sentence per line from files of any format.

This process reads the input once, in order, and writes it in parts. Workers or
Beam split the documents of each part into sentences, which gives its text, its
held-out text and its counts. This process then joins the parts. The result
therefore does not depend on the number of workers, and a killed run can resume
with the parts that are finished.
"""

import collections
import contextlib
import dataclasses
import functools
import glob
import importlib.metadata
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tqdm
from absl import logging

from bert_tf.corpora import corpus, sentences, sources, text_config
from bert_tf.files import (
  atomic,
  beam_pipeline,
  json_files,
  paths,
  shard_files,
  text_lines,
  worker_pool,
)
from bert_tf.formats import parquet

# Size of a part in characters. A worker holds one part in memory.
PART_CHARS = 1 << 23

# Names of the counts, with their labels in the log.
LABELS = {
  "documents_read": "documents read",
  "blank": "without text",
  "documents": "documents written",
  "eval_documents": "of them held out",
  "sentences": "sentences",
  "characters": "characters",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
  """The files to write."""

  output_file: str  # With several shards, their numbers are added to it.
  num_shards: int = 1
  eval_output_file: str | None = None  # Held-out documents; None for no split.
  eval_fraction: float = 0.1  # Fraction of held-out documents, (0, 1).
  random_seed: int = 12345  # Chooses the held-out documents.

  @property
  def files(self) -> list[str]:
    """The paths of the shards, in order."""
    return shard_files.shard_names(self.output_file, self.num_shards)

  @property
  def all_files(self) -> list[str]:
    """The paths of the shards and of the held-out documents."""
    return [*self.files, *filter(None, [self.eval_output_file])]

  @property
  def report_file(self) -> str:
    """Path of settings and counts as JSON; written last."""
    return f"{self.output_file}.report.json"


@dataclasses.dataclass(frozen=True)
class Part:
  """Consecutive documents of the input."""

  index: int
  work_dir: str  # The folder of all parts.
  config: text_config.TextConfig
  eval_fraction: float  # Fraction of held-out documents, [0, 1).
  random_seed: int  # Chooses the held-out documents.

  def file(self, suffix: str) -> str:
    """Returns the path of a file of the part.

    The suffixes are `raw.jsonl` for the documents as read, one
    `sources.Document` a line, until the part is built; `txt` and `eval.txt` for
    its texts, and `json` for its counts, which are written last.
    """
    return os.path.join(self.work_dir, f"{self.index:05d}.{suffix}")

  @property
  def is_finished(self) -> bool:
    """Whether the part is built."""
    return paths.exists(self.file("json"))

  def write_raw(self, documents: Iterable[sources.Document]) -> None:
    """Writes the documents for the worker that builds the part."""
    rows = (json.dumps(dataclasses.astuple(document)) for document in documents)
    atomic.write_lines(self.file("raw.jsonl"), rows)


def create(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  output: Output,
  num_workers: int = 1,
  resume: bool = False,
  beam: text_config.BeamConfig | None = None,
) -> dict[str, int]:
  """Writes a corpus and its report; logs and returns the counts.

  Each file appears when it is complete, the report last. Each worker holds a
  part of 8 MB in memory. The disk needs room for twice the text.

  With Beam, this process first writes the whole input to a hidden folder next
  to the output, which Beam's workers must reach under the same name.

  Args:
    config: input format and sentence splitting.
    inputs: the files to read.
    output: the files to write.
    num_workers: local processes that split text.
    resume: whether to reuse the finished parts of a run with the same settings.
    beam: a runner that splits the text instead; see `beam_pipeline.create`.

  Returns:
    The counts that are not 0, by their name in `LABELS`.

  Raises:
    ValueError: if the settings or the text are faulty, a file would get no
      document, or the run to resume had other settings.
    ImportError: if a package of the extra `corpus` is missing.
    ChildProcessError: if Beam fails.
  """
  started = time.monotonic()
  build: Callable[[Iterable[Part]], None] = functools.partial(
    _build_here, num_workers
  )
  if beam and beam.runner:
    pipeline = beam_pipeline.create(beam.runner, beam.pipeline_options)
    build = lambda parts: beam_pipeline.run_tasks(  # noqa: E731
      pipeline, build_part, list(parts)
    )
  names = output.all_files
  if output.eval_output_file and not 0 < output.eval_fraction < 1:
    raise ValueError(
      f"eval_fraction {output.eval_fraction} is not between 0 and 1."
    )
  if len(set(map(os.path.realpath, names))) < len(names):
    raise ValueError(
      f"{output.output_file} cannot hold both splits; name two files."
    )
  shard_files.check_output(names, (source.path for source in inputs))
  check_reading(config, inputs)
  settings = {
    **dataclasses.asdict(config),
    "input_file": [
      [os.path.basename(s.path), s.input_format, paths.num_bytes(s.path)]
      for s in inputs
    ],
    "num_shards": output.num_shards,
    "eval_fraction": output.eval_fraction,
    "random_seed": output.random_seed,
    "part_chars": PART_CHARS,
    "eval_output_file": os.path.basename(output.eval_output_file or ""),
  }
  work_dir = atomic.hidden(output.output_file, "parts")
  if resume and paths.exists(output.report_file) and not paths.exists(work_dir):
    shard_files.check_same_settings(settings, output.report_file)
    if all(map(paths.exists, names)):
      logging.info("%s is complete.", output.output_file)
      return shard_files.read_settings(output.report_file)["counts"]
  if any(s.input_format != text_config.LINES for s in inputs):
    settings["sentencex"] = importlib.metadata.version("sentencex")
  note = os.path.join(work_dir, "settings.json")
  if resume and paths.exists(note):
    shard_files.check_same_settings(settings, note)
    atomic.remove_unfinished(os.path.join(glob.escape(work_dir), "*"))
  else:
    _remove_parts(work_dir)
    shard_files.write_settings(settings, note)
  fraction = output.eval_fraction if output.eval_output_file else 0.0
  first_part = Part(0, work_dir, config, fraction, output.random_seed)
  try:
    build(_unfinished_parts(inputs, first_part))
    parts, counts = _read_note(first_part)
    for part in parts:
      counts.update(json_files.read_object(part.file("json")))
    _publish(output, parts, counts)
  except ValueError:  # The input is faulty, so the parts cannot be reused.
    _remove_parts(work_dir)
    raise
  named = {name: counts[name] for name in LABELS if counts[name]}
  report = {**settings, "output_file": output.files, "counts": named}
  shard_files.write_settings(report, output.report_file)
  _remove_parts(work_dir)
  for name, count in named.items():
    logging.info("%-28s %s", LABELS[name], f"{count:,}")
  logging.info("%-28s %.1f s", "time", time.monotonic() - started)
  logging.info("Written: %s", ", ".join(names))
  is_text = any(s.input_format == text_config.TEXT for s in inputs)
  mean = named["sentences"] / named["documents"]
  if is_text and config.documents == text_config.BLANK_LINE and mean < 3:
    logging.warning(
      "A document has %.1f sentences on average; if blank lines end "
      "paragraphs, not documents, use `documents=file`.",
      mean,
    )
  return named


@contextlib.contextmanager
def as_lines(
  config: text_config.TextConfig,
  inputs: Sequence[sources.InputFile],
  target: str,
  **options: Any,
) -> Iterator[list[str]]:
  """Yields files of one sentence per line: the inputs or a temporary corpus.

  Yields the inputs if all have the format `lines`. Otherwise the temporary
  corpus is in a hidden folder next to `target`, which is removed unless the
  body raises.

  Args:
    config: input format and sentence splitting.
    inputs: the files to read.
    target: a file that the caller makes from the text.
    **options: the other arguments of `create`.
  """
  if all(source.input_format == text_config.LINES for source in inputs):
    yield [source.path for source in inputs]
    return
  folder = atomic.hidden(target, "text")
  path = os.path.join(folder, "text.txt")
  try:
    create(config, inputs, Output(output_file=path), **options)
  except ValueError:
    if paths.is_free(folder):  # Without text to continue from.
      paths.remove(folder)
    raise
  yield [path]
  paths.remove(folder)


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


def _remove_parts(work_dir: str) -> None:
  """Removes the folder of parts.

  The settings go first. If the process is killed meanwhile, no run then resumes
  with the remaining parts.
  """
  paths.remove(os.path.join(work_dir, "settings.json"))
  paths.remove(work_dir)


def _unfinished_parts(
  inputs: Sequence[sources.InputFile], first_part: Part
) -> Iterator[Part]:
  """Yields each part to build, after its documents have been written.

  A resumed run reads the input only if needed.
  """
  note_file = os.path.join(first_part.work_dir, "read.json")
  if paths.exists(note_file):
    parts, _ = _read_note(first_part)
    yield from (part for part in parts if not part.is_finished)
    return
  counts: collections.Counter[str] = collections.Counter()
  documents = itertools.chain.from_iterable(
    sources.read(source, first_part.config, counts) for source in inputs
  )
  num_parts = 0
  while first := next(documents, None):
    group, num_chars = [first], len(first.text)
    while num_chars < PART_CHARS and (document := next(documents, None)):
      group.append(document)
      num_chars += len(document.text)
    part = dataclasses.replace(first_part, index=num_parts)
    num_parts += 1
    if not part.is_finished:
      part.write_raw(group)
      yield part
  note = {"num_parts": num_parts, "counts": counts}
  atomic.write(note_file, [json.dumps(note)])


def _read_note(
  first_part: Part,
) -> tuple[list[Part], collections.Counter[str]]:
  note = json_files.read_object(os.path.join(first_part.work_dir, "read.json"))
  parts = [
    dataclasses.replace(first_part, index=index)
    for index in range(note["num_parts"])
  ]
  return parts, collections.Counter(note["counts"])


def _build_here(num_workers: int, parts: Iterable[Part]) -> None:
  with tqdm.tqdm(
    desc="documents", unit="", unit_scale=True, disable=None
  ) as bar:
    with contextlib.closing(
      worker_pool.run(build_part, parts, num_workers, bar.update)
    ) as results:
      for _ in results:
        pass


_load_splitter = functools.lru_cache(maxsize=1)(sentences.Splitter)


def build_part(
  part: Part, report: Callable[[int], object] = lambda count: None
) -> None:
  """Builds a part in a worker and removes its raw file.

  Does nothing if the part is finished.

  Args:
    part: the part. Its documents have been written.
    report: called with 1 for each document.

  Raises:
    ChildProcessError: if a document cannot be split into sentences. Not a
      ValueError, after which the caller discards all parts.
  """
  if part.is_finished:  # Beam may run a task twice.
    return
  counts: collections.Counter[str] = collections.Counter()
  raw_file = part.file("raw.jsonl")
  targets = [part.file("txt"), part.file("eval.txt"), part.file("json")]
  try:
    with (
      atomic.files(targets) as (text_file, eval_file, counts_file),
      open(text_file, "w", encoding="utf-8", newline="\n") as text,
      open(eval_file, "w", encoding="utf-8", newline="\n") as held_out,
      open(counts_file, "w", encoding="utf-8", newline="\n") as counts_writer,
    ):
      for row in text_lines.read_lines(raw_file):
        document = sources.Document(*json.loads(row))
        lines = [line.strip() for line in document.text.split("\n")]
        lines = [line for line in lines if line]
        if not document.is_split:
          split = _load_splitter(part.config.language).split
          lines = [sentence for line in lines for sentence in split(line)]
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
      f"part {part.index}, {raw_file}, cannot be split into sentences "
      f"({error}); `resume` reuses the finished parts."
    ) from error
  paths.remove(raw_file)


def _publish(
  output: Output, parts: Sequence[Part], counts: collections.Counter[str]
) -> None:
  """Writes the output from the finished parts.

  Raises:
    ValueError: if the training or held-out text has no document.
  """
  num_eval = counts["eval_documents"]
  num_train = counts["documents"] - num_eval
  if not counts["documents"]:
    raise ValueError(f"no document for {output.output_file}: blank text.")
  if output.eval_output_file and not (num_train and num_eval):
    raise ValueError(
      f"eval_fraction {output.eval_fraction} leaves {num_train} documents to "
      f"train on and {num_eval} to evaluate on."
    )
  texts = [part.file("txt") for part in parts]
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
    held_out = corpus.documents([part.file("eval.txt") for part in parts])
    corpus.write_documents(output.eval_output_file, held_out)
