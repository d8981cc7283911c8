"""Checkpoints of TF Model Garden and TF Hub are read as any other model.

tests/golden/model_garden holds what tf-models-official 2.20 saved.
"""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

import bert_tf
from bert_tf import modeling
from bert_tf.checkpoint import checkpoints, convert
from bert_tf.checkpoint.model_folder import ModelFolder
from tests.support import interop_models, tiny_models

GOLDEN = tiny_models.TINY.parent / "model_garden"
KINDS = ("encoder", "pretraining", "classifier", "token", "span")


def write_folder(folder, kind):
  """Writes a recorded checkpoint with a config and a vocabulary."""
  interop_models.write_beside(folder, "encoder")
  for path in GOLDEN.glob(f"{kind}.[di]*"):
    shutil.copy(path, folder)
  return ModelFolder.open(str(folder))


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_model_garden_models_compute_the_same_here(tmp_path, kind):
  source = write_folder(tmp_path / "in", kind)
  expected = dict(np.load(GOLDEN / f"{kind}.npz"))
  model = type(interop_models.random_model(kind))
  read = model.from_pretrained(tmp_path / "in")
  interop_models.assert_close(interop_models.outputs(read, kind), expected)
  prefix = str(tmp_path / "out" / "bert_model.ckpt")
  written = convert.convert(source, prefix)
  ours = interop_models.outputs(interop_models.loaded(kind, prefix), kind)
  interop_models.assert_close(ours, expected)
  assert (tmp_path / "out" / "label_map.json").exists() == (kind == "token")
  assert (written.run.task == "ner") == (kind == "token")


def save_hub(folder):
  """Writes a recorded encoder as a SavedModel like those on TF Hub."""
  reader = tf.train.load_checkpoint(str(GOLDEN / "encoder"))
  graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
    reader.get_tensor(checkpoints.OBJECT_GRAPH)
  )
  objects = {}

  def make(node_id):
    if node_id not in objects:
      node = graph.nodes[node_id]
      if node.attributes:
        value = reader.get_tensor(node.attributes[0].checkpoint_key)
        objects[node_id] = tf.Variable(value, name=f"transformer/{node_id}")
        return objects[node_id]
      module = objects[node_id] = tf.Module()
      for child in node.children:
        name = child.local_name
        ends = ("kernel", "bias", "gamma", "beta", "embeddings")
        if name[0] == "_" or name.isdecimal() or name in ends:
          setattr(module, name, make(child.node_id))
    return objects[node_id]

  [root] = [c for c in graph.nodes[0].children if c.local_name == "model"]
  tf.saved_model.save(make(root.node_id), str(folder))
  (folder / "assets").mkdir(exist_ok=True)
  (folder / "assets" / "vocab.txt").write_text(interop_models.VOCAB)


def test_a_saved_model_of_tf_hub_is_a_model(tmp_path):
  save_hub(tmp_path)
  with pytest.raises(ValueError, match="bert_config.json"):
    ModelFolder.open(str(tmp_path))
  config = interop_models.CONFIG.to_json_string()
  (tmp_path / "bert_config.json").write_text(config)
  model = modeling.BertModel.from_pretrained(tmp_path)
  interop_models.assert_close(
    interop_models.outputs(model, "encoder"),
    dict(np.load(GOLDEN / "encoder.npz")),
  )
  extractor = bert_tf.FeatureExtractor(str(tmp_path), max_seq_length=8)
  assert len(extractor.encode(["w0", "w1 w2"])) == 2
  target = tmp_path / "out" / "bert_model.ckpt"
  convert.convert(ModelFolder.open(str(tmp_path)), str(target))
  vocab = (tmp_path / "out" / "vocab.txt").read_text()
  assert vocab == interop_models.VOCAB


def test_objects_without_an_encoder_are_refused(tmp_path):
  interop_models.write_beside(tmp_path, "encoder")
  model = tf.train.Checkpoint(v=tf.Variable(1.0))
  path = tf.train.Checkpoint(model=model).write(str(tmp_path / "m.ckpt"))
  with pytest.raises(ValueError, match="m.ckpt does not hold a BERT"):
    modeling.BertModel.from_pretrained(path)
