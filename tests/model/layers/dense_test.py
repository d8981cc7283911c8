"""Dense layers accept any rank, and TensorFlow fuses what follows."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.model.layers import dense
from tests.support import optimized_graphs, tiny_models


@pytest.mark.parametrize("shape", [(5,), (2, 3, 5), (2, 0, 5), (2, 3, 4, 5)])
def test_dense_accepts_inputs_of_any_rank(shape):
  layer = dense.Dense(7, tf.tanh)
  layer.build((None, 5))
  layer.bias.assign(np.arange(7.0))
  x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
  if len(shape) == 1:
    x = x[None]
  expected = np.tanh(x @ layer.kernel.numpy() + layer.bias.numpy())
  np.testing.assert_allclose(layer(x), expected, atol=1e-6)


@optimized_graphs.needs_onednn
def test_activations_and_residuals_are_fused_with_products():
  model = modeling.BertModel(tiny_models.CONFIG)
  ids = tf.ones([2, 8], tf.int32)
  fused = collections.Counter(
    tuple(node.attr["fused_ops"].list.s)
    for node in optimized_graphs.nodes(
      lambda ids: model({"input_ids": ids}).sequence_output, ids
    )
    if node.op == "_FusedMatMul"
  )
  num_layers = tiny_models.CONFIG.num_hidden_layers
  assert fused[b"BiasAdd", b"Add"] == 2 * num_layers
  assert fused[b"BiasAdd", b"GeluApproximate"] == num_layers
