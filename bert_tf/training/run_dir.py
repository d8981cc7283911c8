"""The folder of a run: whose it is, and its files of results."""

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import checkpoints, modeling
from bert_tf.files import atomic


def claim(output_dir: str, bert_config: modeling.BertConfig) -> None:
  """Makes the folder of a run and writes `bert_config.json` into it.

  Raises:
    ValueError: if the folder holds a run of another config.
    OSError: if it cannot be written.
  """
  path = os.path.join(output_dir, "bert_config.json")
  tf.io.gfile.makedirs(output_dir)
  if tf.io.gfile.exists(path):
    found = modeling.BertConfig.from_json_file(path).to_dict()
    given = bert_config.to_dict()
    differing = [
      f"{name} is {found.get(name)} there and {given.get(name)} here"
      for name in sorted({*found, *given})
      if found.get(name) != given.get(name)
    ]
    if differing:
      raise ValueError(
        f"{output_dir} holds a run of another config: {'; '.join(differing)}; "
        "choose another --output_dir."
      )
    return
  atomic.write(path, [bert_config.to_json_string()])


def check_classifier_head(
  output_dir: str, init_checkpoint: str | None, num_labels: int
) -> None:
  """Checks the head of the checkpoint that a classifier will start from.

  Raises:
    ValueError: if output_dir holds a run without a classifier, or if the
      head has another number of labels.
  """
  own = checkpoints.listed(output_dir)
  given = [init_checkpoint] if init_checkpoint else []
  for path in own or given:
    try:
      shapes = checkpoints.CheckpointReader(path).shapes
    except checkpoints.DamagedCheckpointError:
      continue  # The Estimator takes the one before it, or says so.
    head = shapes.get("output_weights")
    if own and head is None:
      raise ValueError(
        f"{output_dir} holds another task's run: {path} has no "
        "output_weights; choose another --output_dir."
      )
    if head and head[0] != num_labels:
      raise ValueError(
        f"{path} has a head of {head[0]} labels, this task needs "
        f"{num_labels}; start from a checkpoint of the same labels, or of "
        "none."
      )
    return


def check_has_head(output_dir: str, name: str) -> None:
  """Checks that the run of a folder, if there is one, is of the same task.

  Args:
    output_dir: folder of the run.
    name: of a variable that only this task's models have.

  Raises:
    ValueError: if the newest whole checkpoint has no such variable.
  """
  for path in checkpoints.listed(output_dir):
    try:
      shapes = checkpoints.CheckpointReader(path).shapes
    except checkpoints.DamagedCheckpointError:
      continue  # The Estimator takes the one before it, or says so.
    if name not in shapes:
      raise ValueError(
        f"{output_dir} holds another task's run: {path} has no {name}; choose "
        "another --output_dir."
      )
    return


def write_results(
  path: str, results: Mapping[str, float | int], first: Sequence[str] = ()
) -> None:
  """Writes and logs `key = value` lines; whole or not at all.

  Args:
    path: file to write.
    results: by name; written in the order of their names.
    first: names that go before all others, where `results` has them.
  """
  lines = []
  for name in sorted(results, key=lambda name: (name not in first, name)):
    value = results[name]
    # The digits of a float32, as the original printed.
    text = str(value) if isinstance(value, int) else str(np.float32(value))
    lines.append(f"{name} = {text}")
    logging.info("  %s = %s", name, text)
  write_lines(path, lines)


def write_lines(path: str, lines: Iterable[str]) -> None:
  """Writes and logs a file of lines; whole or not at all."""
  atomic.write_lines(path, lines)
  logging.info("Wrote %s.", path)
