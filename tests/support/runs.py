"""Helpers for tests of runs: a small model, logs, results, errors."""

import contextlib
import io
import logging as python_logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from absl import logging

from bert_tf.training import config as training_config

# A model for tests/golden/tiny/vocab.txt.
CONFIG = {
  "vocab_size": 500,
  "hidden_size": 16,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 32,
  "max_position_embeddings": 32,
  "type_vocab_size": 2,
  # 0.02 suits models forty times as wide.
  "initializer_range": 0.1,
}


def train_config(output_dir, **changes):
  """Returns the settings of a short fine-tuning."""
  return training_config.FineTuningTrainConfig(
    output_dir=str(output_dir),
    **{
      "train_batch_size": 8,
      "learning_rate": 3e-3,
      "num_train_steps": 1,
      "num_warmup_steps": 0,
      "log_every_steps": 1,
      "use_xla": False,
      **changes,
    },
  )


@contextlib.contextmanager
def logged() -> Iterator[Callable[[], str]]:
  """Yields a function that returns what was logged in this context."""
  stream = io.StringIO()
  handler = python_logging.StreamHandler(stream)
  logger = logging.get_absl_logger()
  level = logger.level
  logger.addHandler(handler)
  logger.setLevel(python_logging.INFO)
  try:
    yield stream.getvalue
  finally:
    logger.removeHandler(handler)
    logger.setLevel(level)


def results(folder: pathlib.Path, name: str = "eval_results.txt"):
  """The results in a file of a run, by name."""
  lines = (folder / name).read_text().splitlines()
  return {k: float(v) for k, v in (line.split(" = ") for line in lines)}


def assert_refused(
  run: Callable[[Any], None], config: Any, expected: str
) -> None:
  """Asserts that a run raises a one-line error before it writes files."""
  with pytest.raises(ValueError) as error:
    run(config)
  assert expected in str(error.value)
  assert "\n" not in str(error.value)
  assert not pathlib.Path(config.train.output_dir).exists()
