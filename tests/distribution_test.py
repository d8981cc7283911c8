"""Replicas and micro-batches take the same steps as an undivided batch.

Compared runs have no dropout. The parts differ in their number of masked words,
so a mean of means would be another loss.
"""

import json
import socket

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import distribution, modeling, optimization
from bert_tf.checkpoint import checkpoints
from bert_tf.model import heads, losses
from bert_tf.training import compilation, update
from bert_tf.training import step as step_lib
from tests.support import line_model, scale_run, short_products
from tests.support.scale_run import DROPOUT, assert_same_run, results, tensors

# Settings of runs that take the same steps, by the names of their folders.
MICRO_2 = {"gradient_accumulation_steps": 2}
CLUSTERED = {"mode": "clustered"}
CUT = {
  "micro_2": MICRO_2,
  "micro_4_xla": {**MICRO_2, "gradient_accumulation_steps": 4, "use_xla": True},
  "micro_2_clustered": {**MICRO_2, **CLUSTERED},
  "recompute": {"recompute": True},
  "mirrored": {},
  "mirrored_clustered": CLUSTERED,
}
# Only weights of these runs are compared. The seeds of layers differ.
WITH_DROPOUT = {**DROPOUT, "num_hidden_layers": 2, "evaluates": False}
RECOMPUTED = {**WITH_DROPOUT, "recompute": True}
OTHERS = {
  "whole": {},
  "dropout": WITH_DROPOUT,
  "dropout_recompute": RECOMPUTED,
  "dropout_recompute_xla": {**RECOMPUTED, "use_xla": True},
  "dropout_recompute_clustered": {**RECOMPUTED, **CLUSTERED},
}
SHORT = {n: {"precision": n} for n in ("bfloat16", "float16")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, start_python):
  """The folder of all runs."""
  folder = tmp_path_factory.mktemp("runs")
  mirrored = {n: s for n, s in CUT.items() if n.startswith("mirrored")}
  alone = {n: s for n, s in CUT.items() if n not in mirrored} | OTHERS
  if not short_products.ARE_FORBIDDEN:
    alone |= SHORT
  for kind, num_cpus, runs in (("one", 1, alone), ("mirrored", 2, mirrored)):
    process = scale_run.start(start_python, folder, kind, num_cpus, runs)
    scale_run.finish(process)
  return folder


def distance(output_dir, other_dir, name="bert/pooler/dense/kernel"):
  value, other = tensors(output_dir)[name], tensors(other_dir)[name]
  return np.abs(value - other).max()


@pytest.mark.slow
def test_the_runs_move_their_weights(folder):
  # Otherwise the comparisons below would hold for any step.
  first = checkpoints.CheckpointReader(str(folder / "whole" / "model.ckpt-0"))
  last = tensors(folder / "whole")
  for name in ("bert/pooler/dense/kernel", "cls/predictions/output_bias"):
    assert np.abs(last[name] - first.get(name)).max() > 3e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", CUT)
