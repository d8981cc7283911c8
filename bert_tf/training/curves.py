"""Reads learning curves from TensorBoard events and draws them."""

import os

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util

from bert_tf.files import paths, plot_style
from bert_tf.training.objective import select_shown

Curves = dict[str, dict[int, float]]  # Values by name and step.

_RATE = "learning_rate"
_SCORES = "scores"
_BETTER = {"loss": "lower is better", "accuracy": "higher is better"}
_UNITS = {"loss": "nats, ", "accuracy": "fraction correct, "}
_NOT_DRAWN = (
  *("gradient_norm", "examples_per_second"),
  *("instances_per_row", "global_step"),
)
# Scores of one kind of entity or question, such as LOC_f1, are not drawn.
_OF_A_KIND = ("_precision", "_recall", "_f1", "_exact", "_exact_match")


def read(folder: str) -> Curves:
  """Reads the scalars of the TensorBoard events in a folder, by step.

  Steps ascend, and the last value counts of those that a resumed run repeated.
  """
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


def plot(output_dir: str, plot_file: str, width: int = 1200) -> None:
  """Draws a run's training as lines and its evaluation as points.

  The suffix of `plot_file` chooses the format; `width` is in pixels. Raises
  ValueError without events or a known suffix, ImportError without matplotlib.
  """
  training, evaluation = (
    read(folder) if paths.is_folder(folder) else {}
    for folder in (output_dir, os.path.join(output_dir, "eval"))
  )
  if not training:
    raise ValueError(f"{output_dir} holds no events of a training run.")
  panels: dict[str, list[str]] = {
    title: [] for title in ("loss", "accuracy", _SCORES, _RATE)
  }
  for name in select_shown({**training, **evaluation}):
    if name not in _NOT_DRAWN and not name.endswith(_OF_A_KIND):
      titles = (t for t in ("loss", "accuracy", _RATE) if name.endswith(t))
      panels[next(titles, _SCORES)].append(name)
  panels = {title: names for title, names in panels.items() if names}
  with plot_style.open_picture(plot_file, len(panels), width) as axes:
    for axis, (title, names) in zip(axes, panels.items()):
      axis.set(title=title.replace("_", " "), xlabel="step")
      # Of a regression, which has no accuracy, the loss is a squared error.
      unit = _UNITS.get(title, "") if "accuracy" in panels else ""
      axis.set_ylabel(unit + _BETTER.get(title, ""))
      for name in names:
        label = name.removesuffix(f"_{title}").replace("_", " ")
        label = "total" if name == title and len(names) > 1 else label
        color = None
        if curve := training.get(name):
          color = plot_style.draw_line(
            axis, list(curve), list(curve.values()), label
          )
        if curve := evaluation.get(name):
          label = "" if color else label
          plot_style.draw_line(
            axis, list(curve), list(curve.values()), label, color, are_rare=True
          )
          axis.set_xlabel("step (line: training, \N{WHITE CIRCLE} held out)")
      axis.set_xlim(left=0)
