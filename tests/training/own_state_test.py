"""Training state that the original lacks, under names that readers skip."""

import os

import tensorflow as tf

from bert_tf.checkpoint import convert
from bert_tf.model.layers import mixed_precision
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
    convert.average([prefix], str(tmp_path / "slim.ckpt"))
    slim = names_in(str(tmp_path / "slim.ckpt"))
    assert slim == {"bert/w", "bert/unused"}
    os.remove(f"{tmp_path}/model.ckpt-30.index")
    assert train_scaled(tmp_path) == 30
    assert_same(weights_at(tmp_path, 30), expected)
