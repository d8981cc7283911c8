"""Runs `create_pretraining_data`: shards, workers, resuming, the summary.

Local processes or Apache Beam build the shards. Both call `build_shard` for
each, so their files are the same.
"""

import contextlib
import dataclasses
import functools
import glob
import hashlib
import itertools
import os
import shlex
import time
from collections.abc import Callable, Iterable, Sequence

import tqdm
from absl import logging

from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import pretraining_data
from bert_tf.data.pretraining.pretraining_data import ShardCounts, ShardTask
from bert_tf.files import (
  atomic,
  json_files,
  packages,
  paths,
  shard_files,
  text_lines,
  tokenizer_files,
  worker_pool,
)
from bert_tf.text import corpus, letter_case, unknown_pieces

# The end of the name of the hidden file with the settings of records.
_SETTINGS = "settings.json"


@dataclasses.dataclass(frozen=True)
class Summary:
  """The result of a run."""

  counts: ShardCounts  # Totals of the shards that this run built.
  num_shards_kept: int  # Number of shards that an earlier run built.
  output_files: tuple[str, ...]  # All files of the data set, in order.


# Builds the shards of some tasks; returns their counts by index.
Builder = Callable[
  [PretrainingDataConfig, Sequence[ShardTask]], dict[int, ShardCounts]
]


def create(
  config: PretrainingDataConfig,
  input_files: Sequence[str],
  output_file: str,
  num_shards: int = 1,
  num_workers: int = 1,
  resume: bool = False,
  build: Builder | None = None,
) -> Summary:
  """Turns text files into TFRecords; logs and returns a summary.

  The data set does not depend on `num_workers`, the number of processes, each
  of which holds one shard in memory. Each file appears when it is complete.
  The files of an earlier run are removed first, because parts of two data sets
  would look like a complete one; `resume` keeps those that were made from the
  same text with the same settings.

  For one shard, `output_file` has comma-separated files that receive the
  instances in turn; for several, the name that `shard_files.shard_names`
  completes. `build` builds shards in place of the local processes. Raises
  ValueError for impossible files or numbers.
  """
  started = time.monotonic()
  first, *others = [name.strip() for name in output_file.split(",")]
  names = [first, *others]
  if "" in names or len({*names}) < len(names):
    raise ValueError(f"output_file={output_file} repeats a name or omits one.")
  if num_shards > 1:
    if others:
      raise ValueError(
        f"output_file names {len(names)} files, but num_shards={num_shards} "
        "adds the numbers of the shards to a single name."
      )
    names = shard_files.shard_names(first, num_shards)
  shard_files.check_output(names, input_files)
  # Raises for a faulty vocabulary.
  tokenizer = pretraining_data.load_tokenizer(config)
  sample = unknown_pieces.PieceCounts(tokenizer, input_files[0])
  for line in itertools.islice(text_lines.read_lines(*input_files), 1000):
    sample.add_ids(tokenizer.tokenize_to_ids(line))
  tasks = [
    ShardTask(
      shard,
      derive_shard_seed(config.random_seed, shard.index, num_shards),
      tuple(names) if num_shards == 1 else (names[shard.index],),
    )
    for shard in corpus.plan_shards(input_files, num_shards)
  ]
  vocab = tokenizer_files.read_vocab(config.vocab_file)
  settings = {
    **dataclasses.asdict(config),
    "vocab_file": hashlib.sha256(vocab).hexdigest(),
    "input_file": [[os.path.basename(p), paths.sha256(p)] for p in input_files],
    "num_shards": num_shards,
    "output_file": [os.path.basename(name) for name in names],
  }
  note = atomic.hidden(first, _SETTINGS)
  with atomic.lock_file(first):
    finished = [t for t in tasks if resume and t.is_finished]
    if resume and paths.exists(note):
      shard_files.check_same_settings(settings, note)
    elif finished:
      raise ValueError(
        f"cannot resume: {note} is missing, so the settings of "
        f"{finished[0].output_files[0]} are unknown; drop `resume`."
      )
    pending = [task for task in tasks if task not in finished]
    # Settings must never stand beside records that were made with others.
    for path in itertools.chain(*(task.output_files for task in pending)):
      paths.remove(path)
    json_files.write(note, settings)
    try:
      if build:
        counts = build(config, pending)
      else:
        counts = _build_here(config, pending, num_workers)
    finally:
      for name in names:  # If a worker was killed.
        atomic.remove_unfinished(glob.escape(name))
  columns = zip(*map(dataclasses.astuple, counts.values()))
  totals = ShardCounts(*map(sum, columns))
  summary = Summary(totals, len(finished), tuple(names))
  _log(config, summary, time.monotonic() - started)
  num_single = sum(c.num_documents == 1 for c in counts.values())
  if num_single and not config.no_nsp:
    logging.warning(
      "%d of %d shards have a single document, so its random next sentences "
      "came from itself. A blank line ends a document.",
      num_single,
      len(counts),
    )
  return summary


def read_case(record_files: Iterable[str]) -> letter_case.Case:
  """Returns the letter case of records, from the files that `create` wrote.

  It is unknown if they differ or a record file is in none of them.
  """
  cases_by_file: dict[str, set[letter_case.Case]] = {}
  record_files = list(record_files)
  for folder in set(map(os.path.dirname, record_files)):
    pattern = os.path.join(glob.escape(folder), "*")
    for note in paths.matches(atomic.hidden(pattern, _SETTINGS)):
      settings = shard_files.read_settings(note)
      case = letter_case.Case(
        settings.get("do_lower_case"), settings.get("strip_accents")
      )
      for name in settings.get("output_file", ()):
        cases_by_file.setdefault(os.path.join(folder, name), set()).add(case)
  unknown = letter_case.Case()
  cases = set().union(*(cases_by_file.get(p, {unknown}) for p in record_files))
  return cases.pop() if len(cases) == 1 else unknown


