"""Does what is not done yet of all runs, and writes the report."""

import collections
import time
from collections.abc import Sequence

from absl import logging

from bert_tf.files import errors, lock
from bert_tf.tasks.ner import metrics
from research.ablations import config as config_lib
from research.ablations import experiments as experiments_lib
from research.ablations import report, rows, runs, tasks, variants, work


def run(config: config_lib.AblationsConfig) -> None:
  """Does all runs that are not done, one after another; writes the report.

  A run that fails is recorded with its error, and the others go on.

  Raises:
    ValueError: for settings or text that cannot be used, and at the end naming
      the runs that failed.
    ImportError: if a package for the text, scores or plots is missing.
    KeyboardInterrupt: if a signal ended a run; the same command goes on.
  """
  report.check_packages()
  scale = config.chosen_scale
  task_files = tasks.find(config)
  found = experiments_lib.build(config.experiments, scale, list(task_files))
  if "NER" in task_files:
    metrics.import_seqeval()
  with lock.hold(config.output_dir):
    plan = _plan(found, scale.seeds)
    failed = _run_all(config, task_files, plan)
    if not config.dry_run:
      report.write(config, found)
  if failed:
    raise ValueError(
      f"{len(failed)} runs failed: {', '.join(failed)}. Their errors are in "
      f"{config.rows}; the same command tries them again."
    )


def _plan(
  experiments: Sequence[variants.Experiment], seeds: Sequence[int]
) -> list[runs.Run]:
  """Returns all runs, each once, in the order to do them."""
  every = (run for e in experiments for run in e.runs(seeds))
  return list(dict.fromkeys(every))


def _run_all(
  config: config_lib.AblationsConfig,
  task_files: dict[str, tasks.TaskFiles],
  plan: Sequence[runs.Run],
) -> list[str]:
  """Does the runs that are not done; returns the names of those that failed."""
  every = experiments_lib.build((), config.chosen_scale, list(task_files))
  worker = work.Worker(
    config, task_files, _plan(every, config.chosen_scale.seeds)
  )
  paths_and_data = [(run, worker.data_of(run)) for run in plan]
  pending = [
    (run, data)
    for run, data in paths_and_data
    if not rows.whole(config.rows, run, data)
  ]
  logging.info(
    "%d runs, of which %d are done.", len(plan), len(plan) - len(pending)
  )
  if config.dry_run:
    _list(config, plan, pending)
    return []
  failed: list[str] = []
  for number, (run, data) in enumerate(pending, start=1):
    logging.info("Run %d of %d: %s.", number, len(pending), run.name)
    row = _row(worker, run, data)
    rows.write(rows.path_of(config.rows, run, data), row)
    if row.error:
      failed.append(run.name)
      logging.error("%s failed: %s", run.name, row.error)
    else:
      logging.info("%s took %.0f s.", run.name, row.seconds)
  return failed


def _list(
  config: config_lib.AblationsConfig,
  plan: Sequence[runs.Run],
  pending: Sequence[tuple[runs.Run, dict[str, str]]],
) -> None:
  """Logs the runs, and how long those that are left will take."""
  left = {run for run, _ in pending}
  for run in plan:
    logging.info("%s %s", "to do" if run in left else "done ", run.name)
  seconds: dict[str, list[float]] = collections.defaultdict(list)
  for row in rows.read_all(config.rows):
    if row.is_whole:
      seconds[row.kind].append(row.seconds)
  estimates = [
    sum(seconds[run.kind]) / len(seconds[run.kind])
    for run in left
    if seconds[run.kind]
  ]
  if estimates:
    logging.info(
      "About %.1f hours are left, at the pace of those that are done.",
      sum(estimates) / 3600,
    )


def _row(worker: work.Worker, run: runs.Run, data: dict[str, str]) -> rows.Row:
  """Does a run; returns its row, that of a failure too."""
  start = time.monotonic()
  found, error = work.Found({}, {}), None
  try:
    found = worker.do(run)
  except work.StoppedError as stopped:
    raise KeyboardInterrupt from stopped
  except Exception as failure:  # Whatever it is, the other runs go on.
    logging.debug("Where it was raised:", exc_info=failure)
    error = f"{type(failure).__name__}: {errors.reason(failure)}"
  return rows.Row(
    kind=run.kind,
    config=run.config,
    seed=run.seed,
    data=data,
    results=found.results,
    curve=found.curve,
    error=error,
    seconds=round(time.monotonic() - start, 1),
    versions=rows.versions(),
    machine=rows.machine(),
  )
