"""Models of Hugging Face: read, checked, written in the original's format."""

import dataclasses
import json

import ml_dtypes
import numpy as np
import pytest

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.checkpoint.convert import convert
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.model import heads, hugging_face_config
from tests.support import interop_models, runs


def to_original(folder, tmp_path):
  """Converts a model. Returns the summary and a reader of the checkpoint."""
  output = str(tmp_path / "out" / "bert_model.ckpt")
  source = ModelFolder.open(str(folder))
  converted = convert.convert(source, output)
  return converted, checkpoints.CheckpointReader(output)


def converted_model(tmp_path, kind, change=lambda tensors: tensors, **config):
  """Changes the tensors of a model of Hugging Face, and converts it."""
  folder, tensors, _ = interop_models.to_hf(tmp_path, kind)
  interop_models.replace_weights(folder, change(tensors), **config)
  (folder / "label_map.json").unlink(missing_ok=True)
  return to_original(folder, tmp_path)


def test_copies_of_tied_tensors_are_left_out(tmp_path):
  folder, tensors, model = interop_models.to_hf(tmp_path, "pretraining")
  copies = {
    "bert.embeddings.position_ids": np.arange(interop_models.P)[None],
    "cls.predictions.decoder.weight": tensors[
      "bert.embeddings.word_embeddings.weight"
    ],
    "cls.predictions.decoder.bias": tensors["cls.predictions.bias"],
  }
  interop_models.replace_weights(folder, {**tensors, **copies})
  converted, reader = to_original(folder, tmp_path)
  assert converted.run.task == "pretraining"
  assert {v.path for v in model.weights} == set(reader.shapes)


def test_a_model_without_a_pooler_gets_a_random_one_and_reports_it(tmp_path):
  with runs.logged() as log:
    converted, reader = converted_model(
      tmp_path, "span", lambda t: {n: t[n] for n in t if "pooler" not in n}
    )
  assert converted.own_heads == (heads.SPAN,)
  assert log().count("no pooler") == 1
  kernel = reader.get("bert/pooler/dense/kernel")
  assert 0.01 < kernel.std() < 0.03  # initializer_range is 0.02.
  interop_models.loaded("span", reader.path)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_old_names_and_half_floats_are_read(tmp_path, dtype):
  new = {"weight": "gamma", "bias": "beta"}

  def rename(name):
    scope, _, end = name.rpartition(".")
    return f"{scope}.{new[end]}" if scope.endswith("LayerNorm") else name

  folder, tensors, model = interop_models.to_hf(tmp_path, "encoder")
  old = {rename(name): value.astype(dtype) for name, value in tensors.items()}
  interop_models.replace_weights(folder, old)
  _, reader = to_original(folder, tmp_path)
  for variable in model.weights:
    value, rounded = reader.get(variable.path), variable.numpy().astype(dtype)
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value, rounded.astype(np.float32))


def test_tensors_outside_bert_are_left_out_and_named(tmp_path, caplog):
  extra = dict.fromkeys(("bert.encoder.layer.2.extra", "lora"), np.zeros(1))
  converted_model(tmp_path, "classifier", lambda tensors: {**tensors, **extra})
  [warning] = [r for r in caplog.records if r.levelname == "WARNING"]
  assert "bert/encoder/layer_2/extra, lora" in warning.getMessage()


def test_an_output_matrix_that_is_not_tied_is_refused(tmp_path):
  key = "cls.predictions.decoder.weight"
  untied = {key: np.zeros((interop_models.V, interop_models.D), "f4")}
  with pytest.raises(ValueError, match=f"{key} .*bert/embeddings/word"):
    converted_model(tmp_path, "pretraining", lambda t: {**t, **untied})
  assert not (tmp_path / "out").exists()


OTHER_CONFIGS = {
  "model_type": ("roberta", "model_type is 'roberta' and must be 'bert'"),
  "hidden_act": ("swish", "hidden_act is 'swish' and must be one of gelu"),
  "position_embedding_type": ("relative_key", "'relative_key' and must be"),
  "attention_type": ("block_sparse", "'block_sparse' and must be"),
}


def test_all_settings_of_another_model_are_named():
  config = {"vocab_size": 9, **{k: v for k, (v, _) in OTHER_CONFIGS.items()}}
  with pytest.raises(ValueError) as error:
    hugging_face_config.original_config(
      config, ["hidden_size", "vocab_size"], "c"
    )
  for _, expected in OTHER_CONFIGS.values():
    assert expected in str(error.value)
  assert "hidden_size is missing" in str(error.value)


