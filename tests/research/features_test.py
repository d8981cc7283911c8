"""NER on the vectors of a frozen BERT: layers, records, BiLSTM, a run."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.training import curves
from research.features import config as config_lib
from research.features import task
from tests.support import ner_files, numpy_lstm

TINY = pathlib.Path(__file__).resolve().parents[1] / "golden" / "tiny"
CHECKPOINT = str(TINY / "bert_model.ckpt")
CONFIG = modeling.BertConfig.from_json_file(str(TINY / "bert_config.json"))
LABELS = ("O", "B-X", "I-X")

data = ner_files.data


# Recorded outputs of the original's two layers.
RECORDED = {
  "embeddings": ["embedding_output"],
  "second_to_last": ["encoder_layer_0"],
  "last": ["encoder_layer_1"],
  "weighted_sum_all": ["encoder_layer_0", "encoder_layer_1"],
}


@pytest.mark.parametrize("feature_layers", RECORDED)
def test_vectors_are_the_originals_of_the_labelled_words(feature_layers):
  recorded = dict(np.load(TINY / "forward.npz"))
  mask = np.random.default_rng(0).integers(2, size=(8, 32))
  batch = {
    name: recorded[f"in/{name}"]
    for name in ("input_ids", "input_mask", "segment_ids")
  }
  batches = tf.data.Dataset.from_tensors({**batch, "label_mask": mask})
  vectors = list(task.word_vectors(CONFIG, CHECKPOINT, feature_layers, batches))
  outputs = [recorded[f"out/{name}"] for name in RECORDED[feature_layers]]
  expected = np.stack(outputs, axis=2)[mask == 1]
  assert np.shape(vectors) == expected.shape
  assert len(outputs) == task.num_layers(feature_layers, CONFIG)
  # float16 has eleven bits.
  np.testing.assert_allclose(vectors, expected, rtol=2**-11, atol=1e-4)


def test_the_last_four_are_in_the_order_of_the_layers():
  layers = ["e", *range(1, 13)]
  for name, expected in {
    "embeddings": ["e"],
    "second_to_last": [11],
    "last": [12],
    "weighted_sum_last_four": [9, 10, 11, 12],
    "concat_last_four": [9, 10, 11, 12],
    "weighted_sum_all": list(range(1, 13)),
  }.items():
    assert layers[config_lib.FEATURE_LAYERS[name]] == expected


@pytest.mark.parametrize("is_summed", [False, True])
def test_logits_are_those_of_two_bidirectional_lstms(is_summed):
  rng = np.random.default_rng(0)
  model = task.BiLstmModel(2, 3, 4, is_summed)
  values = {}
  for variable in model.weights:
    value = rng.normal(0, 0.3, variable.shape).astype(np.float32)
    variable.assign(value)
    values[variable.path] = value
  vectors = rng.normal(size=(2, 5, 2, 3)).astype(np.float16)
  lengths = [5, 3]
  mask = np.arange(5) < np.array(lengths)[:, None]
  batch = {"vectors": vectors, "label_mask": mask.astype(np.int32)}
  logits = model(batch).numpy()
  for row, length, row_logits in zip(vectors.astype(float), lengths, logits):
    x = row[:length].reshape(length, 6)
    if is_summed:
      powers = np.exp(values["layer_weights"])
      x = np.einsum("l,wld->wd", powers / powers.sum(), row[:length])
    for i in range(2):
      halves = []
      for direction, step in (("forward", 1), ("backward", -1)):
        cell = f"bilstm_{i}/{direction}_lstm/lstm_cell/"
        names = ("kernel", "recurrent_kernel", "bias")
        weights = [values[cell + name] for name in names]
        assert weights[1].shape == (384, 4 * 384)
        halves.append(numpy_lstm.read(x[::step], weights)[::step])
      x = np.concatenate(halves, axis=1)
    expected = x @ values["output_weights"].T + values["output_bias"]
    # Sums of 768 float32 products, twice over five steps.
    np.testing.assert_allclose(row_logits[:length], expected, atol=1e-3)
  assert ("layer_weights" in values) == is_summed


def make_config(data, folder, **changes):
  config = ner_files.ner_config(
    data,
    folder / "out",
    train={"learning_rate": 1e-2, "init_checkpoint": CHECKPOINT},
    bert_config_file=str(TINY / "bert_config.json"),
    num_train_epochs=12.0,
    **changes,
  )
  return config_lib.FeaturesConfig(
    **vars(config),
    feature_layers="weighted_sum_all",
  )


def test_a_run_learns_from_features_computed_once(data, tmp_path, monkeypatch):
  monkeypatch.setattr(task, "_UNITS", 32)
  steps = {"do_train": True, "do_eval": True}
  config = make_config(data, tmp_path, **steps)
  results = task.run(config)
  losses = curves.read(str(tmp_path / "out"))["loss"]
  assert losses[max(losses)] < 0.2 * losses[min(losses)]
  assert results["f1"] > 0.95
  reader = checkpoints.CheckpointReader(str(tmp_path / "out" / "model.ckpt-90"))
  assert not [name for name in reader.shapes if name.startswith("bert/")]
  assert np.any(reader.get("layer_weights") != 0.0)
  again = task.run(make_config(data, tmp_path, do_eval=True, do_predict=True))
  assert {name: again[name] for name in results} == pytest.approx(results)
  assert again["test_f1"] > 0.95
