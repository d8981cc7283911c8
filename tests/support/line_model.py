"""A model of one weight, which trains in a moment."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.model.layers import dropout
from bert_tf.training import config as training_config
from bert_tf.training import estimator, objective
from tests.support import run_infos


class Line(keras.Model):
  """y = w x, with dropout on x."""

  def __init__(self, rate: float = 0.0):
    super().__init__(name="line")
    self.rate = rate
    self.seed_generator = dropout.Seeds(0)
    with keras.name_scope("bert"):
      self.w = keras.Variable([0.5], name="w")
      self.unused = keras.Variable([1.0], name="unused")
    self.built = True

  @property
  def unused_variables(self):
    return [self.unused]

  def call(self, features, training=False):
    x = features["x"]
    if training and self.rate:
      x = dropout.dropout(x, self.rate, self.seed_generator, training)
    return self.w * x


def loss_fn(outputs, features):
  errors = ops.square(outputs - features["y"])
  return {"error": (ops.sum(errors), ops.sum(ops.ones_like(errors)))}


def weights_fn(features):
  return {"error": ops.sum(ops.ones_like(features["y"]))}


def batches(steps_done: int, y_scale: float = 2.0):
  """Returns batches of four from a step on; x cycles through 1 to 7."""

  def batch(step):
    x = 1.0 + tf.cast(step * 4 + tf.range(4, dtype=tf.int64), tf.float32) % 7
    return {"x": x, "y": y_scale * x}

  return tf.data.Dataset.counter(steps_done).map(batch)


@dataclasses.dataclass(frozen=True)
class Objective(objective.Objective):
  """An objective.Objective of functions; by default the squared error."""

  loss_fn: Callable = loss_fn
  weights_fn: Callable = weights_fn
  metrics_fn: Callable = loss_fn
  rate: float = 0.0  # Of the model's dropout.

  def build_model(self, config):
    return Line(self.rate)

  def weights(self, features, training):
    return self.weights_fn(features)

  def loss_sums(self, model, features, training):
    outputs = model(features, training=training)
    return objective.BatchSums(
      self.loss_fn(outputs, features),
      self.metrics_fn(outputs, features),
      outputs,
    )


def make(output_dir, num_train_steps=30, rate=0.5, **kwargs):
  defaults = {"log_every_steps": 10, "save_checkpoints_steps": 10}
  config = training_config.TrainConfig(
    output_dir=str(output_dir),
    train_batch_size=4,
    num_train_steps=num_train_steps,
    num_warmup_steps=3,
    **{"learning_rate": 0.05, **defaults, **kwargs},
  )
  return estimator.Estimator(Objective(rate=rate), None, config)


def train_for_seconds(output_dir, seconds=40):
  """Trains for a number of readings of `clock`; returns the last step."""
  folder = str(output_dir)
  if not run_info.read_run(folder):
    run_info.write_json(folder, run_infos.make(task="pretraining"))
  runner = make(
    output_dir,
    train_minutes=seconds / 60,
    iterations_per_loop=1,
    save_checkpoints_steps=5,
    log_every_steps=1,
    keep_checkpoint_max=0,
  )
  return runner.train(batches)


def evaluate_newest(runner, dataset):
  runner.load_for_inference()
  return runner.evaluate(dataset)


def weights_at(output_dir, step):
  reader = checkpoints.CheckpointReader(f"{output_dir}/model.ckpt-{step}")
  return {name: reader.get(name) for name in reader.shapes}


def assert_same(tensors, expected):
  assert tensors.keys() == expected.keys()
  for name, value in tensors.items():
    np.testing.assert_array_equal(value, expected[name], err_msg=name)
