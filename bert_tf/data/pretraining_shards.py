"""Runs `create_pretraining_data`: shards, workers, resuming, the summary."""

import contextlib
import dataclasses
import functools
import glob
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tqdm
from absl import logging

from bert_tf.corpora import corpus
from bert_tf.data import config as data_config
from bert_tf.data import pretraining_data, record_cache
from bert_tf.files import atomic, paths, shard_files, worker_pool
from bert_tf.formats import tokenizer_files
from bert_tf.model_folder import letter_case

# A larger share of random next sentences causes a warning. The share should be
# half; it rises to about 80% if two sentences nearly fill an instance.
_MAX_RANDOM_NEXT = 0.9


@dataclasses.dataclass(frozen=True)
class Summary:
  """The result of a run."""

  counts: pretraining_data.ShardCounts  # Totals of shards that this run built.
  num_shards_kept: int  # Number of shards that an earlier run built.
  output_files: tuple[str, ...]  # All files of the data set, in order.
  seconds: float  # Wall time.
  max_seq_length: int  # Tokens of an instance, padding included.
  no_nsp: bool  # Whether instances have only one segment.

  def lines(self) -> list[str]:
    """The summary as lines, without counts if no shard was built."""
    counts, files = self.counts, f"{len(self.output_files)}"
    if self.num_shards_kept:
      files += f", {self.num_shards_kept} shards kept"
    files += f": {self.output_files[0]}"
    if len(self.output_files) > 1:
      files += " ..."
    lines = [f"files              {files}"]
    seconds = f"time               {self.seconds:.1f} s"
    if not counts.num_documents:  # A shard has at least one document.
      return [*lines, seconds]
    cut = counts.num_cut / max(counts.num_pieces, 1)
    padding = 1 - counts.num_tokens / (counts.num_records * self.max_seq_length)
    instances = f"{counts.num_instances:,}"
    if counts.num_records < counts.num_instances:
      instances += f" in {counts.num_records:,} records"
    masked = "nothing; run_pretraining masks dynamically"
    if counts.num_masked:
      masked = f"{counts.num_masked / counts.num_instances:.2f} an instance"
    random_next = counts.num_random_next / counts.num_instances
    next_sentence = (
      f"next sentence      {1 - random_next:.1%} actual, {random_next:.1%} "
      "random"
    )
    speed = counts.num_instances / max(self.seconds, 1e-9)
    return [
      f"documents          {counts.num_documents:,}, of "
      f"{counts.num_sentences:,} sentences",
      f"cut off            {cut:.1%} of the text's word pieces",
      f"instances          {instances}",
      f"padding            {padding:.1%} of all positions",
      f"masked             {masked}",
      *([] if self.no_nsp else [next_sentence]),
      *lines,
      f"{seconds}, {speed:,.0f} instances/s",
    ]


@dataclasses.dataclass(frozen=True)
class Task:
  """One shard to build."""

  shard: corpus.Shard
  seed: int
  output_files: tuple[str, ...]  # Files that receive its instances in turn.

  def __str__(self) -> str:
    return f"shard {self.shard.index} ({self.output_files[0]})"


# Builds shards and returns their counts by index.
Builder = Callable[
  [data_config.PretrainingDataConfig, Sequence[Task]],
  dict[int, pretraining_data.ShardCounts],
]


def create(
  config: data_config.PretrainingDataConfig,
  input_files: Sequence[str],
  output_file: str,
  num_shards: int = 1,
  num_workers: int = 1,
  resume: bool = False,
  build: Builder | None = None,
) -> Summary:
  """Turns text files into TFRecords; logs and returns a summary.

  The data set does not depend on `num_workers`. Each file appears when it is
  complete. Several shards of an earlier run are removed first unless `resume`
  is set, because parts of two data sets would look like a complete one.

  Args:
    config: settings of the instances.
    input_files: text files.
    output_file: for one shard, comma-separated files that receive the instances
      in turn. For several, the name that `shard_files.shard_file` completes.
    num_shards: number of shards. Each process holds one shard in memory.
    num_workers: processes that build shards, at most `num_shards`.
    resume: whether to keep finished shards of the same settings.
    build: builds the shards. Default: `num_workers` local processes.

  Raises:
    ValueError: if the settings or the text are faulty, or the run to resume had
      other settings.
  """
  started = time.monotonic()
  names = output_files(input_files, output_file, num_shards, num_workers)
  pretraining_data.load_tokenizer(config)  # Raises for a faulty vocabulary.
  shards = corpus.plan_shards(input_files, num_shards)
  tasks = [
    Task(
      shard,
      shard_seed(config.random_seed, shard.index, num_shards),
      tuple(names) if num_shards == 1 else (names[shard.index],),
    )
    for shard in shards
  ]
  settings = _collect_settings(config, input_files, shards, names)
  note = record_cache.settings_file(output_file.split(",")[0].strip())
  pending = _prepare(tasks, settings, note, resume)
  build = build or functools.partial(_build_here, num_workers=num_workers)
  try:
    counts = build(config, pending)
  finally:
    _remove_unfinished(pending)  # If a worker was killed.
  shard_files.write_settings(settings, note)
  totals = pretraining_data.ShardCounts(
    *(
      sum(getattr(c, field.name) for c in counts.values())
      for field in dataclasses.fields(pretraining_data.ShardCounts)
    )
  )
  summary = Summary(
    totals,
    len(tasks) - len(pending),
    tuple(names),
    time.monotonic() - started,
    config.max_seq_length,
    config.no_nsp,
  )
  _log(summary, counts, names)
  return summary


