"""LoRA: trained weights, contents of checkpoints, and resumed runs."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.checkpoint import checkpoint_names, checkpoints
from bert_tf.model import heads
from bert_tf.model.layers import lora
from bert_tf.training import adapters
from bert_tf.training import config as training_config
from tests.support import runs, worlds

CONFIG = modeling.BertConfig(**runs.CONFIG)
IDS = {"input_ids": [[1, 2, 3], [4, 5, 0]]}
QUERY = "bert/encoder/layer_0/attention/self/query"


def model_with_updates(rank=2, alpha=6.0):
  """A classifier with LoRA whose updates are not 0; its values before."""
  model = heads.ClassifierModel(CONFIG, 3)
  before = {v.path: v.numpy() for v in model.weights}
  lora.enable(model, rank, alpha)
  rng = np.random.default_rng(0)
  for variable in model.trainable_variables:
    variable.assign(rng.normal(size=variable.shape))
  return model, before


def test_only_updates_of_attention_and_the_head_are_trained():
  model = heads.ClassifierModel(CONFIG, 3)
  expected = np.asarray(model(IDS))
  lora.enable(model, 2, None)
  scopes = [f"self/{name}" for name in ("query", "key", "value")]
  names = {"output_weights", "output_bias"} | {
    f"bert/encoder/layer_0/attention/{scope}/lora_kernel_{part}"
    for scope in (*scopes, "output/dense")
    for part in "ab"
  }
  assert {v.path for v in model.trainable_variables} == names
  np.testing.assert_array_equal(model(IDS), expected)


def test_a_checkpoint_holds_the_sum_under_the_names_of_the_original(tmp_path):
  model, before = model_with_updates()
  tensors = lora.tensors(model)
  checkpoints.write(str(tmp_path / "model.ckpt"), tensors)
  # Loaders of other programs skip names with this part.
  keys = tf.train.load_checkpoint(str(tmp_path / "model.ckpt"))
  keys = keys.get_variable_to_shape_map().keys()
  assert {k for k in keys if "global_step" not in k.split("/")} == {*before}
  reader = checkpoints.CheckpointReader(str(tmp_path / "model.ckpt"))
  a, b = (reader.get(f"{QUERY}/lora_kernel_{part}") for part in "ab")
  kernel = before[f"{QUERY}/kernel"] + 6.0 / 2 * (a @ b)
  np.testing.assert_allclose(reader.get(f"{QUERY}/kernel"), kernel, atol=1e-6)
  np.testing.assert_array_equal(
    reader.get(f"{QUERY}/lora_base"), before[f"{QUERY}/kernel"]
  )
  plain = heads.ClassifierModel(CONFIG, 3)
  assert checkpoints.load_variables(reader, plain) == []
  np.testing.assert_allclose(plain(IDS), model(IDS), atol=1e-5)
  assert set(checkpoint_names.parameters(reader.shapes)) == set(before)
  # Evaluation reads the merged kernel and does not add A B again.
  expected = np.asarray(model(IDS))
  assert checkpoints.load_variables(reader, model) == []
  np.testing.assert_allclose(model(IDS), expected, atol=1e-5)


def test_an_adapter_is_small_and_merges_into_its_base_model(tmp_path):
  model, before = model_with_updates()
  adapters.save_adapter(str(tmp_path), lora.tensors(model))
  shapes = adapters.open_adapter(str(tmp_path)).shapes
  assert not any(name.endswith("/kernel") for name in shapes)
  assert len(shapes) == 3 * 4 + 3
  other = heads.ClassifierModel(CONFIG, 3)
  for variable in other.weights:
    if variable.path.startswith("bert/"):
      variable.assign(before[variable.path])
  path = str(tmp_path / "adapter" / "lora.ckpt")
  assert set(adapters.add_adapter(other, path)) == {
    "output_weights",
    "output_bias",
  }
  np.testing.assert_allclose(other(IDS), model(IDS), atol=1e-5)


def test_an_adapter_of_another_model_is_refused(tmp_path):
  model, before = model_with_updates()
  adapters.save_adapter(str(tmp_path), lora.tensors(model))
  with pytest.raises(ValueError, match="lora.ckpt .*`init_checkpoint`"):
    adapters.add_adapter(heads.ClassifierModel(CONFIG, 2), str(tmp_path))
  # No adapter; a checkpoint of a run with LoRA, or what has no checksums.
  for number, tensors in enumerate((before, lora.tensors(model))):
    path = str(tmp_path / f"model.ckpt-{number}")
    checkpoints.write(path, tensors)
    with pytest.raises(ValueError, match=f"model.ckpt-{number} .*adapter"):
      adapters.add_adapter(model, path)
  # The shapes are the same, and all values except those of one kernel.
  other = heads.ClassifierModel(CONFIG, 3)
  for variable in other.weights:
    is_other = variable.path == f"{QUERY}/kernel"
    variable.assign(before[variable.path] + is_other)
  with pytest.raises(
    ValueError,
    match=f"lora.ckpt .*another `init_checkpoint`.* in {QUERY}/kernel",
  ):
    adapters.add_adapter(other, str(tmp_path))


def test_lora_needs_a_bert_and_a_rank_that_fits():
  with pytest.raises(ValueError, match="lora_rank"):
    lora.enable(keras.Model(), 2, None)
  with pytest.raises(ValueError, match="hidden_size 16"):
    lora.enable(heads.SpanModel(CONFIG), 17, None)
  with pytest.raises(ValueError, match="init_checkpoint"):
    training_config.FineTuningTrainConfig(
      output_dir="out", lora_adapter="adapter"
    )


def read_tensors(folder):
  reader = checkpoints.CheckpointReader(f"{folder}/model.ckpt-2")
  return {name: reader.get(name) for name in reader.shapes}


@pytest.fixture
def world(tmp_path):
  return worlds.World(tmp_path, worlds.write_models(tmp_path / "models"))


def test_a_run_is_resumed_and_leaves_an_ordinary_checkpoint(world):
  def run(output_dir, do_train=True, **train):
    train = {
      "output_dir": world.path(output_dir),
      "learning_rate": 1e-2,
      "save_checkpoints_steps": 1,
      **train,
    }
    return world.classify(
      train=train, do_train=do_train, do_eval=not do_train, num_train_epochs=2
    )

  encoder = world.model("encoder")
  reader = checkpoints.CheckpointReader(f"{encoder}/model.ckpt-1")
  start = {n: reader.get(n) for n in reader.shapes if n.startswith("bert/")}
  init = {"init_checkpoint": encoder}
  run("out", lora_rank=2, lora_alpha=4.0, **init)
  training = json.loads((world.folder / "out/run.json").read_text())["training"]
  assert (training["lora_rank"], training["lora_alpha"]) == (2, 4.0)
  result = read_tensors(world.path("out"))
  # Of each layer's four projections A and B, and of the head.
  assert len([n for n in result if n.endswith("/adam_m")]) == 2 * 8 + 2
  assert result[f"{QUERY}/lora_kernel_b"].any()
  changed = [n for n in start if (result[n] != start[n]).any()]
  assert {n.rpartition("/")[2] for n in changed} == {"kernel"}
  assert len(changed) == 8

  # A run that was killed after the first step; rank and alpha are its own.
  ignored = shutil.ignore_patterns("*ckpt-2*", "adapter")
  shutil.copytree(world.path("out"), world.path("killed"), ignore=ignored)
  state = 'model_checkpoint_path: "model.ckpt-1"\n'
  state += 'all_model_checkpoint_paths: "model.ckpt-1"\n'
  world.write("killed/checkpoint", state)
  run("killed", **init)
  resumed = read_tensors(world.path("killed"))
  assert resumed.keys() == result.keys()
  for name, value in result.items():
    np.testing.assert_array_equal(resumed[name], value, name)

  # From only the base and the adapter.
  expected = run("out", do_train=False)
  labels = (world.folder / "out/label_map.json").read_bytes()
  world.write("new/label_map.json", labels)
  adapter = world.path("out")
  evaluated = run("new", do_train=False, lora_adapter=adapter, **init)
  assert evaluated["loss"] == pytest.approx(expected["loss"], abs=1e-5)
  words = r"lora_kernel_a.* is \(16, 2\), but the model's is \(16, 3\)"
  with pytest.raises(ValueError, match=words):
    run("out", lora_rank=3)
