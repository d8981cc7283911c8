"""The report: each of our tables beside the one that was published."""

import math
import os
from collections.abc import Iterator, Sequence

from absl import logging

from bert_tf.files import atomic, errors, paths
from bert_tf.plots import reference_curves
from research.ablations import (
  comparisons,
  document,
  plots,
  rows,
  scales,
  variants,
)
from research.ablations import config as config_lib
from research.ablations import experiments as experiments_lib

FILE = "report.md"
PAGE = "report.html"

_MINUS = "\N{MINUS SIGN}"
_PLUS_MINUS = "\N{PLUS-MINUS SIGN}"

_HOW_TO_READ = (
  "A number of ours is the mean over the seeds "
  f"{_PLUS_MINUS} their sample standard deviation. A difference is to the "
  "row that is named, with the 95% interval of Welch's t test over the "
  "seeds: one that holds 0 is within the spread, and says nothing either way. "
  "`agrees` and `differs` are said of the direction alone, where the interval "
  "leaves 0 out; with as many comparisons as here, about one in twenty does so "
  "by chance. The development sets are the same in all runs, so the spread has "
  "nothing of what other examples would change."
)


def check_packages() -> None:
  """Raises ImportError if what draws the plots is missing."""
  with errors.needs_extra("drawing the report", extra="plots"):
    import matplotlib  # noqa: F401


def run(config: config_lib.AblationsConfig) -> None:
  """Writes the report of the rows that there are, of all tasks.

  Raises:
    ValueError: if there are no rows, or for an unknown experiment.
    ImportError: if matplotlib is missing.
    OSError: if a file cannot be written.
  """
  check_packages()
  scale = config.chosen_scale
  if not rows.read_all(config.rows):
    raise ValueError(f"{config.rows} has no rows; set `rows_dir`.")
  every = [fine_tuning.task for fine_tuning in scale.fine_tunings]
  write(config, experiments_lib.build(config.experiments, scale, every))


def write(
  config: config_lib.AblationsConfig,
  experiments: Sequence[variants.Experiment],
) -> None:
  """Writes report.md, report.html and the plots into output_dir.

  Raises:
    OSError: if a file cannot be written.
  """
  scale = config.chosen_scale
  all_rows = rows.read_all(config.rows)
  used = comparisons.one_source(all_rows)
  if len(used) < len(all_rows):
    logging.warning(
      "%d rows in %s are of other text, or other data of a task, than most, "
      "and are left out.",
      len(all_rows) - len(used),
      config.rows,
    )
  found = [comparisons.compare(e, scale.seeds, used) for e in experiments]
  paths.make_folder(os.path.join(config.output_dir, "plots"))
  for one in found:
    if one.experiment.name == "curves":
      for name, same in one.pretrainings.items():
        folder = os.path.join(config.output_dir, "curves")
        reference_curves.write(folder, plots.reference(name, same))
  blocks = [*_opening(scale, found, used)]
  for one in found:
    blocks += _section(one, config.output_dir)
  path = os.path.join(config.output_dir, FILE)
  atomic.write_lines(path, document.markdown(blocks))
  page = document.page(blocks, config.output_dir)
  atomic.write_lines(os.path.join(config.output_dir, PAGE), page)
  logging.info("Wrote %s, and as one page %s.", path, PAGE)


def _opening(
  scale: scales.Scale,
  found: Sequence[comparisons.Comparison],
  used: Sequence[rows.Row],
) -> Iterator[document.Block]:
  """Yields the title, what was run, and the verdicts together."""
  base = scale.base
  yield document.Heading(f"Ablations at the scale {scale.name}", 1)
  num_whole = sum(one.num_whole for one in found)
  num_planned = sum(one.num_planned for one in found)
  yield document.Text(
    f"{num_whole} of {num_planned} runs are done, those of several experiments "
    f"counted in each. The usual model has layers x width "
    f"{base.num_hidden_layers} x {base.hidden_size}, with "
    f"{base.num_attention_heads} heads and at most {base.vocab_size:,} word "
    f"pieces, and is pre-trained for "
    f"{base.num_train_steps:,} steps of {base.train_batch_size} inputs of "
    f"{base.max_seq_length}, with the seeds "
    f"{', '.join(map(str, scale.seeds))}."
  )
  yield document.Text(_HOW_TO_READ)
  yield document.Table(
    ("experiment", "runs done", *_VERDICTS), [_overview(one) for one in found]
  )
  if used:
    seconds = sum(row.seconds for row in used)
    versions = sorted({_version(row) for row in used})
    machines = sorted({row.machine for row in used})
    yield document.Text(
      f"The {len(used)} rows took {seconds / 3600:.1f} hours in all, on "
      f"{' and '.join(machines)}, with {'; '.join(versions)}."
    )


_KINDS = (
  " The losses are of other words in each kind of model, and are not to be "
  "compared."
)

_VERDICTS = (
  comparisons.AGREES,
  comparisons.DIFFERS,
  comparisons.WITHIN,
  comparisons.UNPUBLISHED,
  comparisons.ONE_SEED,
)


def _version(row: rows.Row) -> str:
  commit = row.versions.get("commit")
  of_commit = f" ({commit})" if commit else ""
  return (
    f"bert_tf {row.versions['bert_tf']}{of_commit} on TensorFlow "
    f"{row.versions['tensorflow']}"
  )


def _overview(one: comparisons.Comparison) -> list[str]:
  """Returns the row of an experiment in the first table."""
  counts = comparisons.verdicts(one.differences())
  return [
    one.experiment.title,
    f"{one.num_whole} of {one.num_planned}",
    *(str(counts.get(name, 0)) for name in _VERDICTS),
  ]


