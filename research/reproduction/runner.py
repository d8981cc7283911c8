"""Executes all unfinished runs, each as the commands that a user would type."""

import collections
import contextlib
import dataclasses
import json
import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence

from absl import logging

from bert_tf.checkpoint import checkpoints, download
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import atomic, messages, paths
from bert_tf.model import model_config
from bert_tf.tasks.squad import metrics
from research import rows
from research.reproduction import config as config_lib
from research.reproduction import jobs, report
from research.reproduction import tasks as tasks_lib
from run_scripts import sweep

# Files of results in a run's folder, with the prefix of their names in the row.
_RESULTS = {
  **sweep.RESULTS,
  **{
    os.path.join(part, "eval_results.txt"): f"{part}_"
    for part in ("mm", *tasks_lib.LANGUAGES)
  },
}

# Files of a finished run to keep; everything else is deleted.
_KEPT = re.compile(
  r".*_results\.txt|.*\.tsv|run\.json|(nbest_)?predictions\.json"
  r"|null_odds\.json"
)

_INTERRUPTED = "interrupted"  # The error of a run that a signal ended.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
  """The model to fine-tune."""

  name: str
  path: str  # The value of --model.
  bert_config: model_config.BertConfig
  hash: str  # A hash of the weights.

  @property
  def size(self) -> tuple[int, int]:
    """Number of layers and width."""
    config = self.bert_config
    return config.num_hidden_layers, config.hidden_size


@dataclasses.dataclass(frozen=True)
class Worker:
  """Executes runs of a model."""

  config: config_lib.ReproductionConfig
  model: Model
  data: Mapping[str, tasks_lib.Data]  # By task.
  # Hashes of the model's weights and of the files of each task, by task.
  hashes: Mapping[str, dict[str, str]]
  device_flags: Sequence[str]  # Flags that the commands of all runs get.

  def row_path(self, run: jobs.Run) -> str:
    """Returns the path of a run's row."""
    return rows.get_path(self.config.rows, run.name, self.hashes[run.task])

  def folder(self, run: jobs.Run) -> str:
    """Returns the folder of a run, named as its row."""
    name = os.path.basename(self.row_path(run)).removesuffix(".json")
    return os.path.join(self.config.output_dir, "runs", name)

  def read_finished(self, run: jobs.Run) -> report.Row | None:
    """Returns the row of a run; None if it is missing or has an error."""
    return rows.read_finished(self.row_path(run), report.Row, run.config)

  def execute(self, run: jobs.Run) -> report.Row:
    """Executes a run and writes its row, also if it fails or is interrupted.

    The row has no paths of this machine. The time of earlier attempts counts,
    since a run resumes from its last checkpoint.

    Raises:
      FolderInUseError: if a killed command of the run is still running.
      KeyboardInterrupt: if a signal ended the run.
    """
    row_path, folder = self.row_path(run), self.folder(run)
    start_time = time.monotonic()
    last = rows.read(row_path, report.Row) if paths.exists(row_path) else None
    if last and last.error:
      start_time -= last.seconds
    with atomic.lock_folder(folder):
      pass
    logs = os.path.join(self.config.output_dir, "logs")
    paths.make_folder(logs)
    log = os.path.join(logs, f"{os.path.basename(folder)}.txt")
    extra_flags = [*self.device_flags]
    if self.config.predict_test and tasks_lib.is_glue(
      tasks_lib.TASKS[run.task]
    ):
      extra_flags.append("--do_predict")
    commands = jobs.commands(
      run,
      self.model.path,
      self.data[run.task],
      folder,
      tasks_lib.find_diagnostics(self.config.data_folders),
      extra_flags,
    )
    error: str | None = _INTERRUPTED
    try:
      error = _run_commands(run, commands, folder, log)
    finally:
      lines = [shlex.join(["bert-tf", *words]) for words in commands]
      results = {} if error else read_results(folder)
      row = report.Row(
        config=run.config,
        seed=run.seed,
        data=self.hashes[run.task],
        results={name: rows.rounded(value) for name, value in results.items()},
        error=self._without_paths(error, folder) if error else None,
        seconds=round(time.monotonic() - start_time, 1),
        versions=rows.versions(),
        machine=rows.describe_machine(),
        commands=[self._without_paths(line, folder) for line in lines],
      )
      rows.write(row_path, row)
    if not error:
      _delete_checkpoints(folder)
    return row

  def add_ensembles(self, plan: Sequence[jobs.Run]) -> None:
    """Scores all seeds together, with each setting of SQuAD.

    The row of the first seed gets the results, `ensemble_*`. Runs of another
    machine, whose n-best answers are not here, are left out.
    """
    same: dict[str, dict[str, jobs.Run]] = collections.defaultdict(dict)
    for run in plan:
      nbest = os.path.join(self.folder(run), "nbest_predictions.json")
      if self.read_finished(run) and paths.exists(nbest):
        same[json.dumps(run.config)][nbest] = run
    for runs in same.values():
      first = next(iter(runs.values()))
      row = self.read_finished(first)
      if row and len(runs) > 1:
        data_file = self.data[first.task].path(1)
        scores = metrics.evaluate_files(",".join(runs), data_file)
        for name in ("exact_match", "f1"):
          row.results[f"ensemble_{name}"] = rows.rounded(scores[name])
        rows.write(self.row_path(first), row)

  def _without_paths(self, text: str, folder: str) -> str:
    """Replaces the folders of this machine, since rows are published.

    A relative folder is only replaced as the value of a flag.
    """
    names = {folder: "OUT", self.config.output_dir: "OUT"}
    names |= dict.fromkeys(self.config.data_folders, "DATA")
    if not download.find_source(self.model.path):
      names[self.model.path] = "MODEL"
    # The user may give a folder with a slash at its end.
    names = {path.rstrip("/"): name for path, name in names.items()}
    for path in sorted(filter(None, names), key=len, reverse=True):
      before = "" if os.path.isabs(path) else "(?<==)"
      text = re.sub(rf"{before}{re.escape(path)}(?![\w.-])", names[path], text)
    return text


