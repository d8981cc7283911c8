"""Tests of the vectors of texts that an encoder computes."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint import convert, extend_vocab, sentence_transformers
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import export
from bert_tf.export.config import ExportConfig
from bert_tf.inference.config import ModelConfig

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODEL = GOLDEN / "tiny_perturbed"
FILES = {
  "bert_config_file": str(MODEL / "bert_config.json"),
  "vocab_file": str(GOLDEN / "tiny" / "vocab.txt"),
}
TEXTS = ["a single sentence", "", "the church in october", "few of the songs"]


def config(kind=ModelConfig, **settings):
  values = {"init_checkpoint": str(MODEL / "bert_model.ckpt"), **FILES}
  return kind(**{**values, "task": "encoder", **settings})


def compute(**settings):
  """Returns the outputs of the function `text` for TEXTS."""
  function = export.build(config(**settings)).signatures["text"]
  return {n: x.numpy() for n, x in function(tf.constant(TEXTS)).items()}


@pytest.fixture(scope="module")
def token_vectors():
  """Returns the vectors of the tokens of each text, [F, D]."""
  model = bert_tf.FeatureExtractor(MODEL / "bert_model.ckpt", **FILES)
  return [features.vectors[0] for features in model.extract(TEXTS)]


def unit(vector):
  return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(
  ("settings", "pool"),
  [
    ({}, lambda tokens: tokens.mean(axis=0)),
    ({"pooling": "cls"}, lambda tokens: tokens[0]),
    (
      {"pooling": "max", "normalize": True},
      lambda tokens: unit(tokens.max(axis=0)),
    ),
  ],
)
def test_a_text_has_the_pooled_vectors_of_its_tokens(
  token_vectors, settings, pool
):
  outputs = compute(**settings)
  expected = np.stack([pool(tokens) for tokens in token_vectors])
  np.testing.assert_allclose(outputs["embedding"], expected, atol=1e-5)
  lengths = [len(tokens) for tokens in token_vectors]
  assert outputs["num_tokens"].tolist() == lengths


def test_an_exported_encoder_knows_its_pooling(tmp_path):
  path = tmp_path / "encoder"
  settings = {"pooling": "max", "normalize": True, "max_seq_length": 16}
  export.run(config(ExportConfig, export_dir=str(path), **settings))
  run = json.loads((path / "run.json").read_text())
  assert settings.items() <= run["settings"].items()
  functions = tf.saved_model.load(str(path)).signatures
  # TF Hub's encoders take ids by default.
  inputs = functions["serving_default"].structured_input_signature[1]
  assert "input_ids" in inputs
  np.testing.assert_allclose(
    functions["text"](text=tf.constant(TEXTS))["embedding"],
    compute(**settings)["embedding"],
    atol=1e-6,
  )
  other = ModelConfig(init_checkpoint=str(path), pooling="cls")
  assert export.build(other, with_text=False).files.settings.pooling == "cls"


def write_modules(folder, kinds=("Transformer", "Pooling"), **pooling):
  """Writes the files of sentence-transformers into a folder."""
  modules = []
  for number, kind in enumerate(kinds):
    path = f"{number}_{kind}" if number else ""
    (folder / path).mkdir(parents=True, exist_ok=True)
    kind = f"sentence_transformers.models.{kind}"
    modules.append({"idx": number, "name": "x", "path": path, "type": kind})
  (folder / "modules.json").write_text(json.dumps(modules))
  if "Pooling" in kinds:
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


CLS, MAX = "pooling_mode_cls_token", "pooling_mode_max_tokens"


@pytest.mark.parametrize(
  ("kinds", "pooling", "expected"),
  [
    ("", {CLS: False, "pooling_mode_mean_tokens": True}, ("mean", False, 256)),
    ("", {CLS: True}, ("cls", False, 256)),
    ("Normalize", {"pooling_mode": "max"}, ("max", True, 256)),
    # What changes vectors and is not known is refused by name.
    ("Dense", {}, "modules.json .*Dense"),
    ("", {"pooling_mode_lasttoken": True}, "pooling_mode_lasttoken"),
    ("", {CLS: True, MAX: True}, "cls and max"),
    ("", {"pooling_mode": 3}, "the pooling 3"),
  ],
)
def test_the_pooling_is_read_from_sentence_transformers_files(
  tmp_path, kinds, pooling, expected
):
  read = sentence_transformers.read_settings
  assert read(str(tmp_path)) is None
  write_modules(tmp_path, ("Transformer", "Pooling", *kinds.split()), **pooling)
  limit = {"max_seq_length": 256, "do_lower_case": False}
  (tmp_path / "sentence_bert_config.json").write_text(json.dumps(limit))
  if isinstance(expected, str):
    with pytest.raises(ValueError, match=expected):
      read(str(tmp_path))
  else:
    settings = sentence_transformers.VectorSettings(*expected)
    assert read(str(tmp_path)) == settings


def write_sentence_encoder(folder):
  """Writes a model of maximum pooling and length 5; returns its checkpoint."""
  for path in MODEL.glob("bert_model.ckpt*"):
    (folder / path.name).symlink_to(path)
  write_modules(
    folder,
    ("Transformer", "Pooling", "Normalize"),
    pooling_mode_max_tokens=True,
  )
  limit = {"max_seq_length": 5}
  (folder / "sentence_bert_config.json").write_text(json.dumps(limit))
  return str(folder / "bert_model.ckpt")


@pytest.mark.parametrize(
  "settings", [{}, {"pooling": "cls", "max_seq_length": 7}]
)
def test_encode_returns_what_the_exported_function_does(tmp_path, settings):
  checkpoint = write_sentence_encoder(tmp_path)
  expected = compute(init_checkpoint=checkpoint, **settings)["embedding"]
  settings = {**FILES, "batch_size": 3, **settings}
  model = bert_tf.FeatureExtractor(checkpoint, **settings)
  vectors = model.encode(TEXTS)
  assert vectors.dtype == np.float32
  np.testing.assert_allclose(vectors, expected, atol=1e-5)
  np.testing.assert_allclose(model.encode(TEXTS[0]), expected[0], atol=1e-5)
  units = np.stack([unit(vector) for vector in expected])
  np.testing.assert_allclose(model.encode(TEXTS, True), units, atol=1e-5)
  assert model.encode([]).shape == (0, vectors.shape[1])
  with pytest.raises(ValueError, match="row 0"):
    model.encode([("a", "pair")])


@pytest.mark.parametrize("to", ["original", "hf", "extended"])
def test_a_converted_encoder_keeps_its_pooling(tmp_path, to):
  (tmp_path / "in").mkdir()
  checkpoint = write_sentence_encoder(tmp_path / "in")
  out = str(tmp_path / "out")
  source = ModelFolder.open(checkpoint, **FILES)
  if to == "extended":
    extend_vocab.extend(source, ["qed"], out, "grow")
  elif to == "original":
    convert.convert(source, f"{out}/bert_model.ckpt")
  else:
    for _ in range(2):  # The second time into the same folder.
      convert.convert(source, out, to)
  settings = sentence_transformers.read_settings(out)
  assert settings == sentence_transformers.VectorSettings("max", True, 5)
