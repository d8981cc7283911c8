"""Checkpoints of TF Model Garden: those that it saved, those that it loads.

tests/golden/model_garden holds what tf-models-official 2.20 saved. Tests of
Model Garden itself need `pip install 'bert_tf[models]'`.
"""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoint.convert import convert, model_garden
from bert_tf.checkpoint.model_folder import ModelFolder
from tests.support import interop_models, runs

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "model_garden"
KINDS = ("encoder", "pretraining", "classifier", "token", "span")


@pytest.fixture(scope="module")
def garden():
  """Builds Model Garden's models; skips the test if it is not installed."""
  pytest.importorskip(
    "official.nlp.modeling", reason="tf-models-official is not installed"
  )
  from tests.golden import record_model_garden

  return record_model_garden


def source(tmp_path, path):
  """Returns a recorded checkpoint whose config is in another folder."""
  interop_models.write_beside(tmp_path, "encoder")
  return ModelFolder.open(
    str(path),
    do_lower_case=True,
    bert_config_file=str(tmp_path / "bert_config.json"),
    vocab_file=str(tmp_path / "vocab.txt"),
  )


def from_garden(tmp_path, path):
  """Converts a checkpoint. Returns the summary and the new prefix."""
  prefix = str(tmp_path / "out" / "bert_model.ckpt")
  written = convert.convert(
    source(tmp_path, path), "model_garden", prefix, "original"
  )
  return written, prefix


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_model_garden_models_compute_the_same_here(tmp_path, kind):
  written, prefix = from_garden(tmp_path, GOLDEN / kind)
  ours = interop_models.outputs(interop_models.loaded(kind, prefix), kind)
  interop_models.assert_close(ours, dict(np.load(GOLDEN / f"{kind}.npz")))
  assert (tmp_path / "out" / "label_map.json").exists() == (kind == "token")
  assert (written.run.task == "ner") == (kind == "token")


def matched(live, saved):
  """Objects of a live model to those that a checkpoint would restore there.

  As TensorFlow finds them: from the roots on, wherever an attribute of the
  checkpoint is one of the live object too.
  """
  pairs, waiting = {}, [(0, 0)]
  while waiting:
    ours, theirs = waiting.pop(0)
    if ours in pairs:
      assert pairs[ours] == theirs, "two objects for one"
      continue
    pairs[ours] = theirs
    for name, node in saved.edges[theirs].items():
      if name in live.edges[ours]:
        waiting.append((live.edges[ours][name], node))
  return pairs


@pytest.mark.parametrize("kind", KINDS)
def test_every_tensor_of_a_recorded_model_has_its_place(tmp_path, kind):
  _, prefix = from_garden(tmp_path, GOLDEN / kind)
  back = str(tmp_path / "back" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(prefix), "original", back, "model_garden")
  live, saved = (
    model_garden.Graph(path) for path in (str(GOLDEN / kind), back)
  )
  pairs = matched(live, saved)
  wanted = live.tensors_below([live.edges[0]["model"]])
  assert len(wanted) > 36
  for node in wanted:
    key = live.keys[node]
    result = saved.tensor(pairs[node])
    if kind == "pretraining" and "/_pooler_layer/" in key:
      continue  # The head's pooler is in both places.
    np.testing.assert_array_equal(result, live.tensor(node), err_msg=key)
  # No object is left over, as `assert_consumed` requires.
  assert set(pairs.values()) == set(range(len(saved.edges)))


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_erf", "relu"])
def test_an_activation_that_is_not_model_gardens_default_is_reported(
  tmp_path, hidden_act
):
  config = dataclasses.replace(interop_models.CONFIG, hidden_act=hidden_act)
  prefix, _ = interop_models.write_original(tmp_path / "in", "encoder", config)
  back = str(tmp_path / "back" / "bert_model.ckpt")
  source = ModelFolder.open(prefix, do_lower_case=True)
  with runs.logged() as log:
    convert.convert(source, "original", back, "model_garden")
  is_reported = f"{hidden_act!r} as its inner_activation" in log()
  assert is_reported == (hidden_act != "gelu")


def save_objects(tmp_path, **objects):
  """Saves objects; returns the prefix."""
  return tf.train.Checkpoint(**objects).write(str(tmp_path / "m.ckpt"))


def test_a_checkpoint_without_an_encoder_is_refused(tmp_path):
  path = save_objects(tmp_path, model=tf.train.Checkpoint(v=tf.Variable(1.0)))
  with pytest.raises(ValueError, match="m.ckpt must have one encoder"):
    model_garden.read(source(tmp_path, path))


@pytest.mark.parametrize("kind", KINDS)
def test_model_garden_loads_our_checkpoint(tmp_path, garden, kind):
  prefix, ours = interop_models.write_original(tmp_path / "in", kind)
  path = str(tmp_path / "out" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(prefix), "original", path, "model_garden")
  model, encoder = garden.new_model(kind)
  status = tf.train.Checkpoint(model=model).read(path)
  status.assert_consumed().assert_existing_objects_matched()
  interop_models.assert_close(
    garden.outputs(model, kind), interop_models.outputs(ours, kind)
  )
  # Fine-tuning in Model Garden loads only the encoder.
  encoder = garden.new_encoder()
  status = tf.train.Checkpoint(encoder=encoder).read(path)
  status.expect_partial().assert_existing_objects_matched()
  np.testing.assert_array_equal(
    encoder.get_embedding_table(),
    ours.bert.embeddings.word_embeddings
    if kind != "encoder"
    else ours.embeddings.word_embeddings,
  )