def read_case(record_files: Iterable[str]) -> letter_case.Case:
  """Returns the letter case of records; unknown if their settings differ.

  Reads the hidden settings files that `create` writes next to the records. If a
  record file is in none of them, the case is also unknown.
  """
  cases_by_file: dict[str, set[letter_case.Case]] = {}
  record_files = list(record_files)
  for folder in set(map(os.path.dirname, record_files)):
    pattern = os.path.join(glob.escape(folder), "*")
    for note in paths.matches(record_cache.settings_file(pattern)):
      settings = shard_files.read_settings(note)
      case = letter_case.Case(
        settings.get("do_lower_case"), settings.get("strip_accents")
      )
      for name in settings.get("output_file", ()):
        path = os.path.join(folder, name)
        cases_by_file.setdefault(path, set()).add(case)
  unknown = {letter_case.Case()}
  cases = set().union(
    *(cases_by_file.get(path, unknown) for path in record_files)
  )
  return cases.pop() if len(cases) == 1 else letter_case.Case()


def shard_seed(random_seed: int, index: int, num_shards: int) -> int:
  """Returns the seed of a shard. A single shard has `random_seed` itself.

  The seed of one of several shards is the first eight bytes, big-endian, of the
  SHA-256 of the ASCII text `<random_seed>/<index>`. It is the same on every
  machine. Unlike the sum of seed and index, it differs between the shards of
  runs with neighbouring seeds.
  """
  if num_shards == 1:
    return random_seed
  digest = hashlib.sha256(f"{random_seed}/{index}".encode("ascii")).digest()
  return int.from_bytes(digest[:8], "big")


def output_files(
  input_files: Iterable[str],
  output_file: str,
  num_shards: int = 1,
  num_workers: int = 1,
) -> list[str]:
  """Returns all files that `create` writes, without reading the text.

  Raises:
    ValueError: if `create` would refuse these arguments.
  """
  names = [name.strip() for name in output_file.split(",")]
  if "" in names or len(set(names)) < len(names):
    raise ValueError(
      f"output_file={output_file} has an empty name or a name twice."
    )
  if num_shards > 1 and len(names) > 1:
    raise ValueError(
      f"output_file names {len(names)} files and num_shards is {num_shards}; "
      "give one name. The shards are then "
      f"{shard_files.shard_file(names[0], 0, num_shards)} and so on."
    )
  if not 1 <= num_workers <= num_shards:
    raise ValueError(
      f"num_workers {num_workers} must be from 1 to num_shards {num_shards}, "
      "since one process builds a shard. Raise num_shards."
    )
  if num_shards > 1:
    names = shard_files.shard_names(names[0], num_shards)
  shard_files.check_output(names, input_files)
  return names


def _collect_settings(
  config: data_config.PretrainingDataConfig,
  input_files: Sequence[str],
  shards: Sequence[corpus.Shard],
  names: Sequence[str],
) -> dict[str, Any]:
  """Returns all settings that the data set depends on, without folders."""
  settings = dataclasses.asdict(config)
  settings.update(settings.pop("masking_config"))
  vocab = tokenizer_files.read_vocab(config.vocab_file)
  settings["vocab_file"] = hashlib.sha256(vocab).hexdigest()
  settings["input_file"] = [
    [os.path.basename(path), paths.num_bytes(path)] for path in input_files
  ]
  settings["num_shards"] = len(shards)
  settings["output_file"] = [os.path.basename(name) for name in names]
  return settings


