"""Several fine-tunings of one task: a grid of settings and several seeds.

On small data sets, results depend on the seed, and the best settings differ
between tasks (Devlin et al. 2019, 4.1 and A.3). A cell is one combination of
the grid's settings; its runs differ only in the seed.
"""

import dataclasses
import gc
import itertools
import json
import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import keras
from absl import logging

from bert_tf.files import atomic, json_files, paths
from bert_tf.tasks import config as config_lib
from bert_tf.training import divergence, evaluation

# The settings of a grid: the type of their values and their short names.
SETTINGS: dict[str, tuple[type[int] | type[float], str]] = {
  "train_batch_size": (int, "batch"),
  "learning_rate": (float, "rate"),
  "num_train_epochs": (float, "epochs"),
}

_RUN_FILE = "sweep_run.json"  # In a run's folder: its config and results.
# Tables in output_dir, with a row for each run and for each cell.
RUNS_FILE = "sweep_runs.tsv"
RESULTS_FILE = "sweep_results.tsv"

# Settings that do not affect the training. "train" is the nested config, whose
# settings are compared one by one.
_NOT_TRAINED = frozenset(
  "train do_eval do_predict predict_file test_file feature_dir "
  "eval_batch_size predict_batch_size "
  "n_best_size max_answer_length null_score_diff_threshold verbose_logging "
  "num_run_examples log_every_steps keep_checkpoint_max "
  "save_checkpoints_steps iterations_per_loop".split()
)

Settings = Mapping[str, float | int]
Results = dict[str, float | int]
Config = TypeVar("Config", bound=config_lib.FineTuningConfig)


@dataclasses.dataclass(frozen=True)
class Run:
  """One fine-tuning of a sweep."""

  cell: str  # The folder of the cell below output_dir; "" without a grid.
  folder: str  # The folder of the run below output_dir.
  settings: Settings  # Values of the cell by name, which is one of SETTINGS.
  seed: int


def parse_grid(text: str) -> dict[str, list[float | int]]:
  """Parses a grid such as "learning_rate=5e-5,3e-5;train_batch_size=16,32".

  Returns:
    The values of each setting by its name.

  Raises:
    ValueError: if a setting is unknown or repeated, or if its values are not
      positive, finite and different.
  """
  grid: dict[str, list[float | int]] = {}
  for part in text.split(";"):
    name, _, values = part.partition("=")
    name = name.strip()
    if name not in SETTINGS or name in grid:
      raise ValueError(
        f"grid {text!r}: {part!r} is not another setting with values; write a "
        f"grid such as {config_lib.PAPER_GRID!r}."
      )
    convert, _ = SETTINGS[name]
    try:
      grid[name] = [convert(value) for value in values.split(",")]
    except ValueError as error:
      raise ValueError(
        f"grid {text!r}: {values!r} are not values of {name}; write numbers "
        "with commas between them."
      ) from error
    is_known = all(0 < value < math.inf for value in grid[name])
    if not is_known or len(set(grid[name])) < len(grid[name]):
      raise ValueError(
        f"grid {text!r}: the values of {name} must be positive, finite and "
        "different."
      )
  return grid


def plan(grid: str | None, num_runs: int, seed: int) -> list[Run]:
  """Returns the runs of a sweep, cell by cell; a single cell without a grid.

  Each cell has num_runs runs, with the seeds seed, seed + 1, ...
  """
  parsed = parse_grid(grid) if grid else {}
  runs = []
  for values in itertools.product(*parsed.values()):
    settings = dict(zip(parsed, values))
    cell = "_".join(
      f"{SETTINGS[name][1]}_{repr(value).removesuffix('.0')}"
      for name, value in settings.items()
    )
    for i in range(num_runs):
      folder = os.path.join(cell, f"run_{i}") if num_runs > 1 else cell
      runs.append(Run(cell, folder, settings, seed + i))
  return runs


