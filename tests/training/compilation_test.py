"""The choice of a mode; WHOLE and CLUSTERED equal PLAIN."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import distribution, modeling
from bert_tf.tasks.pretraining import pretraining
from bert_tf.training import compilation, estimator, restore
from bert_tf.training import config as training_config
from tests.support import scale_run, short_products

CONFIG = {
  **scale_run.CONFIG,
  "hidden_dropout_prob": 0.3,
  "attention_probs_dropout_prob": 0.3,
}


FIXED = {"x": tf.TensorSpec([4], tf.float32)}
ANY_WIDTH = {"x": tf.TensorSpec([4, None], tf.float32)}
PLAIN, CLUSTERED, WHOLE = compilation.Mode


@pytest.mark.parametrize(
  ("settings", "hidden_size", "spec", "device", "mode"),
  [
    ({}, 128, FIXED, "CPU", WHOLE),
    ({}, 256, FIXED, "CPU", WHOLE),
    ({}, 384, FIXED, "CPU", CLUSTERED),
    ({"precision": "bfloat16"}, 128, FIXED, "CPU", CLUSTERED),
    ({"precision": "bfloat16"}, 1024, FIXED, "GPU", WHOLE),
    ({"precision": "bfloat16"}, 768, FIXED, "TPU", WHOLE),
    ({}, None, FIXED, "CPU", PLAIN),  # A model without an encoder.
    ({}, 128, ANY_WIDTH, "CPU", PLAIN),
    ({"num_train_steps": 199}, 128, FIXED, "CPU", PLAIN),
    ({"train_minutes": 1.9}, 128, FIXED, "CPU", PLAIN),
    ({"train_minutes": 2.0}, 128, FIXED, "CPU", WHOLE),
    ({"use_xla": True}, 768, ANY_WIDTH, "CPU", WHOLE),
    ({"use_xla": False}, 128, FIXED, "GPU", PLAIN),
    ({"num_train_steps": 1}, 128, ANY_WIDTH, "GPU", WHOLE),
  ],
)
def test_the_mode_of_a_run_follows_from_its_settings(
  monkeypatch, settings, hidden_size, spec, device, mode
):
  monkeypatch.setattr(distribution, "device_kind", lambda: device)
  config = training_config.TrainConfig(
    output_dir="out", **{"num_train_steps": 200, **settings}
  )
  assert compilation.choose_mode(config, hidden_size, spec) is mode


@pytest.fixture(scope="module")
def train_once(tmp_path_factory):
  """Trains three steps with dropout, once for each mode and settings.

  Returns the losses, the values after the steps, and the graph.
  """

  @functools.cache
  def train(mode, **settings):
    runner = estimator.Estimator(
      pretraining.PretrainingObjective(),
      modeling.BertConfig.from_dict(CONFIG),
      training_config.TrainConfig(
        output_dir=str(tmp_path_factory.mktemp("run")),
        train_batch_size=8,
        learning_rate=1e-3,
        num_train_steps=10,
        **settings,
      ),
    )
    batch = {k: tf.constant(v) for k, v in next(scale_run.batches(0)).items()}
    spec = {k: tf.TensorSpec(t.shape, t.dtype) for k, t in batch.items()}
    step = runner.train_step.build(spec, mode)
    losses = [step(batch)["loss"][0].numpy() for _ in range(3)]
    values = restore.training_variables(runner.model, runner.update)
    return losses, {name: v.numpy() for name, v in values.items()}, step.graph

  return train


@pytest.mark.parametrize(
  ("mode", "settings"),
  [
    (WHOLE, {}),
    (WHOLE, {"gradient_accumulation_steps": 2}),
    (CLUSTERED, {}),
    pytest.param(
      CLUSTERED,
      {"precision": "bfloat16"},
      marks=short_products.BFLOAT16.marks,
    ),
  ],
)
def test_compiled_equals_plain(train_once, mode, settings):
  losses, values, _ = train_once(mode, **settings)
  other_losses, other_values, _ = train_once(PLAIN, **settings)
  rounding = 1e-2 if "precision" in settings else 1e-5
  np.testing.assert_allclose(losses, other_losses, rtol=rounding)
  for name, value in values.items():
    np.testing.assert_allclose(
      value, other_values[name], rtol=10 * rounding, atol=rounding, err_msg=name
    )


def test_clusters_leave_products_to_tensorflow(train_once):
  _, _, graph = train_once(CLUSTERED)
  marked = {True: set(), False: set()}
  for function in graph.as_graph_def().library.function:
    for node in function.node_def:
      if "_XlaCompile" in node.attr:
        marked[node.attr["_XlaCompile"].b].add(node.op)
  assert {"MatMul", "BatchMatMulV2"} <= marked[False]
  assert {"Tanh", "Rsqrt", "Softmax", "AddV2"} <= marked[True]
  assert not marked[True] & marked[False]
