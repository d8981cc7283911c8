"""Tests for the variables that commands set for a TPU."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = (
  "PJRT_DEVICE",
  "NEXT_PLUGGABLE_DEVICE_USE_C_API",
  "TF_PLUGGABLE_DEVICE_LIBRARY_PATH",
)
# Stops at the import of TensorFlow and prints the variables it would read.
PROGRAM = f"""
import json, os, sys

class Finder:
  def find_spec(self, name, path=None, target=None):
    if name == "tensorflow":
      print(json.dumps([os.environ.get(name) for name in {NAMES}]), flush=True)
      os._exit(0)

sys.meta_path.insert(0, Finder())
from bert_tf.cli import run_pretraining
run_pretraining.run()
"""


@pytest.fixture
def libtpu(tmp_path):
  """Returns the path of a fake module libtpu."""
  package = tmp_path / "libtpu"
  package.mkdir()
  library = package / "libtpu.so"
  library.touch()
  (package / "__init__.py").write_text(
    f"def get_library_path(): return {str(library)!r}"
  )
  return library


def read_variables(*flags, path="", **environment):
  """Returns the values of NAMES just before TensorFlow is imported."""
  clean = {k: v for k, v in os.environ.items() if k not in NAMES}
  arguments = ["--input_file=x", "--output_dir=y", *flags]
  result = subprocess.run(
    [sys.executable, "-c", PROGRAM, *arguments],
    env=clean | environment | {"PYTHONPATH": f"{ROOT}{os.pathsep}{path}"},
    capture_output=True,
    text=True,
  )
  assert result.returncode == 0, result.stderr
  return json.loads(result.stdout)


@pytest.mark.parametrize(
  ("flags", "has_libtpu", "is_set"),
  [
    (("--use_tpu",), True, True),
    (("--use_tpu", "--tpu_name=local"), True, True),
    (("--use_tpu",), False, False),
    ((), True, False),
    (("--use_tpu", "--tpu_name=grpc://1.2.3.4:8470"), True, False),
  ],
)
def test_only_a_local_tpu_is_used_through_pjrt(
  flags, has_libtpu, is_set, libtpu
):
  expected = ["TPU", "true", str(libtpu)] if is_set else [None, None, None]
  path = libtpu.parents[1] if has_libtpu else ""
  assert read_variables(*flags, path=path) == expected


def test_set_variables_are_kept(libtpu):
  values = {NAMES[1]: "false", NAMES[2]: "/opt/libtpu.so"}
  found = read_variables("--use_tpu", path=libtpu.parents[1], **values)
  assert found == ["TPU", "false", "/opt/libtpu.so"]