def run(
  config: Config,
  run_fn: Callable[[Config], Results | None],
  metrics: Sequence[str],
  grid: str | None = None,
  num_runs: int = 1,
  evaluation_flag: str = "do_eval",
) -> Results | None:
  """Fine-tunes for each cell of a grid and each seed; compares the results.

  A single run without a grid uses output_dir itself. Otherwise, each run has
  its own folder there. sweep_runs.tsv has a row for each run. sweep_results.tsv
  has a row for each cell, with the mean and the sample standard deviation of
  the metrics, the best cell first. Finished runs are skipped; if only settings
  of the evaluation have changed, finished runs are evaluated again.

  Args:
    config: the config of every run, except for settings of the grid and seeds.
    run_fn: executes a run; returns its results, or None if a signal ended it.
    metrics: names of results to compare, if any run has them. The config's
      best_metric ranks the cells, or else the first of these names.
    grid: see `plan`.
    num_runs: see `plan`.
    evaluation_flag: the field of the config that requests the results.

  Returns:
    The results of the last run; None if a signal ended it.

  Raises:
    ValueError: if the grid cannot be parsed, if several runs do not both train
      and evaluate, if all of them diverge, or from a run. For a single run,
      also if best_metric is set without evaluations during training.
  """
  if not grid and num_runs == 1:
    config.train.check_best_metric()
    return run_fn(config)
  if not (config.do_train and getattr(config, evaluation_flag)):
    raise ValueError(
      "a grid and several runs compare results on the dev file: set `do_train` "
      f"and `{evaluation_flag}`."
    )
  metric = config.train.best_metric or metrics[0]
  ordered = [metric, *(name for name in metrics if name != metric)]
  runs = plan(grid, num_runs, config.train.seed)
  return _run_all(config, run_fn, ordered, runs)


def _run_all(
  config: Config,
  run_fn: Callable[[Config], Results | None],
  metrics: Sequence[str],
  runs: Sequence[Run],
) -> Results | None:
  """Executes runs and writes the tables; the first metric ranks the cells."""
  output_dir = config.train.output_dir
  finished: list[tuple[Run, Results]] = []
  rows: list[dict[str, Any]] = []
  for number, one_run in enumerate(runs, start=1):
    logging.info("Run %d of %d: %s.", number, len(runs), one_run.folder)
    results = _run_once(_make_config(config, one_run), run_fn, metrics[0])
    if results is None:
      logging.info("%d runs are finished.", len(finished))
      return None
    finished.append((one_run, results))
    _write_table(output_dir, RUNS_FILE, _run_rows(config, finished))
    rows = _cell_rows(config, finished, metrics)
    _write_table(output_dir, RESULTS_FILE, rows)
  if not any(metrics[0] in results for _, results in finished):
    raise ValueError(
      f"all {len(finished)} runs diverged; lower the learning rate and choose "
      "another `output_dir`."
    )
  for row in rows:
    logging.info("%s", ", ".join(f"{name} {row[name]}" for name in row))
  return finished[-1][1]


def _make_config(config: Config, one_run: Run) -> Config:
  """Returns the sweep's config with the folder, seed and settings of a run."""
  settings: dict[str, Any] = dict(one_run.settings)
  epochs = settings.pop("num_train_epochs", config.num_train_epochs)
  folder = os.path.join(config.train.output_dir, one_run.folder)
  train = dataclasses.replace(
    config.train, output_dir=folder, seed=one_run.seed, **settings
  )
  return dataclasses.replace(config, train=train, num_train_epochs=epochs)


def _run_once(
  config: Config, run_fn: Callable[[Config], Results | None], metric: str
) -> Results | None:
  """Executes a run unless it is finished; returns its results.

  Returns:
    The results; {} for a run that diverged. None if a signal ended the run.

  Raises:
    ValueError: if the results lack the metric, since those of all other runs
      would, too; or if the folder has a run trained with other settings.
  """
  path = os.path.join(config.train.output_dir, _RUN_FILE)
  written = _as_json(config)
  if paths.exists(path):
    finished = json_files.read_object(path)
    if finished["config"] == written:
      logging.info("%s is finished.", config.train.output_dir)
      return finished["results"]
    _check_trains_alike(config.train.output_dir, finished["config"], written)
  results = _execute(config, run_fn, metric)
  if results is not None:
    text = json.dumps({"config": written, "results": results}, indent=1)
    atomic.write_lines(path, [text])
  # Frees the run's model and compiled programs.
  keras.utils.clear_session()
  gc.collect()
  return results


