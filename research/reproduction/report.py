"""Report that shows our results next to the published ones."""

import collections
import dataclasses
import json
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence

from absl import logging

from bert_tf.files import atomic, plot_style
from research import markdown, rows, run_plots
from research.reproduction import config as config_lib
from research.reproduction import targets
from research.reproduction import tasks as tasks_lib
from run_scripts import sweep

FILE, PLOT = "report.md", "results.png"

WITHIN, BELOW, ABOVE = "within", "below", "above"
UNDEFINED = "undefined"  # A result of a seed is NaN.
UNPUBLISHED = "no published figure"
NO_RUN = "no run"

_MIN_SPREAD = 0.5  # Points.

_HOW_TO_READ = (
  "Results are in percent: the mean \N{PLUS-MINUS SIGN} the sample standard "
  "deviation over the seeds, and under `best` the result of the seed that is "
  "best on dev. The paper restarted BERT-Large on small data sets and took "
  "that seed (4.1). The table shows the settings with the most seeds and, if "
  "several have as many, the best mean on dev. Other data or weights count as "
  "other settings. A result is `within` the published figure if the figure "
  "lies inside the mean \N{PLUS-MINUS SIGN} max(2 standard deviations, 0.5 "
  "points); otherwise it is `below` or `above` the figure. A result is "
  "`undefined` if it is not a number for one of the seeds, such as the "
  "correlation of constant predictions. Its mean and deviation are those of "
  "the other seeds. `no run` marks figures that nobody has measured here yet. "
  "Published figures are of dev or test sets, as marked. Ours are of dev sets, "
  "except for F1 of CoNLL-2003's test set. Dev results are slightly "
  "optimistic, since they choose the settings."
)

_GLUE = (
  "The average without WNLI is that of the paper's table 1, where MNLI counts "
  "twice. GLUE's score includes WNLI and averages the two results of MNLI, "
  "MRPC, QQP and STS-B first. `reproduce.py` measures neither the pre-training "
  "nor translated test sets."
)

_OPEN = (
  "Nobody has run these models here yet: the table is open. `python "
  "run_scripts/reproduce.py` writes a row for each run; send the rows. Other "
  "released models have no published figures for these tasks."
)

