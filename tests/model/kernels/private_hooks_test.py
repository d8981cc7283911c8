"""Private parts of TensorFlow and Keras that the library uses.

A failure here means that a new version changed one of them: look for another
way in the module that the test names.
"""

import gc
import weakref

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import test_util
from tensorflow.python.util import _pywrap_util_port

from bert_tf.model.kernels import backend, clusters
from bert_tf.model.layers import layer_norm


def test_onednn_layer_norm_exists_wherever_onednn_does():
  has_gpu = bool(tf.config.list_logical_devices("GPU"))
  expected = test_util.IsMklEnabled() and not has_gpu
  assert layer_norm._has_operation() == expected


def test_onednn_layer_norm_is_not_used_if_onednn_is_off(monkeypatch):
  monkeypatch.setattr(_pywrap_util_port, "IsMklEnabled", lambda: False)
  assert not layer_norm._has_operation.__wrapped__()


def test_free_value_frees_a_variable_that_accepts_a_new_value():
  variable = keras.Variable([1.0, 2.0], name="v")
  value = weakref.ref(variable.value)
  backend.free_value(variable)
  gc.collect()
  assert value() is None
  with keras.StatelessScope([(variable, tf.constant([3.0, 4.0]))]):
    np.testing.assert_array_equal(variable + 0.0, [3.0, 4.0])


def test_the_rewrites_that_clusters_turn_off_are_known():
  options = tf.config.optimizer.get_experimental_options()
  tf.config.optimizer.set_experimental_options(
    dict.fromkeys(clusters._REWRITES, True)
  )
  try:
    known = tf.config.optimizer.get_experimental_options()
    assert set(clusters._REWRITES) <= known.keys()
  finally:
    tf.config.optimizer.set_experimental_options(options)
