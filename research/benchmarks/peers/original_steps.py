"""Times steps of google-research/bert in a session of TensorFlow 1.

A process of `benchmark.py train` and `forward`. Imports the unchanged files of
`original_dir`, a checkout of google-research/bert. TensorFlow 2 still runs
TensorFlow 1 graphs, and tf_keras provides the layers of TensorFlow 1. Only
`layer_norm` of tf.contrib is missing, so this module defines it.
"""

import importlib
import os
import sys
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import step_timing
import tensorflow as tf

tf1 = tf.compat.v1
_EPSILON = 1e-12


def main() -> None:
  """Times the steps that the command-line argument describes."""
  tf1.disable_v2_behavior()
  tf1.logging.set_verbosity(tf1.logging.ERROR)
  with tf1.Session() as session:
    step_timing.run(
      f"the original, TensorFlow {tf.__version__}",
      lambda settings: _build(session, settings, _training_step),
      lambda settings: _build(session, settings, _forward_step),
      lambda settings: _product(session, settings),
    )


def _build(
  session: Any,
  settings: step_timing.Settings,
  make: Callable[[types.ModuleType, Any, dict[str, tf.Tensor]], Any],
) -> step_timing.Step:
  """Builds the graph of a step; returns a function that runs the step."""
  original = _import_run_pretraining(settings.original_dir)
  config = original.modeling.BertConfig(**settings.sizes)
  # The batch is fed, since TensorFlow would fold constants into the graph.
  batch = settings.batch()
  feed_dict = {tf1.placeholder(x.dtype, x.shape): x for x in batch.values()}
  fetches = make(original, config, dict(zip(batch, feed_dict)))
  session.run(tf1.global_variables_initializer())
  return lambda: session.run(fetches, feed_dict)


def _product(session: Any, settings: step_timing.Settings) -> step_timing.Step:
  size = settings.product_size
  matrix = tf1.get_variable(
    "benchmark/matrix", [size, size], trainable=False, use_resource=True
  )
  product = tf.matmul(matrix, matrix)[0, 0]
  session.run(matrix.initializer)
  return lambda: session.run(product)


def _import_run_pretraining(folder: str) -> types.ModuleType:
  """Imports run_pretraining.py, which imports the other files."""
  tf1.contrib = types.SimpleNamespace(
    layers=types.SimpleNamespace(layer_norm=_layer_norm)
  )
  sys.path.insert(0, folder)
  with mock.patch.dict(sys.modules, tensorflow=tf1):
    return importlib.import_module("run_pretraining")


def _layer_norm(
  inputs: tf.Tensor, begin_norm_axis: int, begin_params_axis: int, scope: str
) -> tf.Tensor:
  """Normalizes the last axis, the only one that BERT normalizes."""
  if (begin_norm_axis, begin_params_axis) != (-1, -1):
    raise ValueError(f"axes {begin_norm_axis} and {begin_params_axis}.")
  with tf1.variable_scope(scope, "LayerNorm"):
    shape = [inputs.shape[-1]]
    beta = tf1.get_variable("beta", shape, initializer=tf.zeros_initializer())
    gamma = tf1.get_variable("gamma", shape, initializer=tf.ones_initializer())
  mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
  return tf.nn.batch_normalization(
    inputs, mean, variance, beta, gamma, _EPSILON
  )


def _training_step(
  original: types.ModuleType, config: Any, inputs: dict[str, tf.Tensor]
) -> list[Any]:
  """Returns the loss and the update of a pre-training step."""
  model_fn = original.model_fn_builder(
    config, None, 1e-4, 10_000, 100, use_tpu=False, use_one_hot_embeddings=False
  )
  # TensorFlow 2.16 and later lack the estimator and TPUEstimatorSpec.
  tf1.contrib.tpu = types.SimpleNamespace(TPUEstimatorSpec=dict)
  modes = types.SimpleNamespace(ModeKeys=types.SimpleNamespace(TRAIN="train"))
  with mock.patch.object(tf1, "estimator", modes, create=True):
    spec = model_fn(inputs, None, "train", {})
  return [spec["loss"], spec["train_op"]]


def _forward_step(
  original: types.ModuleType, config: Any, inputs: dict[str, tf.Tensor]
) -> tf.Tensor:
  """Returns one number of the encoder's output, without dropout."""
  model = original.modeling.BertModel(
    config,
    is_training=False,
    input_ids=inputs["input_ids"],
    input_mask=inputs["input_mask"],
    token_type_ids=inputs["segment_ids"],
  )
  return model.get_sequence_output()[0, 0]


if __name__ == "__main__":
  main()
