"""Log lines, progress bars and TensorBoard events of a run."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import tensorflow as tf
import tqdm
from absl import logging

from bert_tf import distribution
from bert_tf.losses import Sums
from bert_tf.training import budget as budget_lib
from bert_tf.training import objective as objective_lib

T = TypeVar("T")

# Minimum number of reports of a training run with at least this many steps.
_MIN_REPORTS = 20

# Seconds between two log lines of `track`, if there is no terminal.
_SECONDS_BETWEEN_LINES = 30


class Progress:
  """Reports the progress of a training run at least every log_every_steps.

  Args:
    output_dir: folder of the run, for events.
    first_step: steps of earlier runs.
    budget: the run's budget.
    batch_size: examples in a batch.
    log_every_steps: maximum of steps between two reports.
  """

  def __init__(
    self,
    output_dir: str,
    first_step: int,
    budget: budget_lib.Budget,
    batch_size: int,
    log_every_steps: int,
  ) -> None:
    self._first_step = first_step
    self._budget = budget
    self._batch_size = batch_size
    self._log_every_steps = log_every_steps
    self._sums: Sums | None = None
    # Step and time at which the current measurement of the speed began.
    self._clock: tuple[int, float] | None = None
    self._writer = events_writer(output_dir)
    self._bar = tqdm.tqdm(
      total=budget.num_steps,
      initial=first_step,
      desc="training",
      unit="step",
      dynamic_ncols=True,
      disable=not _has_bar(),
    )

  def __enter__(self) -> "Progress":
    return self

  def __exit__(self, *unused_error: object) -> None:
    self._bar.close()
    self._writer.close()

  @property
  def log_every_steps(self) -> int:
    """Steps between two reports; fewer in a short run."""
    num_steps = self._budget.num_steps
    if num_steps is None:
      return self._log_every_steps
    most = (num_steps - self._first_step) // _MIN_REPORTS
    return max(1, min(self._log_every_steps, most))

  def add(self, step: int, sums: Sums) -> None:
    """Adds the sums of a group of steps; reports if a report is due.

    Args:
      step: the last step of the group.
      sums: totals over the group.
    """
    totals = objective_lib.add(self._sums, sums)
    self._sums = totals
    self._bar.update(step - self._bar.n)
    if self._clock is None:
      # The first group includes compilation, so it is not timed.
      self._clock = (step, time.monotonic())
    is_last = not self._budget.steps_left(step)
    if step % self.log_every_steps == 0 or is_last:
      self._report(step, objective_lib.means(totals))
      self._sums = None
      self._clock = (step, time.monotonic())

  def say(self, line: str) -> None:
    """Logs a line, above the progress bar if there is one."""
    if not distribution.is_chief():
      return
    if self._bar.disable:
      logging.info("%s", line)
    else:
      # A log line would break the bar.
      self._bar.write(line, file=sys.stderr)

  def exclude(self, seconds: float) -> None:
    """Excludes seconds from the measurement of the speed."""
    if self._clock:
      since, start = self._clock
      self._clock = (since, start + seconds)

  def _report(self, step: int, values: dict[str, float]) -> None:
    """Reports means and speed: as a log line, on the bar and as events."""
    since, start = self._clock or (step, time.monotonic())
    steps_per_second = (step - since) / max(time.monotonic() - start, 1e-9)
    parts = [f"{name} {_short(value)}" for name, value in values.items()]
    shown = [p for p in parts if p.startswith("loss ") or "accuracy " in p]
    self._bar.set_postfix_str(", ".join(shown).replace("_accuracy", ""))
    if steps_per_second:
      # A packed row holds several examples.
      per_row = values.get("instances_per_row", 1.0)
      speed = steps_per_second * self._batch_size * per_row
      values["examples_per_second"] = speed
      left = self._budget.seconds_left(step, 1 / steps_per_second)
      parts += [f"{speed:.0f} examples/s", f"{_duration(left)} left"]
    self.say(f"step {self._budget.describe(step)}: {', '.join(parts)}")
    write_events(self._writer, step, values)


def track(
  items: Iterable[T], what: str, unit: str, total: int | None = None
) -> Iterator[T]:
  """Yields items and shows their number, on a bar or as log lines.

  Args:
    items: items to yield.
    what: the activity, for example "evaluating".
    unit: the name of an item, for example "batch".
    total: number of items; None if unknown.
  """
  if _has_bar():
    yield from tqdm.tqdm(
      items, what, total, leave=False, unit=unit, dynamic_ncols=True
    )
    return
  due = time.monotonic() + _SECONDS_BETWEEN_LINES
  for number, item in enumerate(items, start=1):
    yield item
    if time.monotonic() >= due and distribution.is_chief():
      of_total = f" of {total}" if total else ""
      logging.info("%s: %s %d%s", what, unit, number, of_total)
      due = time.monotonic() + _SECONDS_BETWEEN_LINES


def _has_bar() -> bool:
  """Returns whether to show bars: only by the chief, on a terminal."""
  return distribution.is_chief() and sys.stderr.isatty()


def events_writer(folder: str) -> tf.summary.SummaryWriter:
  """Returns a writer of events to a folder; only the chief's writes."""
  if not distribution.is_chief():
    return tf.summary.create_noop_writer()
  return tf.summary.create_file_writer(folder)


def write_events(
  writer: tf.summary.SummaryWriter, step: int, values: Mapping[str, float]
) -> None:
  """Writes scalars for TensorBoard."""
  with writer.as_default(step):
    for name, value in values.items():
      tf.summary.scalar(name, value)
  writer.flush()


def _short(value: float) -> str:
  return f"{value:.4f}" if 1e-3 <= abs(value) < 1e3 else f"{value:.3g}"


def _duration(seconds: float) -> str:
  minutes, seconds = divmod(int(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"