def test_another_epsilon_is_kept_in_both_directions(tmp_path):
  config = dataclasses.replace(interop_models.CONFIG, layer_norm_eps=1e-5)
  prefix, _ = interop_models.write_original(tmp_path / "in", "encoder", config)
  source = ModelFolder.open(prefix)
  convert.convert(source, str(tmp_path / "hf"), "hf")
  theirs = json.loads((tmp_path / "hf" / "config.json").read_text())
  assert theirs["layer_norm_eps"] == 1e-5
  converted, _ = to_original(tmp_path / "hf", tmp_path)
  assert converted.config.layer_norm_eps == 1e-5
  ours = json.loads((tmp_path / "out" / "bert_config.json").read_text())
  assert ours["layer_norm_eps"] == 1e-5


def test_a_config_of_2019_is_known_by_the_weights_beside_it(tmp_path):
  folder, tensors, _ = interop_models.to_hf(tmp_path, "encoder")
  new = ("model_type", "architectures", "layer_norm_eps")
  tensors = {f"bert.{name}": value for name, value in tensors.items()}
  settings = {**dict.fromkeys(new), "hidden_act": "gelu"}
  interop_models.replace_weights(folder, tensors, **settings)
  config = modeling.BertConfig.from_json_file(str(folder / "config.json"))
  assert config.hidden_act == "gelu_erf"
  converted, _ = to_original(folder, tmp_path)
  assert converted.config.hidden_act == "gelu_erf"


@pytest.mark.parametrize(
  ("settings", "num_warnings"),
  [
    ({"sentence_transformers": {"activation_fn": "torch.nn.Sigmoid"}}, 1),
    ({"sbert_ce_default_activation_function": "torch.nn.Sigmoid"}, 1),
    ({"sentence_transformers": {"activation_fn": "torch.nn.Identity"}}, 0),
  ],
)
def test_an_activation_that_is_not_applied_is_named(
  tmp_path, settings, num_warnings
):
  def cut(tensors):
    head = ("classifier.weight", "classifier.bias")
    return {**tensors, **{name: tensors[name][:1] for name in head}}

  settings = {**settings, "id2label": {"0": "LABEL_0"}, "problem_type": None}
  with runs.logged() as log:
    converted_model(tmp_path, "classifier", cut, **settings)
  assert log().count("torch.nn.Sigmoid") == num_warnings


def test_pickled_weights_are_refused_with_the_reason(tmp_path):
  folder, _, _ = interop_models.to_hf(tmp_path, "encoder")
  weights = folder / "model.safetensors"
  weights.rename(weights.with_name("pytorch_model.bin"))
  with pytest.raises(ValueError, match="pytorch_model.bin.*save_pretrained"):
    to_original(folder, tmp_path)


TOKENS = {"architectures": ["BertForTokenClassification"]}
MULTILABEL = {"problem_type": "multi_label_classification"}


@pytest.mark.parametrize(
  ("settings", "labels", "problem_type", "expected"),
  [
    ({}, "OBI", "classification", ["O", "B", "I"]),
    (MULTILABEL, "OBI", "multilabel", ["O", "B", "I"]),
    (TOKENS, "OBI", "words", ["O", "B", "I"]),
    (TOKENS, None, "words", ["LABEL_0", "LABEL_1", "LABEL_2"]),
    ({}, "O", "regression", []),
  ],
)
def test_labels_go_into_the_label_map(
  tmp_path, settings, labels, problem_type, expected
):
  names = {str(i): label for i, label in enumerate(labels or ())} or None
  settings = {"problem_type": None, "id2label": names, **settings}
  num_labels = len(labels or "123")

  def cut(tensors):
    head = ("classifier.weight", "classifier.bias")
    return {**tensors, **{name: tensors[name][:num_labels] for name in head}}

  converted_model(tmp_path, "classifier", cut, **settings)
  label_map = json.loads((tmp_path / "out" / "label_map.json").read_text())
  assert label_map["problem_type"] == problem_type
  assert label_map["labels"] == expected


def test_another_number_of_labels_is_refused(tmp_path):
  with pytest.raises(ValueError, match="ids 0, 1,.* 3"):
    converted_model(tmp_path, "classifier", id2label={"0": "a", "1": "b"})


def test_the_bias_that_choices_share_is_left_out(tmp_path):
  bias = {"classifier.bias": np.ones(1, "f4") / 3}
  converted, reader = converted_model(tmp_path, "choice", lambda t: t | bias)
  assert converted.own_heads == (heads.CHOICES,)
  assert reader.shapes["choice_weights"]