def _section(
  one: comparisons.Comparison, output_dir: str
) -> Iterator[document.Block]:
  """Yields the section of an experiment."""
  experiment = one.experiment
  yield document.Heading(experiment.title, 2)
  yield document.Text(f"{experiment.question} {_progress(one)}")
  if one.cells:
    yield document.Heading("Here", 3)
    yield _table(one)
    yield from _pictures(one, output_dir)
  published = experiment.published
  if published:
    yield document.Heading(f"Published: {published.place}", 3)
    if published.numbers:  # Else a figure was published, and no table.
      yield _published_table(one)
    yield document.Text(f"{published.source}. {published.note}")
  differences = one.differences()
  if differences:
    yield document.Heading("Differences", 3)
    yield document.Table(
      ("", "to", "in", "here", "95% interval", "published", ""),
      [_difference_row(d) for d in differences],
    )
    yield document.Text(_summary(differences))
  if experiment.remark:
    yield document.Text(experiment.remark)
  yield from (
    document.Text(f"Failed: `{name}`: {error}")
    for name, error in one.failed.items()
  )


def _progress(one: comparisons.Comparison) -> str:
  failed = f", {len(one.failed)} failed" if one.failed else ""
  return f"({one.num_whole} of {one.num_planned} runs are done{failed}.)"


def _table(one: comparisons.Comparison) -> document.Table:
  """Returns our table."""
  columns = one.experiment.columns
  lines = []
  for variant in one.experiment.variants:
    cells = [one.cells.get((variant.label, column)) for column in columns]
    lines.append([variant.label, *map(_cell, cells)])
  return document.Table(("", *columns), lines)


def _cell(cell: comparisons.Cell | None) -> str:
  """Returns mean and spread, or the one value with its seed."""
  if not cell:
    return ""
  if math.isnan(cell.spread):
    return f"{cell.mean:.1f} (one seed)"
  return f"{cell.mean:.1f} {_PLUS_MINUS} {cell.spread:.1f}"


def _published_table(one: comparisons.Comparison) -> document.Table:
  """Returns the table that was published, our variants beside its rows."""
  published = one.experiment.published
  assert published
  columns = list(
    dict.fromkeys(c for r in published.numbers.values() for c in r)
  )
  ours = {theirs: label for label, theirs in published.row_names.items()}
  lines = []
  for row, numbers in published.numbers.items():
    name = f"{row} (here {ours[row]})" if row in ours else row
    lines.append([name, *(_plain(numbers.get(c)) for c in columns)])
  stand_ins = {
    theirs: mine
    for mine, theirs in published.columns(one.experiment.columns).items()
  }
  header = [
    c if stand_ins.get(c, c) == c else f"{c} (here {stand_ins[c]})"
    for c in columns
  ]
  return document.Table(("", *header), lines)


def _plain(value: float | None) -> str:
  return "" if value is None else f"{value:g}"


def _difference_row(one: comparisons.Difference) -> list[str]:
  """Returns a difference as cells."""
  has_spread = not math.isnan(one.low)
  return [
    one.variant,
    one.baseline,
    one.column,
    signed(one.ours),
    f"{signed(one.low)} to {signed(one.high)}" if has_spread else "",
    "" if one.published is None else signed(one.published),
    one.verdict,
  ]


def signed(value: float) -> str:
  """Returns a number with its sign."""
  text = f"{abs(value):.1f}" if abs(value) >= 0.1 else f"{abs(value):.2f}"
  return f"{_MINUS if value < 0 else '+'}{text}"


def _summary(differences: Sequence[comparisons.Difference]) -> str:
  """Returns what the differences say, as a sentence for each verdict."""
  texts = []
  for verdict, opening in (
    (comparisons.AGREES, "As published"),
    (comparisons.DIFFERS, "Other than published"),
    (comparisons.UNPUBLISHED, "Found here"),
  ):
    found = [d for d in differences if d.verdict == verdict]
    if found:
      shown = "; ".join(
        f"{d.variant} to {d.baseline}, {d.column} {signed(d.ours)}"
        for d in found
      )
      texts.append(f"{opening}: {shown}.")
  num_open = len([d for d in differences if not d.is_real])
  if num_open:
    texts.append(
      f"Of {num_open} of {len(differences)} differences nothing can be said."
    )
  return " ".join(texts)


def _pictures(
  one: comparisons.Comparison, output_dir: str
) -> Iterator[document.Block]:
  """Draws the pictures of an experiment and yields them."""
  name, title = one.experiment.name, one.experiment.title
  draw = plots.draw_steps if name == "steps" else plots.draw_results
  for suffix in ("png", "svg"):
    draw(os.path.join(output_dir, "plots", f"{name}.{suffix}"), one)
  what = (
    "a line an objective, the band one standard deviation of the seeds"
    if name == "steps"
    else "a dot a seed, a stroke the mean, a bar one standard deviation"
  )
  yield document.Picture(f"plots/{name}.png", f"{title}: {what}.")
  if not one.pretrainings:
    return
  kinds = "" if one.experiment.compares_losses else _KINDS
  for axis in plots.AXES:
    for suffix in ("png", "svg"):
      path = os.path.join(output_dir, "plots", f"{name}_by_{axis}.{suffix}")
      plots.draw_curves(path, _told_apart(one), axis)
    yield document.Picture(
      f"plots/{name}_by_{axis}.png",
      f"{title}: pre-training by {plots.AXES[axis]}, on a logarithmic scale; "
      f"the bands are from the lowest to the highest seed.{kinds}",
    )


def _told_apart(one: comparisons.Comparison) -> dict[str, Sequence[rows.Row]]:
  """Returns pre-trainings by label, each once: variants may share them."""
  found: dict[str, Sequence[rows.Row]] = {}
  for label, same in one.pretrainings.items():
    if same not in found.values():
      found[label] = same
  return found
