"""Files of results: `key = value` lines and lines of a task's own."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf.files import atomic, json_text


def write_results(
  path: str, results: Mapping[str, float | int], first: Sequence[str] = ()
) -> None:
  """Writes and logs `key = value` lines, sorted by name, some `first`."""
  lines = []
  for name in sorted(results, key=lambda name: (name not in first, name)):
    value = results[name]
    # The digits of a float32, as the original printed.
    text = str(value) if isinstance(value, int) else str(np.float32(value))
    lines.append(f"{name} = {text}")
    logging.info("  %s = %s", name, text)
  write_lines(path, lines)


def write_probabilities(
  output_dir: str, probabilities: np.ndarray, objects: Iterable[Any]
) -> None:
  """Writes test_results.tsv and, a line of JSON each, predictions.jsonl."""
  write_lines(
    os.path.join(output_dir, "test_results.tsv"),
    ("\t".join(map(str, row)) for row in probabilities),
  )
  write_lines(
    os.path.join(output_dir, "predictions.jsonl"),
    map(json_text.encode, objects),
  )


def write_lines(path: str, lines: Iterable[str]) -> None:
  """Writes a file of lines and logs that it did."""
  atomic.write_lines(path, lines)
  logging.info("Wrote %s.", path)
