"""The optimizer against trajectories of the original release."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import distribution, modeling, optimization
from bert_tf.checkpoint import checkpoints
from bert_tf.model import heads, losses
from bert_tf.training import restore, update

GOLDEN = pathlib.Path(__file__).parent / "golden"
SCHEDULES = json.loads((GOLDEN / "lr_schedules.json").read_text())


@pytest.mark.parametrize(
  "recorded",
  SCHEDULES,
  ids=lambda r: f"{r['num_train_steps']}-{r['num_warmup_steps']}",
)
def test_learning_rates_are_exactly_the_originals(recorded):
  schedule = optimization.WarmupLinearDecay(
    recorded["init_lr"],
    recorded["num_train_steps"],
    recorded["num_warmup_steps"],
  )
  expected = recorded["lr_at_global_step"]
  actual = [
    float(schedule(tf.constant(step, tf.int64)))
    for step in range(len(expected))
  ]
  assert actual == expected


# Folder, recorded steps and name of the last checkpoint's folder, model.
TRAJECTORIES = [
  ("tiny", "trajectory_tf215", heads.PretrainingModel),
  ("tiny_perturbed", "trajectory_tf215", heads.PretrainingModel),
  ("tiny_perturbed", "trajectory_nowarmup_tf215", heads.PretrainingModel),
  ("tiny_squad", "trajectory_tf111", heads.SpanModel),
]


def loss_sums(model, features):
  """The losses of a batch, in training."""
  if isinstance(model, heads.SpanModel):
    each = losses.span_losses(model(features, training=True), features)
    return {"loss": (tf.reduce_sum(each), tf.cast(tf.size(each), tf.float32))}
  return losses.loss_from_sums(model.loss_sums(features, True), features)


@pytest.mark.parametrize("use_xla", [False, True], ids=["plain", "xla"])
@pytest.mark.parametrize(
  "folder,name,model_class",
  TRAJECTORIES,
  ids=[f"{t[0]}-{t[1]}" for t in TRAJECTORIES],
)
def test_training_follows_the_original(folder, name, model_class, use_xla):
  recorded = np.load(GOLDEN / folder / f"{name}.npz")
  settings = json.loads(str(recorded["hparams"]))
  config = modeling.BertConfig.from_json_file(
    str(GOLDEN / folder / "bert_config.json")
  )
  model = model_class(config)
  checkpoints.load_variables(
    checkpoints.CheckpointReader(str(GOLDEN / folder / "bert_model.ckpt")),
    model,
    "bert/",
  )
  steps = len(recorded["rec/total_loss"])
  optimizer = optimization.create_optimizer(
    settings["init_lr"],
    settings["num_train_steps"],
    settings["num_warmup_steps"],
  )
  made = update.Update(optimizer)
  # The pooler takes no part in question answering: no gradient, no slots.
  unused = {v.path for v in model.unused_variables}
  variables = [v for v in model.trainable_variables if v.path not in unused]
  optimizer.build(variables)

  @tf.function(jit_compile=use_xla)
  def step(features):
    with tf.GradientTape() as tape:
      sums = loss_sums(model, features).values()
      loss = sum(total / weight for total, weight in sums)
    gradients = tape.gradient(loss, variables)
    learning_rate = optimizer.learning_rate * 1.0
    norm = made.apply(optimization.to_dense(gradients), variables)
    return loss, norm, learning_rate

  for i in range(steps):
    features = {
      key[3:]: tf.constant(recorded[key][i])
      for key in recorded
      if key.startswith("in/")
    }
    loss, norm, learning_rate = step(features)
    np.testing.assert_allclose(loss, recorded["rec/total_loss"][i], atol=1e-5)
    np.testing.assert_allclose(norm, recorded["rec/gnorm"][i], rtol=1e-5)
    # XLA fuses multiplications, which may change the last bit.
    np.testing.assert_allclose(learning_rate, recorded["rec/lr"][i], rtol=3e-7)

  final = checkpoints.find_latest(str(GOLDEN / folder / f"{name}_final"))
  reader = checkpoints.CheckpointReader(final)
  variables = restore.training_variables(model, made)
  assert set(variables) == set(reader.shapes)
  for path, variable in variables.items():
    np.testing.assert_allclose(
      variable.numpy(), reader.get(path), rtol=0, atol=1e-5, err_msg=path
    )


def step_function(optimizer):
  """The graph of a step on variables w, of [2, 3], and bias, of [3]."""
  shapes = {"w": (2, 3), "bias": (3,)}
  variables = [
    keras.Variable(np.ones(shape, np.float32), name=name)
    for name, shape in shapes.items()
  ]
  optimizer.build(variables)

  @tf.function
  def step(*gradients):
    optimizer.apply(gradients, variables)

  return step.get_concrete_function(
    *(tf.TensorSpec(shape) for shape in shapes.values())
  )


def num_compiled_calls(function):
  """Counts the operations of a graph that call an XLA program."""
  graph = function.graph.as_graph_def()
  compiled = {
    f.signature.name
    for f in graph.library.function
    if f.attr["_XlaMustCompile"].b
  }
  return sum(node.attr["f"].func.name in compiled for node in graph.node)


@pytest.mark.parametrize("is_cpu", [True, False])
def test_the_update_of_each_variable_is_compiled_only_on_a_cpu(
  is_cpu, monkeypatch
):
  monkeypatch.setattr(distribution, "has_accelerator", lambda: not is_cpu)
  optimizer = optimization.create_optimizer(0.1, 10, 2)
  assert num_compiled_calls(step_function(optimizer)) == 2 * is_cpu


def test_layer_norm_and_bias_are_not_decayed():
  optimizer = optimization.create_optimizer(1e-3, 10, 0)
  names = ["bias", "gamma", "kernel", "output_bias"]
  variables = []
  for name in names:
    with keras.name_scope("LayerNorm" if name == "gamma" else "dense"):
      variables.append(keras.Variable([1.0], name=name))
  optimizer.build(variables)
  # With no gradient only decay can move a weight.
  optimizer.apply([tf.constant([0.0])] * 4, variables)
  moved = [name for name, v in zip(names, variables) if v.numpy()[0] != 1.0]
  assert moved == ["kernel"]


@pytest.mark.parametrize("norm", [np.inf, np.nan])
def test_a_norm_that_is_not_finite_makes_every_gradient_nan(norm):
  assert np.isnan(optimization.clip_factor(tf.constant(norm), 1.0))


def test_rows_of_a_sparse_gradient_are_squared_separately():
  sparse = tf.IndexedSlices(
    tf.constant([[3.0], [4.0]]), tf.constant([1, 1]), tf.constant([3, 1])
  )
  # Merged, the row would be 7.
  gradients = optimization.to_dense([sparse])
  assert float(optimization.global_norm(gradients)) == pytest.approx(5.0)
  np.testing.assert_allclose(gradients.dense[0], [[0.0], [7.0], [0.0]])