def _prepare(
  tasks: Sequence[Task], settings: dict[str, Any], note: str, resume: bool
) -> list[Task]:
  """Returns the tasks to do.

  With several shards, first removes the old files of these tasks and writes the
  settings.

  Raises:
    ValueError: if the run to resume has other settings, or none are known.
  """
  pending = list(tasks)
  if resume and paths.exists(note):
    shard_files.check_same_settings(settings, note)
    pending = [task for task in tasks if not _is_finished(task)]
  elif resume and (finished := list(filter(_is_finished, tasks))):
    raise ValueError(
      f"cannot resume: {note} is missing, so the settings of the existing "
      "files are unknown. Drop `resume`, or remove the files, such as "
      f"{finished[0].output_files[0]}, to build them again."
    )
  # A process killed just after a shard's rename leaves its empty hidden folder.
  _remove_unfinished(tasks)
  if len(tasks) > 1:
    # See `create`. A single new shard replaces the old one in one step.
    for task in pending:
      for path in task.output_files:
        paths.remove(path)
    shard_files.write_settings(settings, note)
  return pending


def _is_finished(task: Task) -> bool:
  return all(map(paths.exists, task.output_files))


# A worker builds several shards.
_load_tokenizer = functools.lru_cache(maxsize=1)(
  pretraining_data.load_tokenizer
)


def build_task(
  config: data_config.PretrainingDataConfig,
  task: Task,
  report: Callable[[int], None],
) -> pretraining_data.ShardCounts:
  """Builds one shard in a worker; see `pretraining_data.build_shard`."""
  return pretraining_data.build_shard(
    task.shard,
    config,
    _load_tokenizer(config),
    task.seed,
    task.output_files,
    report,
  )


def _build_here(
  config: data_config.PretrainingDataConfig,
  tasks: Sequence[Task],
  num_workers: int,
) -> dict[int, pretraining_data.ShardCounts]:
  """Builds shards on this machine, with a progress bar on a terminal."""
  num_passes = config.dupe_factor + 1  # One to read.
  num_documents = sum(task.shard.num_documents for task in tasks)
  counts = {}
  with tqdm.tqdm(
    total=num_documents * num_passes,
    desc=f"documents x {num_passes} passes",
    unit="",
    unit_scale=True,
    dynamic_ncols=True,
    disable=None,
  ) as bar:
    bar.set_postfix_str(f"0/{len(tasks)} shards")
    build = functools.partial(build_task, config)
    with contextlib.closing(
      worker_pool.run(build, tasks, num_workers, bar.update)
    ) as results:
      for task, shard_counts in results:
        counts[task.shard.index] = shard_counts
        bar.set_postfix_str(f"{len(counts)}/{len(tasks)} shards")
  return counts


def _remove_unfinished(tasks: Sequence[Task]) -> None:
  for task in tasks:
    for path in task.output_files:
      atomic.remove_unfinished(glob.escape(path))


def _log(
  summary: Summary,
  counts: dict[int, pretraining_data.ShardCounts],
  names: Sequence[str],
) -> None:
  for line in summary.lines():
    logging.info(line)
  # Lines that seem to be documents instead of sentences.
  totals, signs = summary.counts, []
  if totals.num_long_sentences > totals.num_sentences / 2:
    signs.append(
      f"{totals.num_long_sentences:,} of {totals.num_sentences:,} lines are "
      f"longer than max_seq_length {summary.max_seq_length}"
    )
  random_next = totals.num_random_next / max(totals.num_instances, 1)
  if random_next > _MAX_RANDOM_NEXT:
    signs.append(f"{random_next:.1%} of the next sentences are random")
  if signs:
    logging.warning(
      "%s. The text should have one sentence per line. If lines hold several "
      "sentences, use --input_format=text, and --documents=line if each line "
      "is a document. Otherwise raise max_seq_length, or use --no_nsp for "
      "documents of one sentence.",
      ", and ".join(signs),
    )
  num_single = sum(c.num_documents == 1 for c in counts.values())
  if num_single and not summary.no_nsp:
    logging.warning(
      "Only one document in %s: random second segments came from the same "
      "document. A blank line ends a document; or use fewer shards.",
      f"{num_single} of {len(counts)} shards",
    )
  base, separator, end = names[0].rpartition("-00000-of-")
  pattern = f"{glob.escape(base)}-?????-of-?????{end[5:]}"
  others = sorted({*paths.matches(pattern)} - {*names}) if separator else []
  if others:
    logging.warning(
      "The folder also has %d files of a run with another number of shards, "
      "such as %s; remove them before you train on all files.",
      len(others),
      others[0],
    )
