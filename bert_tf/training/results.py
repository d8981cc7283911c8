"""Writes results files: `key = value` lines, probabilities, predictions."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf.files import atomic, json_files


def write_results(
  path: str, results: Mapping[str, float | int], first: Sequence[str] = ()
) -> None:
  """Writes and logs `key = value` lines, sorted by name; `first` come first."""
  lines = []
  for name in sorted(results, key=lambda name: (name not in first, name)):
    value = results[name]
    # Prints the digits of a float32, as the original does.
    text = str(value) if isinstance(value, int) else str(np.float32(value))
    lines.append(f"{name} = {text}")
    logging.info("  %s = %s", name, text)
  write_lines(path, lines)


def write_probabilities(
  output_dir: str, probabilities: np.ndarray, objects: Iterable[Any]
) -> None:
  """Writes test_results.tsv and predictions.jsonl.

  Args:
    output_dir: folder of the run.
    probabilities: [examples, classes].
    objects: JSON values, one for each example.
  """
  write_lines(
    os.path.join(output_dir, "test_results.tsv"),
    ("\t".join(map(str, row)) for row in probabilities),
  )
  write_lines(
    os.path.join(output_dir, "predictions.jsonl"),
    map(json_files.encode, objects),
  )


def write_lines(path: str, lines: Iterable[str]) -> None:
  """Writes lines to a file and logs its path."""
  atomic.write_lines(path, lines)
  logging.info("Wrote %s.", path)
