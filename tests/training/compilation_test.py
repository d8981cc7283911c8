"""The choice of a mode; WHOLE, in halves, and CLUSTERED equal PLAIN."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.tasks import pretraining
from bert_tf.training import compilation, restore
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
  monkeypatch.setattr(
    tf.config, "list_logical_devices", lambda kind: [kind] * (kind == device)
  )
  config = training_config.TrainConfig(
    output_dir="out", **{"num_train_steps": 200, **settings}
  )
  assert compilation.choose_mode(config, hidden_size, spec) is mode


def trained(output_dir, num_rows=8, mode=PLAIN, **settings):
  """Returns losses of three steps with dropout, values after, and the graph."""
  runner = pretraining.build_estimator(
    modeling.BertConfig.from_dict(CONFIG),
    training_config.TrainConfig(
      output_dir=str(output_dir),
      train_batch_size=num_rows,
      learning_rate=1e-3,
      num_train_steps=10,
      **settings,
    ),
  )
  batch = {
    name: tf.constant(value[:num_rows])
    for name, value in next(scale_run.batches(0)).items()
  }
  step = runner.train_step.build(
    {name: tf.TensorSpec(t.shape, t.dtype) for name, t in batch.items()}, mode
  )
  losses = [step(batch)["loss"][0].numpy() for _ in range(3)]
  values = restore.training_variables(runner.model, runner.update)
  return losses, {name: v.numpy() for name, v in values.items()}, step.graph


@pytest.fixture(scope="module")
def train_once(tmp_path_factory):
  """Returns `trained` of a folder of its own, which trains each run once."""

  @functools.cache
  def train(**settings):
    return trained(tmp_path_factory.mktemp("run"), **settings)

  return train


def num_parts(graph):
  """Counts the calls in the graph of a step that compute gradients."""
  calls = [op for op in graph.get_operations() if "Call" in op.type]
  return sum("compute_gradients" in op.get_attr("f").name for op in calls)


@pytest.mark.parametrize("settings", [{}, {"gradient_accumulation_steps": 2}])
def test_halves_equal_the_whole_batch(
  tmp_path, monkeypatch, train_once, settings
):
  runs = {}
  for num_cores in (1, 2):
    monkeypatch.setattr(compilation, "_num_cores", lambda n=num_cores: n)
    runs[num_cores] = trained(tmp_path, mode=WHOLE, **settings)
  runs["plain"] = train_once(mode=PLAIN, **settings)
  losses, values, graph = runs[2]
  assert num_parts(graph) == 2 * num_parts(runs[1][2])
  for other_losses, other_values, _ in (runs[1], runs["plain"]):
    np.testing.assert_allclose(losses, other_losses, rtol=1e-5)
    for name, value in values.items():
      np.testing.assert_allclose(
        value, other_values[name], rtol=1e-4, atol=1e-6, err_msg=name
      )


@pytest.mark.parametrize("precision", ["float32", short_products.BFLOAT16])
def test_clustered_equals_plain(train_once, precision):
  settings = {} if precision == "float32" else {"precision": precision}
  runs = {
    mode: train_once(mode=mode, **settings) for mode in (PLAIN, CLUSTERED)
  }
  losses, values, _ = runs[CLUSTERED]
  other_losses, other_values, _ = runs[PLAIN]
  rounding = {"float32": 1e-5, "bfloat16": 1e-2}[precision]
  np.testing.assert_allclose(losses, other_losses, rtol=rounding)
  for name, value in values.items():
    np.testing.assert_allclose(
      value, other_values[name], rtol=10 * rounding, atol=rounding, err_msg=name
    )


def test_clusters_leave_products_to_tensorflow(train_once):
  _, _, graph = train_once(mode=CLUSTERED)
  marked = {True: set(), False: set()}
  for function in graph.as_graph_def().library.function:
    for node in function.node_def:
      if "_XlaCompile" in node.attr:
        marked[node.attr["_XlaCompile"].b].add(node.op)
  assert {"MatMul", "BatchMatMulV2"} <= marked[False]
  assert {"Tanh", "Rsqrt", "Softmax", "AddV2"} <= marked[True]
  assert not marked[True] & marked[False]
