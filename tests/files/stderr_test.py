"""Notes of other packages are dropped from stderr, other lines are not."""

import logging
import os
import pathlib
import subprocess
import sys

import pytest
from absl import logging as absl_logging

from bert_tf.files import stderr
from tests.support import tiny_models

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINES = (
  "os.write(2, b'E0 cuda.cc] failed call to cuInit: 303\\nF0 an error\\n')\n"
)


def run(code, **environment):
  """Returns the lines that code writes to stderr in a separate process."""
  result = subprocess.run(
    [sys.executable, "-c", f"import os, sys\n{code}"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    env={k: v for k, v in os.environ.items() if k[:6] != "TF_CPP"}
    | environment,
  )
  assert result.stdout == ""
  return result.stderr.splitlines()


def test_notes_are_dropped_but_not_the_errors_of_a_crash():
  code = (
    "from bert_tf.files import stderr\n"
    "stderr.drop_notes()\n"
    f"{LINES}"
    "print('of Python', file=sys.stderr)\n"
    "os.abort()\n"
  )
  assert sorted(run(code)) == ["F0 an error", "of Python"]


def test_only_the_notes_of_the_scope_are_dropped():
  code = (
    "from bert_tf.files import stderr\n"
    "with stderr.without_notes():\n"
    f"  {LINES}"
    "  print('of Python', file=sys.stderr)\n"
    f"{LINES}"
    "os.close(2)\n"
    "with stderr.without_notes():\n"
    "  pass\n"
  )
  lines = run(code)
  assert lines[:2] == ["F0 an error", "of Python"]
  assert len(lines) == 4 and "cuInit" in lines[2]


# Loads TensorFlow and computes, so that it looks for a GPU.
_USE = (
  "import bert_tf\n"
  "config = bert_tf.BertConfig(vocab_size=9, hidden_size=2,"
  " num_hidden_layers=1, num_attention_heads=1, intermediate_size=2)\n"
  "bert_tf.BertModel(config)\n"
)


def test_a_new_model_and_a_prediction_print_no_notes(tmp_path):
  folder = tiny_models.write_classifier(tmp_path / "model")
  assert run(f"{_USE}bert_tf.load({str(folder)!r}).predict('a')") == []


def test_notes_of_beams_workers_are_dropped_but_not_warnings():
  lines = (
    "INFO:__main__:Logging handler created.",
    "INFO:apache_beam.runners.worker.sdk_worker:Control channel established.",
    "WARNING:root:apitools not found, and bigquery client libraries are not.",
    "WARNING:__main__:No semi_persistent_directory found: registered objects",
    "WARNING:apache_beam:a worker runs out of memory",
  )
  text = "".join(f"{line}\n" for line in lines)
  code = (
    "from bert_tf.files import stderr\n"
    "with stderr.without_notes():\n"
    f"  os.write(2, {text.encode()!r})\n"
  )
  assert run(code) == [lines[-1]]


# Processors without AVX-512 cause the note about halves.
@pytest.mark.parametrize("kind", ["INT64", "HALF"])
def test_notes_of_onednn_about_types_are_dropped(kind):
  text = f"E0 util.cc:131] oneDNN supports DT_{kind} only on some platforms\n"
  code = (
    "from bert_tf.files import stderr\n"
    "with stderr.without_notes():\n"
    f"  os.write(2, {text.encode()!r})\n"
  )
  assert run(code) == []


def test_noise_of_other_packages_is_not_logged(capfd):
  handler = logging.StreamHandler(sys.stderr)
  handler.addFilter(stderr.is_not_noise)
  logger = logging.Logger("other")
  logger.addHandler(handler)
  logger.warning("Failed to import GCSFileSystem; loading will be skipped.")
  logger.warning("Failed to import something else.")
  assert capfd.readouterr().err == "Failed to import something else.\n"


def test_tensorflow_logs_no_notes_in_the_scope(capfd):
  logger = logging.getLogger("tensorflow")
  levels = logger.level, absl_logging.get_verbosity()
  absl_logging.set_verbosity(absl_logging.INFO)
  with stderr.without_tensorflow_log():
    absl_logging.info("a note")
    assert not logger.isEnabledFor(logging.INFO)
    assert logger.isEnabledFor(logging.WARNING)
  assert absl_logging.get_verbosity() == absl_logging.INFO
  absl_logging.set_verbosity(levels[1])
  assert logger.level == levels[0]
  assert "a note" not in capfd.readouterr().err


def test_notes_appear_if_the_environment_asks_for_them():
  lines = run(_USE, TF_CPP_MIN_LOG_LEVEL="0", TF_ENABLE_ONEDNN_OPTS="1")
  assert any("oneDNN" in line for line in lines)


@pytest.mark.parametrize(
  ("level", "verbosity", "is_shown"),
  [("0", "info", True), ("2", "info", False), ("2", "debug", True)],
)
def test_a_command_shows_notes_on_demand(level, verbosity, is_shown):
  code = (
    "from absl import logging\n"
    "from bert_tf.cli import command\n"
    "from bert_tf.files import stderr\n"
    f"logging.set_verbosity('{verbosity}')\n"
    "command._start_log()\n"
    "with stderr.without_notes():\n"
    f"  {LINES}"
  )
  lines = run(code, TF_CPP_MIN_LOG_LEVEL=level)
  assert any("cuInit" in line for line in lines) == is_shown
  assert "F0 an error" in lines
