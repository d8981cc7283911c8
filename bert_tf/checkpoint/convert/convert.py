"""Converts models between the formats in FORMATS, and slims checkpoints."""

import dataclasses
import importlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf import names
from bert_tf.checkpoint import (
  checkpoint_names,
  checkpoints,
  run_info,
  sentence_transformers,
  weights,
)
from bert_tf.checkpoint.convert import pretrained
from bert_tf.checkpoint.model_folder import ModelFolder

# The modules that read and write each format; SUFFIXES end their files' names.
FORMATS: dict[str, Any] = {
  name: importlib.import_module(f"bert_tf.checkpoint.convert.{module}")
  for name, module in names.CHECKPOINT_FORMATS.items()
}


def convert(
  source: ModelFolder,
  source_format: str,
  target: str,
  target_format: str,
) -> pretrained.Pretrained:
  """Writes a model in another format, without an optimizer's state.

  Args:
    source: the model to read.
    source_format: one of FORMATS.
    target: the prefix of a checkpoint, a folder or a .weights.h5 file to write.
      run.json, config and vocabulary go beside it, or into it if it is a
      folder.
    target_format: one of FORMATS.

  Returns:
    The model as it is written.

  Raises:
    ValueError: if the source is damaged or no BERT, if the target format cannot
      hold it, or if the target has other files.
    ImportError: for hf, without the package safetensors.
  """
  model = FORMATS[source_format].read(source)
  if target_format != "original":
    model.config.check_bidirectional(str(source.weights))
  checkpoints.check_finite(str(source.weights), model.tensors)
  FORMATS[target_format].write(model, target)
  return model


def find_format(path: str) -> str:
  """The format of a model's files, one of FORMATS.

  Raises:
    ValueError: if there is no model, or more than one.
  """
  ends = {e: n for n, m in FORMATS.items() for e in getattr(m, "SUFFIXES", ())}
  if not path.endswith(tuple(ends)):
    path = weights.find_weights(path)
  for end, name in ends.items():
    if path.endswith(end):
      return name
  shapes = checkpoints.CheckpointReader(path).shapes
  has_names = checkpoint_names.WORD_EMBEDDINGS in shapes
  has_objects = checkpoints.OBJECT_GRAPH in shapes
  is_foreign = has_objects or checkpoints.is_saved_model(path)
  return "model_garden" if is_foreign and not has_names else "original"


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
  folder = os.path.dirname(target) or "."
  source = run_info.get_folder(prefixes[0])
  contents, run = run_info.read_files(source), run_info.read_run(source)
  newest = checkpoints.find_latest(source) or prefixes[0]
  has_scores = prefixes in ([newest], [source])
  # In the run's own folder, run.json keeps its scores.
  is_own = os.path.abspath(source) == os.path.abspath(folder)
  if run and not has_scores and not is_own:
    run = dataclasses.replace(run, scores={})
    contents[run_info.RUN_FILE] = run_info.to_json(run)
  encoder_files = sentence_transformers.read_files(source)
  pretrained.write_contents(folder, {**encoder_files, **contents})
  average(prefixes, target)
  return prefixes


def average(prefixes: Sequence[str], target: str) -> None:
  """Writes a checkpoint with the means of several, without optimizer slots.

  Leaves out variables that the config beside the first does not imply.

  Raises:
    ValueError: if a checkpoint is missing or damaged, or lacks a variable.
  """
  readers = [checkpoints.CheckpointReader(prefix) for prefix in prefixes]
  first = readers[0]
  kept = checkpoint_names.parameters(first.shapes)
  has_config = run_info.has_config(run_info.get_folder(first.path))
  if checkpoint_names.WORD_EMBEDDINGS in kept and has_config:
    shapes = pretrained.find_shapes(ModelFolder.open(first.path))
    pretrained.warn_of_left_out(first.path, set(kept) - shapes.keys())
    kept = [name for name in kept if name in shapes]
  means = {}
  for name in kept:
    # In float64, the mean of equal values is exactly this value.
    values = [reader.get(name) for reader in readers]
    mean = np.sum(values, axis=0, dtype=np.float64) / len(readers)
    means[name] = mean.astype(values[0].dtype)
  checkpoints.write(target, means)
