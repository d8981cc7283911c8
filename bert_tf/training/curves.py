"""Reads learning curves from TensorBoard events and draws them."""

import glob
import os

import numpy as np
import tensorflow as tf
from absl import logging
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util

from bert_tf import optimization
from bert_tf.files import paths
from bert_tf.model_folder import run_info
from bert_tf.plots import style

Curves = dict[str, dict[int, float]]

_RATE = "learning_rate"
_SCORES = "scores"
_TOTALS = ("precision", "recall", "f1", "exact", "exact_match")
_NOT_DRAWN = (
  "gradient_norm",
  "examples_per_second",
  "instances_per_row",
  "global_step",
)


def read(folder: str) -> Curves:
  """Returns the scalars of the TensorBoard events in a folder.

  A damaged file is read up to the damage and logged as a warning.

  Returns:
    {name: {step: value}} in the order of the steps. A resumed run may have
    repeated some of them; the last value counts.
  """
  _warn_of_damage(folder)
  events = event_accumulator.EventAccumulator(
    folder, size_guidance={event_accumulator.TENSORS: 0}
  )
  events.Reload()
  values = {
    name: {
      event.step: float(tensor_util.make_ndarray(event.tensor_proto))
      for event in events.Tensors(name)
    }
    for name in events.Tags()["tensors"]
    if events.SummaryMetadata(name).plugin_data.plugin_name == "scalars"
  }
  return {name: dict(sorted(curve.items())) for name, curve in values.items()}


def _warn_of_damage(folder: str) -> None:
  """Logs a warning for each damaged events file."""
  pattern = os.path.join(glob.escape(folder), "events.out.tfevents.*")
  for path in paths.matches(pattern):
    try:
      for _ in tf.data.TFRecordDataset(path):
        pass
    except tf.errors.DataLossError:
      logging.warning(
        "%s is damaged or cut short; its events before that are read.", path
      )


def plot(output_dir: str, plot_file: str, width: int = 1200) -> None:
  """Draws training as lines and evaluation as points, with matplotlib.

  Args:
    output_dir: folder of the run.
    plot_file: picture to write, in the format of its suffix.
    width: pixels of the picture.

  Raises:
    ValueError: if the folder has no events, or if matplotlib does not
      write the format of the suffix.
    ImportError: if matplotlib is not installed.
  """
  training = read(output_dir) if paths.is_folder(output_dir) else {}
  if not training:
    raise ValueError(f"{output_dir} holds no events of a training run.")
  eval_dir = os.path.join(output_dir, "eval")
  evaluation = read(eval_dir) if paths.is_folder(eval_dir) else {}
  panels = _panels(training, evaluation)
  with style.picture(plot_file, len(panels), width) as axes:
    for axis, (title, names) in zip(axes, panels.items()):
      axis.set(title=style.format_name(title), xlabel="step")
      for name in names:
        shown = style.format_name(name).removesuffix(f" {title}")
        shown = "total" if name == title and len(names) > 1 else shown
        _draw(axis, shown, training.get(name, {}), evaluation.get(name, {}))
      if title == _RATE:
        _draw_schedule(axis, output_dir)
      elif any(name in evaluation for name in names):
        axis.set_xlabel("step (\N{WHITE CIRCLE} held out)")
      axis.set_xlim(left=0)


def _panels(training: Curves, evaluation: Curves) -> dict[str, list[str]]:
  """Returns the names of the curves in each panel, by the panel's title."""
  names = [n for n in (*training, *evaluation) if n not in _NOT_DRAWN]
  # Scores of one kind of entity or question are only in the results files.
  names = [n for n in names if not any(n.endswith(f"_{m}") for m in _TOTALS)]
  panels: dict[str, list[str]] = {}
  for name in dict.fromkeys(names):
    panels.setdefault(_panel_title(name), []).append(name)
  # Panels have the same order in every picture.
  order = ("loss", "accuracy", _SCORES, _RATE)
  return {title: panels[title] for title in order if title in panels}


def _panel_title(name: str) -> str:
  kinds = ("loss", "accuracy")
  if name == _RATE:
    return name
  return next((kind for kind in kinds if name.endswith(kind)), _SCORES)


def _draw(
  axis: style.Axes,
  name: str,
  trained: dict[int, float],
  evaluated: dict[int, float],
) -> None:
  """Draws the curve of training, the points of evaluations, or both."""
  color = style.line(axis, *_points(trained), name) if trained else None
  if evaluated:
    style.points(axis, *_points(evaluated), "" if trained else name, color)


def _draw_schedule(axis: style.Axes, output_dir: str) -> None:
  """Draws the schedule behind the logged means of the learning rate.

  Unlike the means, it also shows a warm-up that ends before the first log line.
  """
  settings = run_info.training_settings(output_dir)
  names = ("learning_rate", "num_train_steps", "num_warmup_steps")
  if not settings or settings["train_hours"] or settings["train_minutes"]:
    return  # The schedule is unknown or follows a clock.
  peak, num_steps, num_warmup_steps = (settings[name] for name in names)
  schedule = optimization.WarmupLinearDecay(peak, num_steps, num_warmup_steps)
  steps = sorted({0, num_warmup_steps - 1, num_warmup_steps, num_steps} - {-1})
  rates = [float(np.asarray(schedule(tf.constant(s)))) for s in steps]
  (drawn,) = axis.plot(steps, rates, color=style.GRAY, linewidth=5, alpha=0.25)
  drawn.set_zorder(1)
  if num_warmup_steps:
    axis.set_xlabel(f"step (warm-up: {num_warmup_steps:,} steps)")


def _points(curve: dict[int, float]) -> tuple[list[int], list[float]]:
  return list(curve), list(curve.values())
