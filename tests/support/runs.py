"""Helpers for tests of runs: a small model, defaults, logs, errors."""

import contextlib
import dataclasses
import io
import logging as python_logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from absl import logging

from bert_tf import settings

# A model for tests/golden/tiny/vocab.txt.
CONFIG = {
  "vocab_size": 500,
  "hidden_size": 16,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 32,
  "max_position_embeddings": 32,
  "type_vocab_size": 2,
  "initializer_range": 0.1,
}

# Defaults of run_classifier.py in the original release.
ORIGINAL_DEFAULTS = {
  "data_dir": None,
  "bert_config_file": None,
  "vocab_file": None,
  "output_dir": None,
  "init_checkpoint": None,
  "do_lower_case": True,
  "max_seq_length": 128,
  "do_train": False,
  "do_eval": False,
  "do_predict": False,
  "train_batch_size": 32,
  "eval_batch_size": 8,
  "predict_batch_size": 8,
  "learning_rate": 5e-5,
  "num_train_epochs": 3.0,
  "warmup_proportion": 0.1,
  "save_checkpoints_steps": 1000,
  "iterations_per_loop": 1000,
  "use_tpu": False,
  "tpu_name": None,
  "tpu_zone": None,
  "gcp_project": None,
  "master": None,
  "num_tpu_cores": 8,
}


def flag_defaults(
  run_script: Callable, script: str, config_class: type, cwd: pathlib.Path
) -> dict[str, str | None]:
  """Returns the default of each flag of a script, lower-cased.

  For flags without a default, whose value comes from run.json, returns the
  value that applies without run.json.
  """
  result = run_script(script, "--helpxml", cwd=cwd)
  text = result.stdout[result.stdout.index("<?xml") :]
  defaults = {
    flag.findtext("name"): _default(flag)
    for flag in ElementTree.fromstring(text).iter("flag")
  }
  for field in dataclasses.fields(config_class):
    setting = settings.get_setting(field)
    if setting and setting.is_saved and defaults[field.name] is None:
      defaults[field.name] = str(setting.fallback).lower()
  return defaults


def _default(flag: ElementTree.Element) -> str | None:
  """Returns the default of a flag; absl writes None for a bool without one."""
  text = (flag.findtext("default") or "").lower()
  return None if text in ("", "none") else text


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


def assert_refused(
  run: Callable[[Any], None], config: Any, expected: str
) -> None:
  """Asserts that a run raises a one-line error before it writes files."""
  with pytest.raises(ValueError) as error:
    run(config)
  assert expected in str(error.value)
  assert "\n" not in str(error.value)
  assert not pathlib.Path(config.train.output_dir).exists()