def test_parts_take_the_step_of_the_whole_batch(folder, name):
  assert_same_run(folder / name, folder / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", "_xla", "_clustered"])
def test_recomputed_or_compiled_layers_draw_the_same_dropout(folder, suffix):
  actual = tensors(folder / f"dropout_recompute{suffix}")
  expected = tensors(folder / "dropout")
  for name, value in expected.items():
    np.testing.assert_allclose(actual[name], value, rtol=0, atol=1e-5)


@pytest.mark.parametrize("num_micro_batches", [2, 4])
def test_a_loss_is_divided_by_the_weight_of_the_whole_batch(num_micro_batches):
  def weighted_loss(outputs, features):
    errors = (outputs - features["y"]) ** 2 * features["weight"]
    return {"error": (tf.reduce_sum(errors), tf.reduce_sum(features["weight"]))}

  features = {
    "x": tf.constant([1.0, 2.0, 3.0, 4.0]),
    "y": tf.constant([2.0, 1.0, 9.0, 3.0]),
    "weight": tf.constant([1.0, 0.0, 5.0, 2.0]),
  }
  spec = {n: tf.TensorSpec(t.shape, t.dtype) for n, t in features.items()}
  steps = []
  for count in (1, num_micro_batches):
    model = line_model.Line()
    step = step_lib.TrainingStep(
      model,
      update.Update(optimization.create_optimizer(0.1, 10, 0)),
      line_model.Objective(
        weighted_loss,
        lambda features: {"error": tf.reduce_sum(features["weight"])},
        weighted_loss,
      ),
      batch_size=4,
      num_micro_batches=count,
      seed=0,
    )
    sums = step.build(spec)(features)
    values = {name: [float(v) for v in pair] for name, pair in sums.items()}
    steps.append((values, model.w.numpy().tolist()))
  (expected, expected_w), (values, w) = steps
  # w is 0.5: errors of 2.25, 0, 56.25 and 1, weighted, over 8.
  assert expected["loss"] == [pytest.approx(285.5 / 8), 1.0]
  for name, pair in expected.items():
    assert values[name] == pytest.approx(pair, rel=1e-6)
  assert w == pytest.approx(expected_w, rel=1e-6)


def test_batches_of_unknown_width_are_split():
  # Word embeddings tied to no output have sparse gradients, and batches that
  # are grouped by width have unknown shapes.
  config = modeling.BertConfig.from_dict(
    {
      **scale_run.CONFIG,
      "hidden_dropout_prob": 0.0,
      "attention_probs_dropout_prob": 0.0,
    }
  )
  names = ("input_ids", "input_mask", "segment_ids")
  batch = next(scale_run.batches(0))
  features = {name: tf.constant(batch[name][:, :12]) for name in names}
  for name, column in (("start_positions", 0), ("end_positions", 1)):
    features[name] = tf.constant(batch["masked_lm_positions"][:, column])
  spec = {
    name: tf.TensorSpec([None] * value.shape.rank, value.dtype)
    for name, value in features.items()
  }

  def span_loss(outputs, features):
    each = losses.span_losses(outputs, features)
    return {"error": (tf.reduce_sum(each), tf.cast(tf.size(each), tf.float32))}

  def span_weights(features):
    return {"error": tf.cast(tf.size(features["start_positions"]), tf.float32)}

  def weights_after_a_step(mode, num_micro_batches):
    keras.utils.set_random_seed(1)
    model = heads.SpanModel(config)
    model(features)
    step = step_lib.TrainingStep(
      model,
      update.Update(optimization.create_optimizer(1e-3, 10, 0)),
      line_model.Objective(span_loss, span_weights, span_loss),
      scale_run.BATCH_SIZE,
      num_micro_batches,
      seed=0,
    )
    step.build(spec, mode)(features)
    return model.get_weights()

  expected = weights_after_a_step(compilation.Mode.PLAIN, 1)
  for mode in compilation.Mode:
    weights = weights_after_a_step(mode, 2)
    for of_parts, of_whole in zip(weights, expected, strict=True):
      np.testing.assert_allclose(
        of_parts, of_whole, rtol=0, atol=1e-5, err_msg=mode.name
      )


def test_micro_batches_draw_different_masks():
  model = line_model.Line(rate=0.5)
  step = step_lib.TrainingStep(
    model,
    line_model.make("unused").update,
    line_model.Objective(
      metrics_fn=lambda outputs, features: {"outputs": (outputs, tf.ones([]))}
    ),
    batch_size=128,
    num_micro_batches=2,
    seed=0,
  )
  # Two parts with the same rows: a single sum shows both masks.
  features = {"x": tf.ones(128), "y": tf.ones(128)}
  spec = {n: tf.TensorSpec(t.shape, t.dtype) for n, t in features.items()}
  total = step.build(spec)(features)["outputs"][0]
  # 0.5 / (1 - 0.5) in none, one or both of them.
  assert set(total.numpy()) == {0.0, 1.0, 2.0}


@pytest.mark.slow
@pytest.mark.parametrize("name", short_products.NAMES)
def test_16_bit_runs_end_with_nearly_the_same_weights(folder, name):
  assert 0 < distance(folder / name, folder / "whole") < 3e-3
  assert results(folder / name)["masked_lm_loss"] == pytest.approx(
    results(folder / "whole")["masked_lm_loss"], abs=0.02
  )
  values = tensors(folder / name)
  assert all(t.dtype == np.float32 for n, t in values.items() if "bert/" in n)


@pytest.mark.parametrize("rows", [6, 7])
@pytest.mark.parametrize("is_static", [True, False])
def test_parts_of_a_batch_are_its_rows_in_order(rows, is_static):
  batch = tf.reshape(tf.range(rows * 2), (rows, 2))

  @tf.function(
    input_signature=[tf.TensorSpec([rows if is_static else None, 2])]
  )
  def parts(x):
    return [
      distribution.select_part({"x": x}, tf.constant(i), 3)["x"]
      for i in (0, 1, 2)
    ]

  batches = parts(tf.cast(batch, tf.float32))
  assert [len(p) for p in batches] == ([2, 2, 2] if rows == 6 else [3, 3, 1])
  np.testing.assert_array_equal(np.concatenate(batches), batch)


def test_a_batch_that_does_not_divide_is_refused(tmp_path):
  with pytest.raises(ValueError, match="`train_batch_size` to a multiple of 3"):
    line_model.make(tmp_path, gradient_accumulation_steps=3)


@pytest.mark.parametrize(
  "text",
  [
    "{",
    "[1]",
    '{"cluster": {"worker": ["a:1"]}}',
    '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
    '{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}',
  ],
)
def test_a_tf_config_that_names_no_machines_is_refused(text, monkeypatch):
  monkeypatch.setenv("TF_CONFIG", text)
  with pytest.raises(ValueError, match="TF_CONFIG is ") as error:
    distribution.create_strategy("multi_worker")
  assert repr(text) in str(error.value)


@pytest.mark.parametrize(
  "address", ["local", "grpc://127.0.0.1:9", "grpc://127.0.0.1", "no-such-tpu"]
)
def test_a_missing_tpu_is_refused_at_once(address):
  tpu = address, "us-central1-a", "a-project"
  with pytest.raises(ValueError, match=f"TPU '{address}'.*gpu.md") as error:
    distribution.create_strategy("auto", *tpu)
  assert "OpKernel" not in str(error.value)


def set_workers(monkeypatch, *addresses):
  task = {"type": "worker", "index": 0}
  config = {"cluster": {"worker": addresses}, "task": task}
  monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def test_a_port_in_use_is_named(monkeypatch):
  with socket.create_server(("", 0)) as server:
    port = server.getsockname()[1]
    set_workers(monkeypatch, f"a:{port}", "b:1")
    with pytest.raises(OSError, match=str(port)):
      distribution.create_strategy("multi_worker")


def test_a_kind_that_contradicts_the_tpu_is_refused():
  with pytest.raises(ValueError, match="`distribution=one`"):
    distribution.create_strategy("one", "local")
  with pytest.raises(ValueError, match="`use_tpu=False`"):
    distribution.create_strategy("tpu")


def test_a_single_process_agrees_with_itself():
  assert distribution.is_chief() and distribution.num_workers() == 1
  assert distribution.all_gather_objects({"a": 1}) == [{"a": 1}]
  distribution.check_same({"a": 1})