def _execute(
  config: Config, run_fn: Callable[[Config], Results | None], metric: str
) -> Results | None:
  """Executes a run; returns and raises as `_run_once`."""
  try:
    results = run_fn(config)
  except divergence.DivergedError as error:
    logging.warning("%s This run counts as failed.", error)
    return {}
  if results is not None and metric not in results:
    has = ", ".join(sorted(results)) or "none"
    raise ValueError(
      f"{config.train.output_dir} has no result {metric} to compare, it has "
      f"{has}; give data with answers, or another `best_metric`."
    )
  return results


def _check_trains_alike(
  folder: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
  """Raises ValueError if a finished run was trained with other settings.

  Such a run would only be evaluated again, and the tables would show its
  results under the new settings.
  """
  before, now = (
    {k: v for k, v in {**c, **c["train"]}.items() if k not in _NOT_TRAINED}
    for c in (before, now)
  )
  # The config of an earlier version may lack settings, which were then off.
  differing = sorted(
    name
    for name in before | now
    if before.get(name) != now.get(name) and (name in before or now[name])
  )
  if differing:
    raise ValueError(
      f"{folder} was trained with other values of {', '.join(differing)}; "
      "choose another `output_dir`."
    )


def _as_json(config: config_lib.FineTuningConfig) -> dict[str, Any]:
  """Returns the config as JSON, without output_dir."""
  value = json.loads(json.dumps(dataclasses.asdict(config)))
  del value["train"]["output_dir"]
  return value


def _settings(
  config: config_lib.FineTuningConfig, one_run: Run
) -> dict[str, float | int]:
  """Returns the settings of a run that a grid can vary."""
  own = _make_config(config, one_run)
  return {
    "train_batch_size": own.train.train_batch_size,
    "learning_rate": own.train.learning_rate,
    "num_train_epochs": own.num_train_epochs,
  }


def _run_rows(
  config: config_lib.FineTuningConfig,
  finished: Sequence[tuple[Run, Results]],
) -> list[dict[str, Any]]:
  """Returns a row for each run: folder, settings, seed and all results."""
  names = sorted({name for _, results in finished for name in results})
  return [
    {
      "folder": one_run.folder,
      **_settings(config, one_run),
      "seed": one_run.seed,
      **{name: results.get(name, math.nan) for name in names},
    }
    for one_run, results in finished
  ]


def _cell_rows(
  config: config_lib.FineTuningConfig,
  finished: Sequence[tuple[Run, Results]],
  metrics: Sequence[str],
) -> list[dict[str, Any]]:
  """Returns a row for each cell, the best mean first.

  Cells with a failed run, whose mean is NaN, come last.
  """
  metric, *others = metrics
  sign = -1.0 if evaluation.is_better(metric, 0.0, 1.0) else 1.0
  others = [name for name in others if any(name in r for _, r in finished)]
  rows = []
  for _, pairs in itertools.groupby(finished, key=lambda pair: pair[0].cell):
    group = list(pairs)
    values = [results.get(metric, math.nan) for _, results in group]
    # NaN is worse than any number.
    ranks = [-math.inf if math.isnan(v) else sign * v for v in values]
    best = ranks.index(max(ranks))
    other_results: dict[str, float] = {}
    for name in others:
      other_values = [results.get(name, math.nan) for _, results in group]
      other_results |= _mean_and_spread(name, other_values)
    rows.append(
      {
        **_settings(config, group[0][0]),
        "num_runs": len(values),
        **_mean_and_spread(metric, values),
        f"{metric}_best": values[best],
        "best_run": group[best][0].folder,
        **other_results,
      }
    )

  def rank(row: Mapping[str, Any]) -> float:
    mean = row[f"{metric}_mean"]
    return math.inf if math.isnan(mean) else -sign * mean

  return sorted(rows, key=rank)


def _mean_and_spread(name: str, values: Sequence[float]) -> dict[str, float]:
  """Returns the mean and the sample standard deviation of a result.

  The deviation is NaN for a single value, or if a value is not finite.
  """
  is_known = len(values) > 1 and all(map(math.isfinite, values))
  spread = statistics.stdev(values) if is_known else math.nan
  return {f"{name}_mean": statistics.fmean(values), f"{name}_std": spread}


def _write_table(
  output_dir: str, name: str, rows: Sequence[Mapping[str, Any]]
) -> None:
  """Writes rows with the same keys as a TSV file with a header."""
  lines = ["\t".join(rows[0])]
  lines += ["\t".join(str(value) for value in row.values()) for row in rows]
  atomic.write_lines(os.path.join(output_dir, name), lines)