# Names of the results in the report, in its order.
RESULTS = {
  "matthews_correlation": "Matthews correlation",
  "f1": "F1",
  "exact_match": "exact match",
  "eval_accuracy": "accuracy",
  "mm_eval_accuracy": "accuracy, mismatched",
  "pearson": "Pearson correlation",
  "spearman": "Spearman correlation",
  "test_f1": "F1, test set",
  **{
    f"{x}_eval_accuracy": f"accuracy, zero-shot in {x}"
    for x in tasks_lib.LANGUAGES[1:]
  },
  **{
    f"{x}_translated": f"accuracy, {x} translated to en"
    for x in tasks_lib.LANGUAGES[1:]
  },
  "ensemble_exact_match": "exact match, ensemble",
  "ensemble_f1": "F1, ensemble",
  "average": "average without WNLI",
  "score": "score",
  "next_sentence_accuracy": "next-sentence accuracy",
  "": "AX, scored by GLUE's server",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(rows.Row):
  """A run that finished, failed or was interrupted.

  `config` is that of `jobs.Run`. `data` has the hashes of the model's weights
  ("model") and of the task's files.
  """

  commands: list[str]  # With OUT, DATA and MODEL for the folders.


@dataclasses.dataclass(frozen=True)
class Cell:
  """The rows of the best settings of a model and a task."""

  same: Sequence[Row]  # One for each seed.

  @property
  def task(self) -> tasks_lib.Task:
    """The task."""
    return tasks_lib.TASKS[self.same[0].config["task"]]

  def values(self, result: str) -> dict[int, float]:
    """Returns a result by seed, in percent; {} if it was not measured."""
    scale = 1 if self.task.command == "squad" else 100
    return {
      row.seed: scale * row.results[result]
      for row in self.same
      if result in row.results
    }

  @property
  def best_seed(self) -> int:
    """The seed whose dev result is best."""
    values = self.values(self.task.metric)
    return max(
      values, key=lambda s: sweep.goodness(self.task.metric, values[s])
    )

  @property
  def shown_results(self) -> list[str]:
    """The names of the results to show."""
    names = RESULTS
    if self.task.command == "ner":  # Its accuracy counts words.
      names = {name: text for name, text in names.items() if "f1" in name}
    return [name for name in names if self.values(name)]

  @property
  def settings(self) -> str:
    """The settings and seeds, for a table."""
    config = self.same[0].config
    settings = (
      f"batch {config['train_batch_size']}, {config['learning_rate']}, "
      f"{config['num_train_epochs']:g} epochs, length "
      f"{config['max_seq_length']}, seeds "
      f"{', '.join(str(row.seed) for row in self.same)}"
    )
    flags = [f"{name} {value}" for name, value in config["flags"].items()]
    return ", ".join([settings, *flags])


Cells = Mapping[tuple[str, str], Cell]  # By (model, task).


def compare(values: Sequence[float], target: targets.Target) -> str:
  """Returns WITHIN, BELOW, ABOVE or UNDEFINED for the results of the seeds."""
  if not all(map(math.isfinite, values)):
    return UNDEFINED
  mean, spread = sweep.mean_and_spread(values)
  spread = max(_MIN_SPREAD, 2 * spread)  # The first if the second is NaN.
  if mean + spread < target.low:
    return BELOW
  return ABOVE if mean - spread > target.high else WITHIN


def choose_best(all_rows: Sequence[Row]) -> Cells:
  """Returns the best settings by (model, task).

  The settings with the most seeds have precedence, then the best mean on dev;
  NaN is the worst. Rows of other data or weights are other settings.
  """
  cells: dict[tuple[str, str], list[Cell]] = collections.defaultdict(list)
  groups: dict[str, list[Row]] = collections.defaultdict(list)
  for row in all_rows:
    if row.is_finished and row.config["task"] in tasks_lib.TASKS:
      groups[json.dumps([row.config, row.data], sort_keys=True)].append(row)
  for same in groups.values():
    config = same[0].config
    by_seed = sorted(same, key=lambda row: row.seed)
    cells[config["model"], config["task"]].append(Cell(by_seed))

  def rank(cell: Cell) -> tuple[int, float]:
    mean = statistics.fmean(cell.values(cell.task.metric).values())
    return len(cell.same), sweep.goodness(cell.task.metric, mean)

  return {key: max(same, key=rank) for key, same in cells.items()}


def average(best: Cells, model: str, name: str) -> dict[int, float]:
  """Returns an average of targets.AVERAGES for each seed of all its tasks.

  {} if a task has no run. A result that a run lacks counts as NaN.
  """
  groups = targets.AVERAGES[name]
  tasks = {task for group in groups for task, _ in group}
  if not all((model, task) in best for task in tasks):
    return {}
  cells = {task: best[model, task] for task in tasks}
  seeds = [{row.seed for row in cell.same} for cell in cells.values()]
  return {
    seed: statistics.fmean(
      statistics.fmean(
        cells[task].values(result).get(seed, math.nan) for task, result in group
      )
      for group in groups
    )
    for seed in sorted(set.intersection(*seeds))
  }


def write(config: config_lib.ReproductionConfig) -> None:
  """Writes report.md and the plot into output_dir."""
  all_rows = rows.read_all(config.rows, Row)
  if not all_rows:
    raise ValueError(f"{config.rows} has no rows; set `rows_dir`.")
  best = choose_best(all_rows)
  if best:  # Some run is finished.
    draw(os.path.join(config.output_dir, PLOT), best)
  path = os.path.join(config.output_dir, FILE)
  atomic.write_lines(path, [f"{b}\n" for b in _blocks(all_rows, best)])
  logging.info("Wrote %s.", path)


def _blocks(all_rows: Sequence[Row], best: Cells) -> Iterator[str]:
  """Yields the Markdown blocks of the report."""
  yield "# The paper's results, measured"
  yield _HOW_TO_READ
  yield _GLUE
  if best:
    text = "Dots are seeds, strokes means."
    if any(targets.find(*key, cell.task.metric) for key, cell in best.items()):
      text += (
        " Diamonds are published: filled of dev sets, hollow of test sets."
      )
    yield f"![{text}]({PLOT})"
  measured = list(dict.fromkeys(model for model, _ in best))
  released = dict.fromkeys(target.model for target in targets.TARGETS)
  for model in measured:
    yield f"## {model}"
    yield _model_table(model, best)
  yield "## Released models without runs"
  yield _OPEN
  for model in released:
    if model not in measured:
      yield f"### {model}"
      yield _model_table(model, best)
  yield "## Runs"
  if finished := [row for row in all_rows if row.is_finished]:
    yield _run_table(finished)
  for row in all_rows:
    if row.error:
      name = f"{row.config['model']}, {row.config['task']}, seed {row.seed}"
      yield f"Not finished: {name}: `{row.error}`"


def _model_table(model: str, best: Cells) -> str:
  """Returns the lines of each task: its results, then what is not measured."""
  lines: list[list[str]] = []
  for task in tasks_lib.TASKS:
    cell = best.get((model, task))
    shown = cell.shown_results if cell else []
    for result in sorted(RESULTS, key=lambda name: name not in shown):
      if cell and result in shown:
        measured = cell.values(result), cell.best_seed, cell.settings
        lines += _lines(model, task, result, *measured)
      else:
        lines += _lines(model, task, result)
  for name in targets.AVERAGES:
    values = average(best, model, name)
    best_seed = max(
      values, key=lambda s: sweep.goodness(name, values[s]), default=0
    )
    lines += _lines(model, targets.GLUE, name, values, best_seed)
  lines += _lines(model, targets.PRETRAINING, "next_sentence_accuracy")
  header = ("task", "result", "here", "best", "settings", "published", "of")
  return markdown.format_table((*header, "in", ""), lines)


def _lines(
  model: str,
  task: str,
  result: str,
  values: Mapping[int, float] | None = None,
  best_seed: int = 0,
  settings: str = "",
) -> Iterator[list[str]]:
  """Yields a line for each published figure of a result, and one without any.

  `values` are the results by seed; without any, only the figures are shown.
  """
  by_seed = values or {}
  numbers = list(by_seed.values())
  first = [task, RESULTS[result], "", "", settings]
  if numbers:
    first[2] = _format_values(numbers)
  if numbers and result.startswith("ensemble_"):
    first[2] = f"{numbers[0]:.1f} (all seeds)"
  if len(numbers) > 1:
    first[3] = f"{by_seed[best_seed]:.1f} (seed {best_seed})"
  published = targets.find(model, task, result)
  if numbers and not published:
    yield [*first, "", "", "", UNPUBLISHED]
  for target in published:
    verdict = compare(numbers, target) if numbers else NO_RUN
    is_test = target.split == targets.TEST and not result.startswith("test_")
    if numbers and is_test:
      verdict += ", dev against a test target"
    yield [*first, target.published, target.split, target.source, verdict]


def _format_values(values: Sequence[float]) -> str:
  """Returns the mean and the spread of the seeds; counts undefined values."""
  finite = list(filter(math.isfinite, values))
  if not finite:
    return UNDEFINED
  text = markdown.format_mean(finite)
  num_undefined = len(values) - len(finite)
  if num_undefined:
    text += f", {num_undefined} of {len(values)} seeds {UNDEFINED}"
  return text


def _run_table(finished: Sequence[Row]) -> str:
  """Returns a table with the number, time and machine of finished runs."""
  groups: dict[tuple[str, ...], list[Row]] = collections.defaultdict(list)
  for row in finished:
    version = rows.describe_versions(row)
    key = row.config["model"], row.config["task"], row.machine, version
    groups[key].append(row)
  lines = []
  for (model, task, *where), same in groups.items():
    minutes = sum(row.seconds for row in same) / 60 / len(same)
    lines.append([model, task, str(len(same)), f"{minutes:.1f}", *where])
  header = ("model", "task", "runs", "minutes each", "machine", "version")
  return markdown.format_table(header, lines)


def draw(path: str, best: Cells) -> None:
  """Draws a panel per model: a row per task, with its published figures."""
  models = list(dict.fromkeys(model for model, _ in best))
  num_rows = 1 + max(list(m for m, _ in best).count(model) for model in models)
  with plot_style.open_picture(
    path, len(models), 1200, 110 + 34 * num_rows
  ) as panels:
    for axis, model in zip(panels, models):
      drawn = [
        (task, cell.task.metric, cell.values(cell.task.metric))
        for task in tasks_lib.TASKS
        if (cell := best.get((model, task)))
      ]
      if glue := average(best, model, "average"):
        drawn.append((targets.GLUE, "average", glue))
      values = {}
      for place, (task, result, by_seed) in enumerate(drawn):
        label = f"{task}, {RESULTS[result]}"
        values[label] = list(by_seed.values())
        for target in targets.find(model, task, result):
          is_dev = target.split == targets.DEV
          axis.plot(
            (target.low, target.high),
            (place, place),
            "D-",
            color=run_plots.GRAY,
            markersize=5,
            markerfacecolor=run_plots.GRAY if is_dev else "none",
          )
      axis.set(
        title=f"{model} on the tasks: points are seeds, strokes means",
        xlabel="percent (higher is better); published: "
        "\N{BLACK DIAMOND} on dev, \N{WHITE DIAMOND} on test",
      )
      run_plots.rows(axis, values)