def run(
  config: config_lib.ReproductionConfig, device_flags: Sequence[str] = ()
) -> None:
  """Executes all unfinished runs in order and writes the report.

  A run that fails is recorded with its error, and the next run starts. With
  `dry_run`, only prints the plan.

  Args:
    config: the settings.
    device_flags: flags for the devices of the commands.

  Raises:
    ValueError: at the end, with the names of the runs that failed.
    KeyboardInterrupt: if a signal ended a run; the same command resumes it.
  """
  model = open_model(config)
  data = find_data(config, model.size)
  hashes = {
    name: {
      "model": model.hash,
      **{f: rows.file_hash(files.path(i)) for i, f in enumerate(files.files)},
    }
    for name, files in data.items()
  }
  worker = Worker(config, model, data, hashes, device_flags)
  tasks = [tasks_lib.TASKS[name] for name in data]
  plan = jobs.plan(config, model.name, model.size, tasks)
  longest = max((run.max_seq_length for run in plan), default=0)
  model.bert_config.check_lengths(longest, model.path)
  pending = [run for run in plan if not worker.read_finished(run)]
  if config.dry_run:
    rows.log_plan(
      plan,
      pending,
      rows.read_all(config.rows, report.Row),
      lambda run_config: (run_config["model"], run_config["task"]),
    )
    return
  num_done = len(plan) - len(pending)
  logging.info("%d runs, of which %d are done.", len(plan), num_done)
  with atomic.lock_folder(config.output_dir):
    failed = rows.execute_all(pending, worker.execute)
    worker.add_ensembles(plan)
    report.write(config)
  if failed:
    raise ValueError(
      f"{messages.join_names(failed, 5)} failed. Their logs are in "
      f"{os.path.join(config.output_dir, 'logs')}; the same command retries."
    )


