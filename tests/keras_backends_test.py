"""Keras has to run on TensorFlow; what needs no Keras does not import it."""

import gc
import os
import pathlib
import subprocess
import sys
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model.kernels import backend

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run_python(*arguments, **environment):
  """Runs Python and returns the finished process."""
  return subprocess.run(
    [sys.executable, *arguments],
    env={**os.environ, **environment},
    cwd=ROOT,
    capture_output=True,
    text=True,
  )


def test_another_backend_is_refused(monkeypatch):
  backend.check_tensorflow()
  monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
  with pytest.raises(ValueError, match="KERAS_BACKEND"):
    backend.check_tensorflow()


@pytest.mark.parametrize("backend", ["nonsense", "jax"])
def test_a_command_names_the_backend(backend):
  arguments = ("fill-mask", "--model=tests/golden/tiny", "--text=a")
  result = run_python("-m", "bert_tf", *arguments, KERAS_BACKEND=backend)
  assert result.returncode == 1
  assert len(result.stderr.splitlines()) == 1
  assert backend in result.stderr and "KERAS_BACKEND" in result.stderr


def test_tokenizers_examples_settings_and_downloads_need_no_keras():
  code = "import bert_tf, sys\n"
  code += "bert_tf.FullTokenizer, bert_tf.InputExample, bert_tf.DataProcessor\n"
  code += "bert_tf.download\n"
  code += "assert 'keras' not in sys.modules"
  result = run_python("-c", code)
  assert result.returncode == 0, result.stderr


def test_free_value_frees_a_variable_that_accepts_a_new_value():
  variable = keras.Variable([1.0, 2.0], name="v")
  value = weakref.ref(variable.value)
  backend.free_value(variable)
  gc.collect()
  assert value() is None
  with keras.StatelessScope([(variable, tf.constant([3.0, 4.0]))]):
    np.testing.assert_array_equal(variable + 0.0, [3.0, 4.0])
