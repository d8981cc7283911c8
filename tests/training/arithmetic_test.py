"""TF32 and deterministic operations: what they change and what is recorded."""

import json
import pathlib
import shutil

import pytest
import tensorflow as tf
from tensorflow.python.framework import config as tf_config

from bert_tf.checkpoint import checkpoints
from bert_tf.tasks import fine_tuning
from tests.support import own_classification, runs

base = own_classification.base


@pytest.fixture(autouse=True)
def settings_of_the_process():
  """Restores TensorFlow's settings, which a run changes for the process."""
  is_rounded = tf.config.experimental.tensor_float_32_execution_enabled()
  yield
  tf_config.disable_op_determinism()
  tf.config.experimental.enable_tensor_float_32_execution(is_rounded)


def run_json(folder):
  return json.loads((folder / "run.json").read_text())["training"]


def train(base, folder, **settings):
  """Trains a classifier; returns its folder."""
  fine_tuning.run(
    own_classification.make(base, folder, train=settings, do_train=True)
  )
  return folder


def weights(folder):
  """Returns the bytes of the newest weights and moments."""
  path = checkpoints.find_latest(str(folder))
  return pathlib.Path(f"{path}.data-00000-of-00001").read_bytes()


@pytest.fixture(scope="module")
def classifier(base, tmp_path_factory):
  """Returns the folder of a classifier that was trained by default."""
  return train(base, tmp_path_factory.mktemp("usual") / "out")


def test_tf32_is_recorded_and_is_float32_on_a_cpu(base, tmp_path, classifier):
  enabled = tf.config.experimental.tensor_float_32_execution_enabled
  rounded = train(base, tmp_path, precision="tf32")
  assert enabled()
  assert run_json(rounded)["precision"] == "tf32"
  assert run_json(classifier)["precision"] == "float32"
  assert run_json(classifier)["deterministic"] is False
  assert weights(rounded) == weights(classifier)


def test_a_change_is_logged_and_never_refused(base, tmp_path, classifier):
  folder = tmp_path / "out"
  shutil.copytree(classifier, folder)
  with runs.logged() as log:
    train(base, folder, precision="tf32")
  assert "precision=float32`, now tf32" in log()
  assert run_json(folder)["precision"] == "tf32"
  with runs.logged() as log:
    train(base, folder)
  assert "now" not in log()  # As the command that began the run.
  # The loss scale of float16 begins anew.
  train(base, folder, precision="float16")
  assert run_json(folder)["precision"] == "float16"
  train(base, folder)
  assert not tf.config.experimental.tensor_float_32_execution_enabled()
  evaluation = {"precision": "tf32"}  # Not how the weights were trained.
  fine_tuning.run(
    own_classification.make(base, folder, train=evaluation, do_eval=True)
  )
  assert run_json(folder)["precision"] == "float32"


def test_a_deterministic_classifier_equals_the_usual_one_on_a_cpu(
  base, tmp_path, classifier
):
  assert not tf_config.is_op_determinism_enabled()
  train(base, tmp_path, deterministic=True)
  assert tf_config.is_op_determinism_enabled()
  assert weights(tmp_path) == weights(classifier)
  assert run_json(tmp_path)["deterministic"] is True
