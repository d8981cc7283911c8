"""Checkpoints have the original's format, are complete, and load strictly."""

import os
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling, optimization
from bert_tf.checkpoint import checkpoints
from bert_tf.model import heads
from bert_tf.training import restore, update

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
TINY = str(GOLDEN / "tiny" / "bert_model.ckpt")
CONFIG = modeling.BertConfig(
  20, 8, 1, 2, 16, max_position_embeddings=8, type_vocab_size=2
)


def model_and_update(config=CONFIG):
  model = heads.PretrainingModel(config)
  made = update.Update(optimization.create_optimizer(1e-3, 10, 0))
  made.optimizer.build(model.trainable_variables)
  return model, made


def make_tensors(step: int) -> dict[str, np.ndarray]:
  return {
    "bert/a": np.full((2, 3), step, np.float32),
    "bert/a/adam_m": np.ones((2, 3), np.float32),
    "bert/a/adam_v": np.ones((2, 3), np.float32),
    "global_step": np.int64(step),
  }


def test_a_v1_saver_reads_a_checkpoint(tmp_path):
  model, made = model_and_update()
  variables = restore.training_variables(model, made)
  tensors = {name: variable.value for name, variable in variables.items()}
  path = checkpoints.save(str(tmp_path), tensors, 5)
  values = {name: variable.numpy() for name, variable in variables.items()}
  assert values["global_step"].dtype == np.int64
  assert not any("seed" in name for name in values)
  with tf.Graph().as_default():
    graph_variables = {
      name: tf.compat.v1.get_variable(
        name.replace("/", "_"), shape=v.shape, dtype=values[name].dtype
      )
      for name, v in variables.items()
    }
    saver = tf.compat.v1.train.Saver(graph_variables)
    with tf.compat.v1.Session() as session:
      saver.restore(session, tf.train.latest_checkpoint(str(tmp_path)))
      for name, variable in graph_variables.items():
        np.testing.assert_array_equal(session.run(variable), values[name])
  assert path == os.path.join(str(tmp_path), "model.ckpt-0")


def test_a_checkpoint_of_the_original_resumes_step_and_moments(unpacked):
  folder = unpacked("checkpoints") / "tiny_with_adam_slots"
  config = modeling.BertConfig.from_json_file(str(folder / "bert_config.json"))
  model, made = model_and_update(config)
  path = str(folder / "bert_model.ckpt")
  assert restore.resume(path, model, made) == 20
  assert made.optimizer.iterations.numpy() == 20
  reader = tf.train.load_checkpoint(path)
  variables = restore.training_variables(model, made)
  assert set(variables) == set(reader.get_variable_to_shape_map())
  assert len(variables) == 139
  for name, variable in variables.items():
    np.testing.assert_array_equal(variable.numpy(), reader.get_tensor(name))
  moments = made.variables()["bert/pooler/dense/kernel/adam_v"].numpy()
  assert moments.any()


def test_only_the_newest_checkpoints_are_kept(tmp_path):
  (tmp_path / "model.ckpt-0.meta").write_bytes(b"")  # From TensorFlow 1.
  for step in (0, 1, 2, 3, 4, 4):
    checkpoints.save(str(tmp_path), make_tensors(step), keep_checkpoint_max=2)
  names = sorted(p.name for p in tmp_path.iterdir())
  assert names == [
    "checkpoint",
    "model.ckpt-3.data-00000-of-00001",
    "model.ckpt-3.index",
    "model.ckpt-4.data-00000-of-00001",
    "model.ckpt-4.index",
  ]
  assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-4")
  text = (tmp_path / "checkpoint").read_text()
  assert str(tmp_path) not in text  # Allows to move the folder.
  for step in (5, 6, 7):
    checkpoints.save(str(tmp_path), make_tensors(step), keep_checkpoint_max=0)
  assert len(checkpoints.list_checkpoints(str(tmp_path))) == 5


def test_a_failed_write_leaves_the_old_checkpoint_and_nothing_else(
  tmp_path, monkeypatch
):
  path = checkpoints.save(str(tmp_path), make_tensors(1), 5)
  before = sorted(p.name for p in tmp_path.iterdir())
  write = tf.raw_ops.SaveV2

  def full_disk(prefix, **kwargs):
    write(prefix=prefix, **kwargs)
    raise tf.errors.ResourceExhaustedError(None, None, "No space left")

  monkeypatch.setattr(tf.raw_ops, "SaveV2", full_disk)
  with pytest.raises(OSError, match="model.ckpt-2: No space left"):
    checkpoints.save(str(tmp_path), make_tensors(2), 5)
  assert sorted(p.name for p in tmp_path.iterdir()) == before
  assert checkpoints.find_latest(str(tmp_path)) == path
  assert checkpoints.CheckpointReader(path).get("global_step") == 1


@pytest.mark.parametrize("is_same", [True, False])
def test_a_replacement_killed_between_its_files_is_whole_or_refused(
  tmp_path, monkeypatch, is_same
):
  path = str(tmp_path / "model.ckpt-7")
  checkpoints.write(path, {"a": np.ones(3)})
  replace = os.replace

  def dies_at_the_index(source, target):
    if target == path + ".index":
      raise KeyboardInterrupt
    replace(source, target)

  with monkeypatch.context() as patch:
    patch.setattr(os, "replace", dies_at_the_index)
    with pytest.raises(KeyboardInterrupt):
      checkpoints.write(path, {"a": np.full(3, 1.0 if is_same else 2.0)})
  reader = checkpoints.CheckpointReader(path)
  if is_same:
    np.testing.assert_array_equal(reader.get("a"), np.ones(3))
  else:
    with pytest.raises(ValueError):
      reader.get("a")
  checkpoints.write(path, {"a": np.zeros(3)})
  assert not checkpoints.CheckpointReader(path).get("a").any()


def test_checkpoints_are_written_to_file_systems_of_tensorflow():
  folder = "ram://checkpoints_test/run"
  for step in (1, 2, 2):
    checkpoints.save(folder, {"global_step": np.int64(step)}, 1)
  assert checkpoints.list_checkpoints(folder) == [f"{folder}/model.ckpt-2"]
  for path in (folder, f"{folder}/model.ckpt-2"):
    assert checkpoints.CheckpointReader(path).get("global_step") == 2


def test_a_missing_head_is_returned_and_the_encoder_is_loaded(tmp_path):
  source, _ = model_and_update()
  path = str(tmp_path / "encoder.ckpt")
  encoder = {
    v.path: v.numpy() + 1.0 for v in source.weights if "cls/" not in v.path
  }
  checkpoints.write(path, {**encoder, "extra": np.zeros(2)})
  model, _ = model_and_update()
  missing = checkpoints.load_variables(
    checkpoints.CheckpointReader(path), model, "bert/"
  )
  assert missing == [v.path for v in model.weights if "cls/" in v.path]
  for variable in model.weights:
    if variable.path in encoder:
      np.testing.assert_array_equal(variable.numpy(), encoder[variable.path])


def test_a_released_checkpoint_is_not_resumed_from():
  config = modeling.BertConfig.from_json_file(
    str(GOLDEN / "tiny" / "bert_config.json")
  )
  model, made = model_and_update(config)
  with pytest.raises(ValueError, match="`init_checkpoint`"):
    restore.resume(TINY, model, made)


def test_a_missing_checkpoint_is_named(tmp_path):
  for path in ("nowhere.ckpt", str(tmp_path)):
    with pytest.raises(ValueError, match=re.escape(path)):
      checkpoints.CheckpointReader(path)