def derive_shard_seed(random_seed: int, index: int, num_shards: int) -> int:
  """Returns the seed of a shard. A single shard has `random_seed` itself."""
  if num_shards == 1:
    return random_seed
  digest = hashlib.sha256(f"{random_seed}/{index}".encode("ascii")).digest()
  return int.from_bytes(digest[:8], "big")


def _build_here(
  config: PretrainingDataConfig,
  tasks: Sequence[ShardTask],
  num_workers: int,
) -> dict[int, ShardCounts]:
  num_passes = config.dupe_factor + 1  # One to read.
  num_documents = sum(task.shard.num_documents for task in tasks)
  build = functools.partial(pretraining_data.build_shard, config)
  counts = {}
  with tqdm.tqdm(
    total=num_documents * num_passes,
    desc=f"documents x {num_passes} passes",
    disable=None,
  ) as bar:
    if min(num_workers, len(tasks)) < 2:
      return {task.shard.index: build(task, bar.update) for task in tasks}
    results = worker_pool.run(build, tasks, num_workers)
    with contextlib.closing(results):
      for task, result in results:
        counts[task.shard.index] = result
        bar.update(task.shard.num_documents * num_passes)
  return counts


def beam_builder(
  output_file: str, runner: str, pipeline_options: str = ""
) -> Builder:
  """Returns a `build` for `create` that runs on Apache Beam.

  Workers need bert_tf, and must see all files under the same names. `runner` is
  the name of a Beam runner or the dotted name of its class, and
  `pipeline_options` are in shell syntax. Raises ValueError for a runner or an
  option that Beam does not know; building raises ChildProcessError if the
  pipeline fails.
  """
  with packages.needs_extra("`runner`, unlike `num_workers`,", extra="beam"):
    import apache_beam as beam
    from apache_beam.options import pipeline_options as beam_options
    from apache_beam.runners.runner import PipelineState
  if runner in ("DirectRunner", "SwitchingDirectRunner"):
    # DirectRunner may download and start another program, Prism, which ignores
    # direct_num_workers and direct_running_mode.
    runner = "FnApiRunner"
  try:
    options = beam_options.PipelineOptions(shlex.split(pipeline_options))
    pipeline = beam.Pipeline(runner, options)
  except (ValueError, AttributeError, ImportError) as error:
    reason = " ".join(str(error).split())
    raise ValueError(f"`runner={runner}`: {reason}") from error
  counts_file = atomic.hidden(output_file, "counts.json")

  def build(
    config: PretrainingDataConfig, tasks: Sequence[ShardTask]
  ) -> dict[int, ShardCounts]:
    if not tasks:
      return {}

    def build_one(task: ShardTask) -> tuple[int, dict[str, int]]:
      counts = pretraining_data.build_shard(config, task)
      return task.shard.index, dataclasses.asdict(counts)

    write_counts = functools.partial(json_files.write, counts_file)
    (
      pipeline
      | "tasks" >> beam.Create(tasks)
      | "spread over the workers" >> beam.Reshuffle()
      | "build" >> beam.Map(build_one)
      | "all counts" >> beam.combiners.ToList()
      | "write counts" >> beam.Map(write_counts)
    )
    try:
      state = pipeline.run().wait_until_finish()
      if state != PipelineState.DONE:
        raise ChildProcessError(f"the Beam pipeline ended as {state}.")
      counts = json_files.read(counts_file)
      return {index: ShardCounts(**each) for index, each in counts}
    except RuntimeError as error:
      # The message is the traceback of a worker.
      reason = str(error).strip().splitlines()[-1]
      raise ChildProcessError(f"the Beam pipeline failed: {reason}") from error
    finally:
      paths.remove(counts_file)

  return build


def _log(
  config: PretrainingDataConfig, summary: Summary, seconds: float
) -> None:
  """Logs the summary, without counts if no shard was built."""
  counts, rows = summary.counts, {}
  if num_instances := counts.num_instances:
    num_positions = counts.num_records * config.max_seq_length
    padding = 1 - counts.num_tokens / num_positions
    random_next = counts.num_random_next / num_instances
    rows = {
      "documents": f"{counts.num_documents:,}",
      "word pieces": f"{counts.num_pieces:,}",
      "instances": f"{num_instances:,}",
      "records": f"{counts.num_records:,}",
      "padding": f"{padding:.1%} of all positions",
      "cut off": f"{counts.num_cut / num_instances:.2f} pieces per instance",
      "masked": f"{counts.num_masked / num_instances:.2f} per instance",
      "next sentence": f"{random_next:.1%} random",
    }
    if random_next > 0.9:  # About half of them should be.
      logging.warning(
        f"{random_next:.1%} of the next sentences are random, so lines "
        "probably hold several sentences, which build-corpus splits. Documents "
        "of one sentence need --no_nsp."
      )
  files, num_kept = summary.output_files, summary.num_shards_kept
  kept = f" ({num_kept} of an earlier run)" if num_kept else ""
  rows["files"] = f"{len(files)}{kept}: {files[0]}"
  rows["time"] = f"{seconds:.1f} s"
  for name, value in rows.items():
    logging.info(f"{name:18} {value}")
