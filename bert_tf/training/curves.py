"""Learning curves: read from a run's TensorBoard events, drawn as a PNG."""

import os

import tensorflow as tf
from absl import logging
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util

from bert_tf.files import atomic, errors, paths

Curves = dict[str, dict[int, float]]

# The curves of each panel; those that a run does not have are left out.
_PANELS = {
  "loss": ("loss", "masked_lm_loss", "next_sentence_loss"),
  "accuracy": ("accuracy", "masked_lm_accuracy", "next_sentence_accuracy"),
  "learning rate": ("learning_rate",),
}


def read(folder: str) -> Curves:
  """Returns {name: {step: value}} of the TensorBoard events in a folder.

  Logs a warning for a damaged file, which is read up to the damage.
  """
  _warn_of_damage(folder)
  events = event_accumulator.EventAccumulator(
    folder, size_guidance={event_accumulator.TENSORS: 0}
  )
  events.Reload()
  return {
    name: {
      event.step: float(tensor_util.make_ndarray(event.tensor_proto))
      for event in events.Tensors(name)
    }
    for name in events.Tags()["tensors"]
    if events.SummaryMetadata(name).plugin_data.plugin_name == "scalars"
  }


def _warn_of_damage(folder: str) -> None:
  """Logs a warning for each file of events that cannot be read to its end."""
  for path in paths.matches(os.path.join(folder, "events.out.tfevents.*")):
    try:
      for _ in tf.data.TFRecordDataset(path):
        pass
    except tf.errors.DataLossError:
      logging.warning(
        "%s is damaged or cut short; its events before that are read.", path
      )


def plot(output_dir: str, plot_file: str) -> None:
  """Draws training as lines and evaluation as points, as a PNG file.

  Raises:
    ValueError: if the folder holds no events of a run.
    ImportError: if matplotlib is not installed.
  """
  with errors.needs_extra("drawing", extra="plots"):
    from matplotlib import figure
  training = read(output_dir) if paths.is_folder(output_dir) else {}
  if not training:
    raise ValueError(f"{output_dir} holds no events of a training run.")
  eval_dir = os.path.join(output_dir, "eval")
  evaluation = read(eval_dir) if paths.is_folder(eval_dir) else {}

  picture = figure.Figure(figsize=(15, 4), layout="constrained")
  axes = picture.subplots(1, len(_PANELS))
  for axis, (title, names) in zip(axes, _PANELS.items()):
    for name in names:
      if name in training:
        (line,) = axis.plot(*_points(training[name]), label=name)
        if name in evaluation:
          axis.plot(
            *_points(evaluation[name]),
            "o",
            color=line.get_color(),
            label=f"{name}, held out",
          )
    axis.set(title=title, xlabel="step")
    axis.grid(alpha=0.3)
    axis.legend()
  with atomic.file(plot_file) as unfinished:
    picture.savefig(unfinished, format="png", dpi=100)


def _points(curve: dict[int, float]) -> tuple[list[int], list[float]]:
  return list(curve), list(curve.values())
