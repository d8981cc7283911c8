"""Report that shows each of our tables next to the published one."""

import math
import os
from collections.abc import Iterator, Sequence

from absl import logging

from bert_tf.files import atomic, paths
from research import markdown, rows
from research.ablations import comparisons, plots, runs, scales, variants
from research.ablations import config as config_lib
from research.ablations import experiments as experiments_lib
from research.curves import reference_curves

FILE = "report.md"

_MINUS = "\N{MINUS SIGN}"

_HOW_TO_READ = (
  "Our results are the mean \N{PLUS-MINUS SIGN} the sample standard deviation "
  "over the seeds. Each difference is to the named baseline, with the 95% "
  "interval of Welch's t test over the seeds. A difference whose interval "
  "includes 0 is within the spread and shows nothing. `agrees` and `differs` "
  "compare only the sign with the published difference. By chance, about 1 in "
  "20 intervals excludes 0. All runs share the development sets, so the spread "
  "does not cover the choice of examples."
)

_INCOMPARABLE = (
  " Losses of different objectives predict different tokens and are not "
  "comparable."
)


def run(config: config_lib.AblationsConfig) -> None:
  """Writes the report from existing rows, for all tasks."""
  scale = config.chosen_scale
  tasks = [fine_tuning.task for fine_tuning in scale.fine_tunings]
  write(config, experiments_lib.build(config.experiments, scale, tasks))


def write(
  config: config_lib.AblationsConfig,
  experiments: Sequence[variants.Experiment],
) -> None:
  """Writes report.md, the plots and the reference curves into output_dir."""
  scale = config.chosen_scale
  all_rows = rows.read_all(config.rows, runs.Row)
  if not all_rows:
    raise ValueError(f"{config.rows} has no rows; set `rows_dir`.")
  selected = comparisons.select_usual_data(all_rows)
  if len(selected) < len(all_rows):
    logging.warning(
      "%d rows in %s are left out, because most have another text or other "
      "task data.",
      len(all_rows) - len(selected),
      config.rows,
    )
  results = [comparisons.compare(e, scale.seeds, selected) for e in experiments]
  paths.make_folder(os.path.join(config.output_dir, "plots"))
  blocks = [*_summarize(scale, results, selected)]
  for comparison in results:
    if comparison.experiment.name == "curves":
      for name, same in comparison.pretrainings.items():
        folder = os.path.join(config.output_dir, "curves")
        reference_curves.write(folder, plots.make_reference(name, same))
    blocks += _section(comparison, config.output_dir)
  path = os.path.join(config.output_dir, FILE)
  atomic.write_lines(path, [f"{block}\n" for block in blocks])
  logging.info("Wrote %s.", path)


def _summarize(
  scale: scales.Scale,
  results: Sequence[comparisons.Comparison],
  selected: Sequence[runs.Row],
) -> Iterator[str]:
  """Yields the title, the settings, and a table that counts the verdicts."""
  base = scale.base
  yield f"# Ablations at the scale {scale.name}"
  num_finished = sum(comparison.num_finished for comparison in results)
  num_planned = sum(comparison.num_planned for comparison in results)
  yield (
    f"{num_finished} of {num_planned} runs are finished. A run of several "
    "experiments counts in each. The base model has "
    f"{base.num_hidden_layers} layers, hidden size {base.hidden_size}, "
    f"{base.num_attention_heads} attention heads and at most "
    f"{base.vocab_size:,} word pieces. Pre-training takes "
    f"{base.num_train_steps:,} steps of {base.train_batch_size} sequences with "
    f"{base.max_seq_length} word pieces. The seeds are "
    f"{', '.join(map(str, scale.seeds))}."
  )
  yield _HOW_TO_READ
  lines = []
  for comparison in results:
    verdicts = [d.verdict for d in comparison.differences()]
    lines.append(
      [
        comparison.experiment.title,
        f"{comparison.num_finished} of {comparison.num_planned}",
        *(str(verdicts.count(name)) for name in comparisons.VERDICTS),
      ]
    )
  yield markdown.format_table(
    ("experiment", "runs done", *comparisons.VERDICTS), lines
  )
  if selected:
    seconds = sum(row.seconds for row in selected)
    versions = sorted({rows.describe_versions(r) for r in selected})
    machines = sorted({row.machine for row in selected})
    yield (
      f"The {len(selected)} rows took {seconds / 3600:.1f} hours on "
      f"{' and '.join(machines)}, with {'; '.join(versions)}."
    )


