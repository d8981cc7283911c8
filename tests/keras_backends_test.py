"""Keras on JAX and on PyTorch: as on TensorFlow, where they are installed."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from bert_tf import checkpoints, distribution

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
def of_tensorflow(tmp_path_factory):
  """The folder of the starting checkpoints, and TensorFlow's results."""
  folder = tmp_path_factory.mktemp("backends")
  return folder, run("tensorflow", folder)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_models_losses_optimizer_and_checkpoints_are_the_same(
  backend, of_tensorflow
):
  if importlib.util.find_spec(backend) is None:
    pytest.skip(f"{backend} is not installed: pip install {backend}")
  folder, expected = of_tensorflow
  found = run(backend, folder)
  assert found.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_allclose(found[name], value, atol=1e-5, err_msg=name)
  for kind in KINDS:
    assert f"{kind}/loss" in found
    readers = [
      checkpoints.CheckpointReader(str(folder / name / f"{kind}.ckpt"))
      for name in (backend, "tensorflow")
    ]
    assert readers[0].shapes == readers[1].shapes


def test_what_needs_tensorflow_says_so(monkeypatch):
  monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
  with pytest.raises(ValueError, match="KERAS_BACKEND"):
    distribution.check_backend()
  monkeypatch.undo()
  distribution.check_backend()
