"""Converts models to the original's or Hugging Face's format; slims them."""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np

from bert_tf.checkpoint import (
  checkpoint_names,
  checkpoints,
  run_info,
  sentence_transformers,
  weights,
)
from bert_tf.checkpoint.convert import hugging_face_writer, pretrained
from bert_tf.checkpoint.model_folder import ModelFolder


def convert(
  source: ModelFolder, target: str, target_format: str = "original"
) -> pretrained.Pretrained:
  """Writes a model of any format in another one, without optimizer's state.

  Args:
    source: the model to read.
    target: the prefix of a checkpoint of the original, with run.json, config
      and vocabulary beside it; for "hf", a folder.
    target_format: "original", or "hf" for Hugging Face's.

  Returns:
    The model as it is written.

  Raises:
    ValueError: if the source is damaged or no BERT, if the target format cannot
      hold it, or if the target has other files.
    ImportError: for hf, without the package safetensors.
  """
  model = pretrained.read(source)
  if target_format == "hf":
    model.config.check_bidirectional(str(source.weights))
    hugging_face_writer.write(model, target)
  else:
    pretrained.write(model, target)
  return model


def find_format(path: str) -> str:
  """Returns the format of a model's weights, as in CheckpointReader."""
  return checkpoints.CheckpointReader(weights.find_weights(path)).format


def slim(path: str, target: str, average_last: int = 1) -> list[str]:
  """Writes the means of a run's newest checkpoints, and the files beside them.

  Leaves out an optimizer's state. If several are averaged, run.json loses its
  scores, unless it stays in the same folder.

  Returns:
    Prefixes of the checkpoints that were read.

  Raises:
    ValueError: if there are too few checkpoints, if one is damaged or is the
      target, or if files of another model are beside the target.
  """
  # Step 0 is untrained, and so would only spoil the mean.
  listed = [
    p for p in checkpoints.list_checkpoints(path) if not p.endswith("-0")
  ]
  prefixes = listed[:average_last] or [weights.find_weights(path)]
  if len(prefixes) < average_last:
    raise ValueError(
      f"`average_last={average_last}` needs as many trained checkpoints, but "
      f"{path} has {len(listed)}."
    )
  if os.path.abspath(target) in map(os.path.abspath, prefixes):
    raise ValueError(f"`output_checkpoint` {target} is the input.")
  newest_reader = checkpoints.CheckpointReader(prefixes[0])
  checkpoint_names.check_is_bert(prefixes[0], newest_reader.shapes)
  source, folder = (
    run_info.get_folder(prefixes[0]),
    os.path.dirname(target) or ".",
  )
  if os.path.abspath(source) != os.path.abspath(folder):
    contents, run = run_info.read_files(source), run_info.read_run(source)
    newest = checkpoints.find_latest(source) or prefixes[0]
    if run and prefixes != [newest]:
      run = dataclasses.replace(run, scores={})
      contents[run_info.RUN_FILE] = run_info.to_json(run)
    encoder_files = sentence_transformers.read_files(source)
    pretrained.write_contents(folder, {**encoder_files, **contents})
  average(prefixes, target)
  return prefixes


def average(prefixes: Sequence[str], target: str) -> None:
  """Writes a checkpoint with the means of several, without optimizer slots.

  Raises:
    ValueError: if a checkpoint is missing or damaged, or lacks a variable.
  """
  readers = [checkpoints.CheckpointReader(prefix) for prefix in prefixes]
  means = {}
  for name in checkpoint_names.parameters(readers[0].shapes):
    # In float64, the mean of equal values is exactly this value.
    values = [reader.get(name) for reader in readers]
    mean = np.sum(values, axis=0, dtype=np.float64) / len(readers)
    means[name] = mean.astype(values[0].dtype)
  checkpoints.write(target, means)
