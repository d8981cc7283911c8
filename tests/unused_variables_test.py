"""Models declare the variables that their loss does not depend on."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling, task_registry
from bert_tf.model import heads
from bert_tf.tasks.pretraining import pretraining
from tests.support import packed_instances

CONFIG = modeling.BertConfig(7, 4, 2, 2, 6, max_position_embeddings=5)
CONFIGS = {
  "plain": CONFIG,
  "left_to_right": dataclasses.replace(
    CONFIG, attention_direction="left_to_right"
  ),
}
TASKS = [task for task in task_registry.TASKS.values() if task.model]


def variables_without_gradient(model, loss_fn):
  """The paths of the trainable variables that a trace finds no gradient of."""
  with tf.GradientTape() as tape:
    loss = loss_fn()
  variables = model.trainable_variables
  gradients = tape.gradient(loss, variables)
  return {v.path for v, g in zip(variables, gradients) if g is None}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_fine_tuned_models_declare_what_a_trace_finds(task, config):
  kind = task_registry.load(task.model)
  model = heads.build_model(kind, config, num_labels=3)
  ids = np.array([[1, 2, 3], [4, 5, 0]])
  features = {"input_ids": ids, "input_mask": np.sign(ids)}
  if kind is heads.MultipleChoiceModel:
    features = {name: value[None] for name, value in features.items()}

  def loss():
    outputs = tf.nest.flatten(model(features, training=True))
    return tf.add_n([tf.reduce_sum(tf.square(x)) for x in outputs])

  unused = {variable.path for variable in model.unused_variables}
  assert unused == variables_without_gradient(model, loss)


@pytest.mark.parametrize("no_nsp", [False, True])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("direction", ["both", "left_to_right"])
def test_pretraining_declares_what_a_trace_finds(direction, is_packed, no_nsp):
  model = heads.PretrainingModel(
    dataclasses.replace(packed_instances.CONFIG, attention_direction=direction)
  )
  rows = [[instance] for instance in packed_instances.make_instances()]
  features = packed_instances.batch(rows, is_packed)
  objective = pretraining.PretrainingObjective(no_nsp)

  def loss():
    sums = objective.loss_sums(model, features, training=True).losses
    return tf.add_n([total / weight for total, weight in sums.values()])

  unused = {variable.path for variable in objective.unused_variables(model)}
  assert unused == variables_without_gradient(model, loss)
  assert bool(unused) == no_nsp