def open_model(config: config_lib.ReproductionConfig) -> Model:
  """Returns the model to fine-tune."""
  path = str(config.model)
  files = ModelFolder.open(path)
  return Model(
    name=name_model(path),
    path=path,
    bert_config=files.config,
    hash=checkpoints.hash_weights(path)[:16],
  )


def name_model(path: str) -> str:
  """Returns the model's name in rows and report."""
  source = download.find_source(path)
  return source.name if source else os.path.basename(os.path.abspath(path))


def find_data(
  config: config_lib.ReproductionConfig, size: tuple[int, int]
) -> dict[str, tasks_lib.Data]:
  """Returns the data by task; logs which tasks have none.

  `size` is the model's layers and width.

  Raises:
    ValueError: if data of a named task are missing, or all data; names the
      command that downloads them.
  """
  data: dict[str, tasks_lib.Data] = {}
  missing: dict[str, list[str]] = {}  # Tasks by data set.
  for task in tasks_lib.choose(config.tasks):
    if not config.tasks and not jobs.is_usual(task, size):
      continue
    if files := tasks_lib.find_data(task, config.data_folders):
      data[task.name] = files
    else:
      missing.setdefault(task.data_set, []).append(task.name)
  lines = [
    f"no data for {', '.join(names)}; {tasks_lib.describe_missing(data_set)}"
    for data_set, names in missing.items()
  ]
  if missing and config.tasks:
    raise ValueError(". ".join(lines))
  if not data:
    raise ValueError(
      f"no task has data in {' or '.join(config.data_folders)}; set `data`, or "
      "run, for example: bert-tf download MRPC"
    )
  for line in lines:
    logging.warning("%s", line)
  if "MNLI" in data and not tasks_lib.find_diagnostics(config.data_folders):
    logging.warning("no data for AX; %s", tasks_lib.describe_missing("AX"))
  return data


def _run_commands(
  run: jobs.Run, commands: Sequence[Sequence[str]], folder: str, log: str
) -> str | None:
  """Runs commands until one fails; returns its error, or None."""
  for words in commands:
    if error := run_command(jobs.fill(words, read_results(folder)), log):
      return error
  metric = tasks_lib.TASKS[run.task].metric
  if metric in read_results(folder):
    return None
  return f"it ended without the result {metric}; was it stopped?"


def run_command(words: Sequence[str], log: str) -> str | None:
  """Runs a command of bert_tf and adds its output to a log.

  Returns:
    The last line of its errors, or of its output if no line names an error;
    None if it succeeded.

  Raises:
    KeyboardInterrupt: for a signal. The command saves a checkpoint and ends
      before; a second signal kills it.
  """
  with open(log, "a", encoding="utf-8") as output:
    output.write(f"$ {shlex.join(['bert-tf', *words])}\n")
    output.flush()
    offset = os.path.getsize(log)
    module, arguments = "bert_tf", words
    if any(word.startswith("--feature_layers=") for word in words):
      module, arguments = "research.features.command", words[1:]
    status = sweep.run_module(module, arguments, output)
  if not status:
    return None
  text = paths.read_bytes(log)[offset:].decode("utf-8", errors="replace")
  lines = [line for line in text.splitlines() if line.strip()]
  named = [line for line in lines if re.search(r"\berror: |Error: ", line)]
  line = (named or lines or ["no output"])[-1]
  return f"exit status {status}: {messages.shorten(line, 500)}"


def read_results(folder: str) -> dict[str, float]:
  """Returns the results of the commands in a run's folder, by name in a row."""
  return sweep.read_results(folder, _RESULTS)


def _delete_checkpoints(folder: str) -> None:
  """Deletes all files of a finished run but its results."""
  for parent, _, files in os.walk(folder, topdown=False):
    for file in files:
      if not _KEPT.fullmatch(file):
        paths.remove(os.path.join(parent, file))
    with contextlib.suppress(OSError):  # It has results.
      os.rmdir(parent)
