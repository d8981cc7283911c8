"""Updates with any optimizer of Keras: what they share, and resumed runs."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import optimization
from bert_tf.checkpoint import checkpoint_names, checkpoints
from bert_tf.tasks.pretraining import pretraining
from bert_tf.training import config as training_config
from bert_tf.training import estimator, update
from tests.support import line_model, scale_run
from tests.support.line_model import assert_same, weights_at

# An optimizer and a slot of the pooler's kernel, or a variable of its own.
OPTIMIZERS = {
  "adam": (keras.optimizers.Adam, "Adam/bert/pooler/dense/kernel/velocities"),
  "momentum": (
    lambda: keras.optimizers.SGD(0.05, momentum=0.9, global_clipnorm=1.0),
    "SGD/bert/pooler/dense/kernel/momentums",
  ),
  "adafactor": (
    keras.optimizers.Adafactor,
    "Adafactor/bert/pooler/dense/kernel/r",
  ),
  "nadam": (keras.optimizers.Nadam, "Nadam/u_product"),
}


def train(folder, optimizer, num_train_steps=8, **settings):
  """Trains a small BERT in float32; returns the tensors of the last step."""
  config = training_config.TrainConfig(
    output_dir=str(folder),
    train_batch_size=scale_run.BATCH_SIZE,
    learning_rate=1e-3,
    num_train_steps=num_train_steps,
    num_warmup_steps=2,
    save_checkpoints_steps=5,
    use_xla=False,
    optimizer=optimizer(),
    **settings,
  )
  bert_config = scale_run.modeling.BertConfig.from_dict(scale_run.CONFIG)
  objective = pretraining.PretrainingObjective()
  runner = estimator.Estimator(objective, bert_config, config)
  runner.train(scale_run.input_fn)
  return weights_at(folder, num_train_steps)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(tmp_path, kind):
  optimizer, slot = OPTIMIZERS[kind]
  expected = train(tmp_path, optimizer)
  name = "bert/pooler/dense/kernel"
  first = weights_at(tmp_path, 5)
  assert np.abs(expected[name] - first[name]).max() > 0
  slot = f"global_step/{slot}"
  assert np.abs(expected[slot] - first[slot]).max() > 0
  os.remove(tmp_path / "model.ckpt-8.index")
  resumed = train(tmp_path, optimizer)
  assert_same(resumed, expected)
  # Converters and later trainings read the weights only.
  shapes = checkpoints.CheckpointReader(f"{tmp_path}/model.ckpt-8").shapes
  weights = {n for n in expected if "global_step" not in n}
  assert set(checkpoint_names.parameters(shapes)) == weights


@pytest.mark.parametrize(
  ("before", "after", "missing"),
  [
    (None, "Adam", "global_step/Adam/bert/w"),
    ("Adam", None, "bert/w/adam_m"),
    ("SGD", "Adam", "global_step/Adam/bert/w/"),
  ],
)
def test_a_run_is_not_resumed_without_the_optimizers_state(
  tmp_path, before, after, missing
):
  def train(num_steps, name):
    optimizer = name and getattr(keras.optimizers, name)()
    runner = line_model.make(tmp_path, num_steps, optimizer=optimizer)
    runner.train(line_model.batches)

  train(10, before)
  with pytest.raises(ValueError, match=f"lacks {missing}.*`output_dir`"):
    train(20, after)


def test_a_step_takes_the_clipped_gradient():
  variable = keras.Variable([2.0, 0.0], name="bias")
  gradients = optimization.to_dense([tf.constant([3.0, 4.0])])
  for clipnorm, expected in ((1.0, [1.4, -0.8]), (None, [-1.0, -4.0])):
    variable.assign([2.0, 0.0])
    optimizer = keras.optimizers.SGD(1.0, global_clipnorm=clipnorm)
    optimizer.build([variable])
    norm = update.Update(optimizer).apply(gradients, [variable])
    assert float(norm) == pytest.approx(5.0)
    np.testing.assert_allclose(variable, expected, rtol=1e-6)


def test_an_optimizer_around_another_is_refused():
  optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
  optimizer.build([keras.Variable([1.0])])
  with pytest.raises(ValueError, match="LossScaleOptimizer"):
    update.Update(optimizer).variables()