def _section(
  comparison: comparisons.Comparison, output_dir: str
) -> Iterator[str]:
  """Yields the Markdown blocks of an experiment; writes its plots."""
  experiment, failures = comparison.experiment, comparison.errors
  yield f"## {experiment.title}"
  num_failed = f", {len(failures)} failed" if failures else ""
  yield (
    f"{experiment.question} ({comparison.num_finished} of "
    f"{comparison.num_planned} runs are finished{num_failed}.)"
  )
  if comparison.cells:
    yield "### Here"
    lines = []
    for variant in experiment.variants:
      cells = [
        comparison.cells.get((variant.label, c)) for c in experiment.columns
      ]
      texts = (markdown.format_mean(cell) if cell else "" for cell in cells)
      lines.append([variant.label, *texts])
    yield markdown.format_table(("", *experiment.columns), lines)
    yield from _draw_plots(comparison, output_dir)
  published = experiment.published
  if published:
    yield f"### Published: {published.place}"
    if published.numbers:  # Figures have no table.
      yield _published_table(comparison)
    yield f"{published.source}. {published.note}"
  differences = comparison.differences()
  if differences:
    yield "### Differences"
    yield markdown.format_table(
      ("", "to", "in", "here", "95% interval", "published", ""),
      list(map(_difference_row, differences)),
    )
    yield _describe_differences(differences)
  if experiment.remark:
    yield experiment.remark
  for name, error in failures.items():
    yield f"Failed: `{name}`: {error}"


def _published_table(comparison: comparisons.Comparison) -> str:
  """Returns the published table; adds our names where they differ."""
  published = comparison.experiment.published
  assert published
  columns = dict.fromkeys(c for r in published.numbers.values() for c in r)
  our_rows = {theirs: ours for ours, theirs in published.row_names.items()}
  our_columns = {
    theirs: ours
    for ours, theirs in published.columns(comparison.experiment.columns).items()
  }

  def add_ours(theirs: str, ours: str) -> str:
    return theirs if theirs == ours else f"{theirs} (here {ours})"

  return markdown.format_table(
    ("", *(add_ours(c, our_columns.get(c, c)) for c in columns)),
    [
      [
        add_ours(row, our_rows.get(row, row)),
        *(f"{numbers[c]:g}" if c in numbers else "" for c in columns),
      ]
      for row, numbers in published.numbers.items()
    ],
  )


def _difference_row(difference: comparisons.Difference) -> list[str]:
  low, high = difference.low, difference.high
  published = difference.published
  return [
    difference.variant,
    difference.baseline,
    difference.column,
    format_signed(difference.ours),
    "" if math.isnan(low) else f"{format_signed(low)} to {format_signed(high)}",
    "" if published is None else format_signed(published),
    difference.verdict,
  ]


def format_signed(value: float) -> str:
  """Returns a number with its sign and one decimal, or two below 0.1."""
  text = f"{abs(value):.1f}" if abs(value) >= 0.1 else f"{abs(value):.2f}"
  return f"{_MINUS if value < 0 else '+'}{text}"


def _describe_differences(differences: Sequence[comparisons.Difference]) -> str:
  """Lists the significant differences by verdict; counts the other ones."""
  texts = []
  for verdict, opening in (
    (comparisons.AGREES, "Agrees with the paper"),
    (comparisons.DIFFERS, "Differs from the paper"),
    (comparisons.UNPUBLISHED, "Not in the paper"),
  ):
    shown = "; ".join(
      f"{d.variant} to {d.baseline}, {d.column} {format_signed(d.ours)}"
      for d in differences
      if d.verdict == verdict
    )
    if shown:
      texts.append(f"{opening}: {shown}.")
  num_open = len([d for d in differences if not d.is_significant])
  if num_open:
    texts.append(
      f"{num_open} of {len(differences)} differences are inconclusive."
    )
  return " ".join(texts)


def _draw_plots(
  comparison: comparisons.Comparison, output_dir: str
) -> Iterator[str]:
  """Draws the plots of an experiment and yields their Markdown."""
  name, title = comparison.experiment.name, comparison.experiment.title
  folder = os.path.join(output_dir, "plots")
  if name == "steps":
    draw = plots.draw_steps
    caption = "each line is an objective, each band one standard deviation"
  else:
    draw = plots.draw_results
    caption = "dots are seeds, strokes means, bars one standard deviation"
  draw(os.path.join(folder, f"{name}.png"), comparison)
  yield f"![{title}: {caption}.](plots/{name}.png)"
  # Variants may share pre-trainings; each is drawn once.
  pretrainings: dict[str, Sequence[runs.Row]] = {}
  for label, same in comparison.pretrainings.items():
    if same not in pretrainings.values():
      pretrainings[label] = same
  if not pretrainings:
    return
  remark = "" if comparison.experiment.compares_losses else _INCOMPARABLE
  for axis, axis_title in plots.AXES.items():
    path = os.path.join(folder, f"{name}_by_{axis}.png")
    plots.draw_curves(path, pretrainings, axis)
    yield (
      f"![{title}: pre-training by {axis_title} on a logarithmic scale; bands "
      f"span all seeds.{remark}]"
      f"(plots/{name}_by_{axis}.png)"
    )
