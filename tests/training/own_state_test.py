"""Training state that the original lacks, under names that readers skip."""

import os

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import checkpoints, heads
from bert_tf.convert import convert
from bert_tf.layers import lora, mixed_precision
from tests.support import tiny_models
from tests.support.line_model import (
  assert_same,
  batches,
  make,
  weights_at,
)

# Parts of names that transformers' load_tf_weights_in_bert skips.
SKIPPED = {
  "adam_v",
  "adam_m",
  "AdamWeightDecayOptimizer",
  "AdamWeightDecayOptimizer_1",
  "global_step",
}
OLD_NAMES = ("loss_scale", "loss_scale_good_steps")


def names_in(prefix):
  return set(tf.train.load_checkpoint(prefix).get_variable_to_shape_map())


def not_skipped(prefix):
  return {name for name in names_in(prefix) if not SKIPPED & {*name.split("/")}}


def write_as_before(prefix):
  """Gives the state the names of versions before this one."""
  reader = tf.train.load_checkpoint(prefix)
  keys = sorted(names_in(prefix))
  names = [
    last if (last := key.rpartition("/")[2]) in OLD_NAMES else key
    for key in keys
  ]
  assert names != keys
  tf.raw_ops.SaveV2(
    prefix=prefix,
    tensor_names=names,
    shape_and_slices=[""] * len(keys),
    tensors=[tf.constant(reader.get_tensor(key)) for key in keys],
  )


def train_scaled(folder):
  """Trains 30 steps with a loss scale, as in float16."""
  runner = make(folder)
  runner.update.loss_scale = mixed_precision.LossScale()
  return runner.train(batches)


def test_a_run_with_a_loss_scale_resumes_alike_from_new_and_old_names(tmp_path):
  train_scaled(tmp_path)
  prefix = f"{tmp_path}/model.ckpt-20"
  expected = weights_at(tmp_path, 30)
  assert {"loss_scale", "loss_scale_good_steps"} <= expected.keys()
  assert not_skipped(prefix) == {"bert/w", "bert/unused"}
  for change in (lambda _: None, write_as_before):
    change(prefix)
    os.remove(f"{tmp_path}/model.ckpt-30.index")
    assert train_scaled(tmp_path) == 30
    assert_same(weights_at(tmp_path, 30), expected)


@pytest.mark.parametrize("is_old", [False, True])
def test_converters_leave_the_state_out(tmp_path, is_old):
  train_scaled(tmp_path / "run")
  prefix = f"{tmp_path}/run/model.ckpt-30"
  if is_old:
    write_as_before(prefix)
  convert.average([prefix], str(tmp_path / "slim.ckpt"))
  assert names_in(str(tmp_path / "slim.ckpt")) == {"bert/w", "bert/unused"}


def test_updates_of_lora_have_names_that_are_skipped(tmp_path):
  model = heads.ClassifierModel(tiny_models.CONFIG, 3)
  weights = {variable.path for variable in model.weights}
  lora.enable(model, 2, None)
  prefix = str(tmp_path / "model.ckpt")
  tensors = lora.tensors(model)
  checkpoints.write(prefix, tensors)
  assert not_skipped(prefix) == weights
  reader = checkpoints.CheckpointReader(prefix)
  assert reader.shapes.keys() == tensors.keys()
  for name, value in tensors.items():
    np.testing.assert_array_equal(reader.get(name), value)
