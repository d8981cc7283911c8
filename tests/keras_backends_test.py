"""JAX and PyTorch give the results of TensorFlow, if they are installed."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from bert_tf.checkpoint import checkpoints
from bert_tf.model.kernels import backend

ROOT = pathlib.Path(__file__).resolve().parents[1]
KINDS = ("pretraining", "classification", "squad", "ner", "swag")


def run(backend, folder):
  """Runs tests/support/keras_backend_run.py; returns its results by name."""
  subprocess.run(
    [
      *(sys.executable, "-m", "tests.support.keras_backend_run"),
      *(str(folder / "start"), str(folder / backend)),
    ],
    env={**os.environ, "KERAS_BACKEND": backend},
    cwd=ROOT,
    check=True,
  )
  return dict(np.load(folder / f"{backend}.npz"))


@pytest.fixture(scope="module")
def tensorflow_run(tmp_path_factory):
  """Returns the folder of initial checkpoints, and TensorFlow's results."""
  folder = tmp_path_factory.mktemp("backends")
  return folder, run("tensorflow", folder)


def if_installed(backend):
  """A parameter whose test is skipped before TensorFlow's run is made."""
  is_missing = importlib.util.find_spec(backend) is None
  reason = f"{backend} is not installed: pip install {backend}"
  return pytest.param(
    backend, marks=pytest.mark.skipif(is_missing, reason=reason)
  )


@pytest.mark.slow
@pytest.mark.parametrize("backend", [*map(if_installed, ("jax", "torch"))])
def test_models_losses_optimizer_and_checkpoints_match(backend, tensorflow_run):
  folder, expected = tensorflow_run
  results = run(backend, folder)
  assert results.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_allclose(results[name], value, atol=1e-5, err_msg=name)
  for kind in KINDS:
    assert f"{kind}/loss" in results
    readers = [
      checkpoints.CheckpointReader(str(folder / name / f"{kind}.ckpt"))
      for name in (backend, "tensorflow")
    ]
    assert readers[0].shapes == readers[1].shapes


def test_the_check_for_tensorflow_names_the_variable(monkeypatch):
  monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
  with pytest.raises(ValueError, match="KERAS_BACKEND"):
    backend.check_tensorflow()
  monkeypatch.undo()
  backend.check_tensorflow()


def run_python(*arguments, **environment):
  """Runs Python and returns the finished process."""
  return subprocess.run(
    [sys.executable, *map(str, arguments)],
    env={**os.environ, **environment},
    cwd=ROOT,
    capture_output=True,
    text=True,
  )


MISSING = next(
  b for b in ("openvino", "torch", "jax") if not importlib.util.find_spec(b)
)
MODEL = ROOT / "tests" / "golden" / "tiny"


@pytest.mark.parametrize(
  ("backend", "arguments"),
  [
    ("nonsense", ("fill-mask", f"--model={MODEL}", "--text=a")),
    (MISSING, ("inspect", f"--config={MODEL}/bert_config.json")),
    (
      MISSING,
      (
        "classifier",
        f"--model={MODEL}",
        "--output_dir=none",
        "--data_dir=docs",
      ),
    ),
  ],
)
def test_a_command_names_the_backend_that_is_missing(backend, arguments):
  result = run_python("-m", "bert_tf", *arguments, KERAS_BACKEND=backend)
  assert result.returncode == 1
  assert len(result.stderr.splitlines()) == 1
  assert backend in result.stderr and "KERAS_BACKEND" in result.stderr


def test_tokenizers_examples_settings_and_downloads_need_no_keras():
  code = "import bert_tf, sys\n"
  code += "bert_tf.FullTokenizer, bert_tf.InputExample, bert_tf.DataProcessor\n"
  code += "bert_tf.ExtractionConfig, bert_tf.ScoringConfig, bert_tf.download\n"
  code += "assert 'keras' not in sys.modules"
  result = run_python("-c", code)
  assert result.returncode == 0, result.stderr
