"""One-directional models: attention, pooled output and file formats."""

import dataclasses
import json

import keras
import numpy as np
import pytest

from bert_tf import modeling
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.inference import predictor
from tests.support import packed_instances, tiny_models

SIDES = ("left_to_right", "right_to_left")
LENGTHS = (12, 7, 1)


def config(direction):
  return dataclasses.replace(
    packed_instances.CONFIG, attention_direction=direction
  )


def bert(direction):
  """Returns a BertModel with random weights, equal for all directions."""
  keras.utils.set_random_seed(1)
  return modeling.BertModel(config(direction))


def batch():
  """Returns inputs with LENGTHS, padded to 12 with tokens to ignore."""
  rng = np.random.default_rng(3)
  ids = rng.integers(5, 60, (len(LENGTHS), 12))
  mask = (np.arange(12) < np.array(LENGTHS)[:, None]).astype(int)
  return {
    "input_ids": ids,
    "input_mask": mask,
    "segment_ids": mask * (np.arange(12) > 4),
  }


@pytest.mark.parametrize("direction", SIDES)
def test_a_position_depends_on_one_side_only(direction):
  model, features = bert(direction), batch()
  output = model(features, return_attention_probs=True)
  # All positions of the first row are real.
  triangle = np.tri(12) if direction == "left_to_right" else np.tri(12).T
  for probs in output.attention_probs:
    np.testing.assert_array_equal(probs.numpy()[0] > 0, [triangle] * 2)
    np.testing.assert_allclose(probs.numpy()[0].sum(-1), 1.0, atol=1e-6)


@pytest.mark.parametrize("direction", SIDES)
def test_the_pooled_output_is_at_the_position_that_sees_all(direction):
  model, features = bert(direction), batch()
  output = model(features)
  for b, length in enumerate(LENGTHS):
    place = length - 1 if direction == "left_to_right" else 0
    seen = output.sequence_output.numpy()[b, place]
    dense = model.pooler.dense
    pooled = np.tanh(seen @ dense.kernel.numpy() + dense.bias.numpy())
    np.testing.assert_allclose(output.pooled_output[b], pooled, atol=1e-5)
  assert output.pooled_output.shape == (3, 16)


def test_files_have_the_key_only_for_one_direction(tmp_path):
  default, left = config("both"), config("left_to_right")
  assert "attention_direction" not in json.loads(default.to_json_string())
  path = tmp_path / "bert_config.json"
  path.write_text(left.to_json_string())
  assert modeling.BertConfig.from_json_file(str(path)) == left
  path.write_text(default.to_json_string())
  assert modeling.BertConfig.from_json_file(str(path)) == default
  path.write_text(config("left").to_json_string())
  with pytest.raises(ValueError, match='"left".*both.*left_to_right'):
    modeling.BertConfig.from_json_file(str(path))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
  """Returns the folder of a left-to-right classifier."""
  folder = tiny_models.write_classifier(tmp_path_factory.mktemp("ltr") / "run")
  path = folder / "bert_config.json"
  values = {**json.loads(path.read_text()), "attention_direction": SIDES[0]}
  path.write_text(json.dumps(values))
  return folder


def test_an_exported_model_predicts_like_its_checkpoint(classifier, tmp_path):
  texts = [{"text": "the of and a in"}, {"text": "with"}]
  probs = []
  target = str(tmp_path / "saved")
  export.run(
    export_config.ExportConfig(
      init_checkpoint=str(classifier), export_dir=target
    )
  )
  for path in (str(classifier), target):
    model = predictor.Predictor(export_config.ModelConfig(init_checkpoint=path))
    answers = model.predict(texts)
    probs.append([list(a["probabilities"].values()) for a in answers])
  np.testing.assert_allclose(*probs, atol=1e-6)
  saved = json.loads((tmp_path / "saved" / "bert_config.json").read_text())
  assert saved["attention_direction"] == "left_to_right"
