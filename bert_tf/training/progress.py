"""Log lines, progress bars and TensorBoard events of a run."""

import datetime
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import tensorflow as tf
import tqdm
from absl import logging

from bert_tf import distribution
from bert_tf.files import atomic
from bert_tf.model.losses import Sums
from bert_tf.training.config import TrainConfig
from bert_tf.training.objective import add_sums, compute_means, select_shown

T = TypeVar("T")

# A training run with at least this many steps has at least as many reports.
_MIN_REPORTS = 20

# Every report is an event for the curves, but a short run logs few of them.
_SECONDS_BETWEEN_LINES = 5


class Progress:
  """Reports a training every log_every_steps, or more often if it is short."""

  def __init__(
    self, config: TrainConfig, first_step: int, num_train_steps: int
  ) -> None:
    self._num_train_steps = num_train_steps
    self._batch_size = config.train_batch_size
    most = (num_train_steps - first_step) // _MIN_REPORTS
    self.log_every_steps = max(1, min(config.log_every_steps, most))
    self._sums: Sums | None = None
    # Step and time at which the current measurement of the speed began.
    self._clock: tuple[int, float] | None = None
    self._said = -math.inf  # When the last line was logged.
    self._writer = events_writer(config.output_dir)
    self._bar = tqdm.tqdm(
      total=num_train_steps,
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

  def add(self, step: int, sums: Sums) -> None:
    """Adds the total sums of a group of steps, of which `step` is the last."""
    self._sums = add_sums(self._sums, sums)
    self._bar.update(step - self._bar.n)
    if self._clock is None:
      # The first group includes compilation, so it is not timed.
      self._clock = (step, time.monotonic())
    if step % self.log_every_steps and step < self._num_train_steps:
      return
    since, start = self._clock
    steps_per_second = (step - since) / max(time.monotonic() - start, 1e-9)
    values = compute_means(self._sums)
    shown = select_shown(values)
    shown.pop("example_loss", None)  # The loss without the class weights.
    parts = [f"{name} {_short(value)}" for name, value in shown.items()]
    on_bar = [f"loss {_short(values['loss'])}"]
    on_bar += [p.replace("_accuracy", "") for p in parts if "accuracy " in p]
    self._bar.set_postfix_str(", ".join(on_bar))
    if steps_per_second:
      # A packed row holds several examples.
      per_row = values.get("instances_per_row", 1.0)
      speed = steps_per_second * self._batch_size * per_row
      values["examples_per_second"] = speed
      left = (self._num_train_steps - step) / steps_per_second
      duration = datetime.timedelta(seconds=int(left))
      parts += [f"{speed:.0f} examples/s", f"{duration} left"]
    now, is_last = time.monotonic(), step >= self._num_train_steps
    if is_last or now - self._said >= _SECONDS_BETWEEN_LINES:
      self.say(f"step {step}/{self._num_train_steps}: {', '.join(parts)}")
      self._said = now
    write_events(self._writer, step, values)
    self._sums = None
    self._clock = (step, time.monotonic())

  def say(self, line: str) -> None:
    """Logs a line, above the progress bar if there is one."""
    if not self._bar.disable:
      self._bar.write(line, file=sys.stderr)  # A log line would break the bar.
    elif distribution.is_chief():
      logging.info("%s", line)

  def exclude(self, seconds: float) -> None:
    """Excludes seconds from the measured speed."""
    if self._clock:
      since, start = self._clock
      self._clock = (since, start + seconds)


def track(
  items: Iterable[T], what: str, unit: str, total: int | None = None
) -> Iterator[T]:
  """Yields items and shows their number on a bar, if there is a terminal."""
  options = {"unit": unit, "dynamic_ncols": True, "disable": not _has_bar()}
  yield from tqdm.tqdm(items, what, total, leave=False, **options)


def _has_bar() -> bool:
  return distribution.is_chief() and sys.stderr.isatty()


def events_writer(folder: str) -> tf.summary.SummaryWriter:
  """A writer of events, which writes only as chief and in a writable folder."""
  if not distribution.is_chief() or not atomic.can_write(folder):
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
