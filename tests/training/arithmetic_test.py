"""TF32 and deterministic operations: what they change and what is logged."""

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


def train(base, folder, **settings):
  """Trains a classifier; returns the bytes of its weights and moments."""
  fine_tuning.run(
    own_classification.make(base, folder, train=settings, do_train=True)
  )
  path = checkpoints.find_latest(str(folder))
  return pathlib.Path(f"{path}.data-00000-of-00001").read_bytes()


@pytest.fixture(scope="module")
def usual(base, tmp_path_factory):
  """The folder of a classifier that was trained by default, and its weights."""
  folder = tmp_path_factory.mktemp("usual") / "out"
  return folder, train(base, folder)


def test_tf32_is_float32_on_a_cpu(base, tmp_path, usual):
  assert train(base, tmp_path, precision="tf32") == usual[1]
  assert tf.config.experimental.tensor_float_32_execution_enabled()


def test_a_change_is_logged_and_never_refused(base, tmp_path, usual):
  folder = tmp_path / "out"
  shutil.copytree(usual[0], folder)
  # The loss scale of float16 begins anew.
  for precision in ("tf32", "float16", "float32"):
    with runs.logged() as log:
      train(base, folder, precision=precision)
    is_other = precision != "float32"  # As the command that began the run.
    assert (f"precision=float32`, now {precision}" in log()) == is_other
  assert not tf.config.experimental.tensor_float_32_execution_enabled()


def test_a_deterministic_classifier_equals_the_usual_one_on_a_cpu(
  base, tmp_path, usual
):
  assert not tf_config.is_op_determinism_enabled()
  assert train(base, tmp_path, deterministic=True) == usual[1]
  assert tf_config.is_op_determinism_enabled()
