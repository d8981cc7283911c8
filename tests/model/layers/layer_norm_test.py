"""Layer norm as one oneDNN operation matches Keras' layer norm."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.export import saved_models
from bert_tf.model.layers import layer_norm
from tests.support import optimized_graphs, tiny_models

OPERATION = "_MklLayerNorm"


def built(size=24):
  layer = layer_norm.LayerNorm(epsilon=1e-12)
  layer.build((None, size))
  rng = np.random.default_rng(1)
  for variable in (layer.gamma, layer.beta):
    variable.assign(rng.normal(size=size))
  return layer


def in_scope(layer):
  def call(x):
    with layer_norm.fused():
      return layer(x)

  return call


def optimized_ops(function, *args):
  return {n.op for n in optimized_graphs.nodes(function, *args)}


@pytest.mark.parametrize("shape", [(5, 24), (2, 3, 24), (1, 24), (0, 24)])
# Rows as small as 1e-6 tell an epsilon of 1e-12 from any larger one.
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_layer_norm_values_match_keras(shape, scale):
  layer = built()
  x = np.random.default_rng(2).normal(size=shape) * scale
  x = tf.constant(x, "float32")
  result = tf.function(in_scope(layer), autograph=False)(x)
  np.testing.assert_allclose(result, layer(x), rtol=1e-5, atol=1e-5)


@optimized_graphs.needs_onednn
def test_layer_norm_is_one_operation_only_in_the_scope():
  layer, x = built(), tf.ones([2, 24])
  result = optimized_ops(in_scope(layer), x)
  assert OPERATION in result and not result & {"Mean", "Rsqrt"}
  assert OPERATION not in optimized_ops(layer, x)


@pytest.mark.parametrize("dtype, rank", [("bfloat16", 2), ("float32", 4)])
def test_unsupported_inputs_use_the_keras_layer(dtype, rank):
  layer = layer_norm.LayerNorm(dtype=dtype)
  x = tf.cast(tf.random.normal([2] * rank), dtype)
  layer.build(x.shape)
  assert OPERATION not in optimized_ops(in_scope(layer), x)


def test_saved_models_have_no_onednn_layer_norm(tmp_path):
  model = modeling.BertModel(tiny_models.CONFIG)
  ids = saved_models.named_function(lambda inputs: {"x": model(inputs)[0]})
  module = tf.Module()
  module.model = model
  tf.saved_model.save(module, str(tmp_path), signatures={"ids": ids})
  assert OPERATION.encode() not in (tmp_path / "saved_model.pb").read_bytes()
