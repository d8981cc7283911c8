"""Executes all unfinished runs of the experiments and writes the report."""

import time
from collections.abc import Sequence

from absl import logging

from bert_tf.files import atomic, errors
from bert_tf.tasks.ner.task import import_seqeval
from research import rows
from research.ablations import config as config_lib
from research.ablations import experiments as experiments_lib
from research.ablations import report, runs, tasks, variants, work


def run(config: config_lib.AblationsConfig) -> None:
  """Executes all unfinished runs in order and writes the report.

  A run that fails is recorded with its error, and the next run starts; at the
  end, ValueError names the failed runs. A signal raises KeyboardInterrupt, and
  the same command resumes the run. With `dry_run`, only lists the runs.
  """
  scale = config.chosen_scale
  task_files = tasks.find(config)
  experiments = experiments_lib.build(
    config.experiments, scale, list(task_files)
  )
  if "NER" in task_files:
    import_seqeval()
  with atomic.lock_folder(config.output_dir):
    failed = _run_all(config, task_files, _plan(experiments, scale.seeds))
    if not config.dry_run:
      report.write(config, experiments)
  if failed:
    raise ValueError(
      f"these runs failed: {', '.join(failed)}. Their errors are in "
      f"{config.rows}; the same command retries them."
    )


def _plan(
  experiments: Sequence[variants.Experiment], seeds: Sequence[int]
) -> list[runs.Run]:
  """Returns all runs in order, without duplicates."""
  return list(dict.fromkeys(r for e in experiments for r in e.runs(seeds)))


def _run_all(
  config: config_lib.AblationsConfig,
  task_files: dict[str, tasks.TaskFiles],
  plan: Sequence[runs.Run],
) -> list[str]:
  """Executes the unfinished runs; returns the names of failed runs."""
  scale = config.chosen_scale
  all_experiments = experiments_lib.build((), scale, list(task_files))
  worker = work.Worker(config, task_files, _plan(all_experiments, scale.seeds))
  data = {run: worker.hash_data(run) for run in plan}
  paths = {run: rows.get_path(config.rows, run.name, data[run]) for run in plan}
  pending = [
    run
    for run in plan
    if not rows.read_finished(paths[run], runs.Row, run.config)
  ]
  logging.info(
    "%d runs, of which %d are done.", len(plan), len(plan) - len(pending)
  )
  if config.dry_run:
    rows.log_plan(
      plan,
      pending,
      rows.read_all(config.rows, runs.Row),
      lambda run_config: "fine_tuning" in run_config,
    )
    return []

  def execute(run: runs.Run) -> runs.Row:
    start_time = time.monotonic()
    results: dict[str, float] = {}
    curve: runs.Curve = {}
    error = None
    try:
      results, curve = worker.execute(run)
    except Exception as failure:  # Any failure: the next run must start.
      logging.debug("Traceback of the failure:", exc_info=failure)
      error = f"{type(failure).__name__}: {errors.reason(failure)}"
    row = runs.Row(
      kind=run.kind,
      config=run.config,
      seed=run.seed,
      data=data[run],
      results=results,
      curve=curve,
      error=error,
      seconds=round(time.monotonic() - start_time, 1),
      versions=rows.versions(),
      machine=rows.describe_machine(),
    )
    rows.write(paths[run], row)
    return row

  return rows.execute_all(pending, execute)
