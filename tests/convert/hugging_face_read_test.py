"""Models of Hugging Face: read, checked, written in the original's format."""

import json
import pathlib

import ml_dtypes
import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from bert_tf import checkpoints, heads, modeling
from bert_tf.convert import convert, pretrained
from bert_tf.formats import hugging_face

V, D, WIDE, N, P, LAYERS = 23, 8, 12, 2, 10, 2
HF_CONFIG = {
  "architectures": ["BertForPreTraining"],
  "attention_probs_dropout_prob": 0.1,
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "hidden_size": D,
  "initializer_range": 0.02,
  "intermediate_size": WIDE,
  "layer_norm_eps": 1e-12,
  "max_position_embeddings": P,
  "model_type": "bert",
  "num_attention_heads": N,
  "num_hidden_layers": LAYERS,
  "pad_token_id": 0,
  "type_vocab_size": 2,
  "vocab_size": V,
}


def linear(name, outputs, inputs):
  return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def encoder(with_pooler=True):
  """Names and shapes of a BertModel, as Hugging Face saves them."""
  shapes = {
    "embeddings.word_embeddings.weight": (V, D),
    "embeddings.position_embeddings.weight": (P, D),
    "embeddings.token_type_embeddings.weight": (2, D),
    **linear("embeddings.LayerNorm", D, D),
  }
  for i in range(LAYERS):
    layer = f"encoder.layer.{i}"
    for name in ("query", "key", "value"):
      shapes.update(linear(f"{layer}.attention.self.{name}", D, D))
    shapes.update(linear(f"{layer}.attention.output.dense", D, D))
    shapes.update(linear(f"{layer}.attention.output.LayerNorm", D, D))
    shapes.update(linear(f"{layer}.intermediate.dense", WIDE, D))
    shapes.update(linear(f"{layer}.output.dense", D, WIDE))
    shapes.update(linear(f"{layer}.output.LayerNorm", D, D))
  if with_pooler:
    shapes.update(linear("pooler.dense", D, D))
  return {
    name: (D,) if "LayerNorm" in name else shape
    for name, shape in shapes.items()
  }


def prefixed(shapes):
  return {f"bert.{name}": shape for name, shape in shapes.items()}


PRETRAINING = {
  **prefixed(encoder()),
  **linear("cls.predictions.transform.dense", D, D),
  "cls.predictions.transform.LayerNorm.weight": (D,),
  "cls.predictions.transform.LayerNorm.bias": (D,),
  "cls.predictions.bias": (V,),
  **linear("cls.seq_relationship", 2, D),
}
CLASSIFIER = {**prefixed(encoder()), **linear("classifier", 3, D)}
SPAN = {**prefixed(encoder(False)), **linear("qa_outputs", 2, D)}


def draw(shapes, seed=0):
  rng = np.random.default_rng(seed)
  return {
    name: rng.normal(size=shape).astype(np.float32) * 0.5
    for name, shape in shapes.items()
  }


TOKENIZER = {"do_lower_case": True}


def write_model(folder, tensors, config=(), tokenizer=TOKENIZER):
  """Writes the files of `save_pretrained`. Returns the folder's name."""
  folder.mkdir()
  safetensors_numpy.save_file(tensors, folder / "model.safetensors")
  text = json.dumps({**HF_CONFIG, **dict(config)})
  (folder / "config.json").write_text(text)
  words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
  words += [f"w{i}" for i in range(V - len(words))]
  (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
  if tokenizer:
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
  return str(folder)


def to_original(folder, output):
  return convert.convert(
    pretrained.ModelSource(folder), "hf", str(output), "original"
  )


def converted_model(tmp_path, tensors, **parts):
  """Converts a model. Returns the summary and a reader of the checkpoint."""
  folder = write_model(tmp_path / "hf", tensors, **parts)
  output = str(tmp_path / "out" / "bert_model.ckpt")
  converted = to_original(folder, output)
  return converted, checkpoints.CheckpointReader(output)


def test_a_pretrained_model_brings_both_heads(tmp_path):
  tensors = draw(PRETRAINING)
  saved_tensors = {
    **tensors,
    "bert.embeddings.position_ids": np.arange(P)[None],
    "cls.predictions.decoder.weight": tensors[
      "bert.embeddings.word_embeddings.weight"
    ],
    "cls.predictions.decoder.bias": tensors["cls.predictions.bias"],
  }
  converted, reader = converted_model(tmp_path, saved_tensors)
  assert converted.run.task == "pretraining"
  config = modeling.BertConfig.from_json_file(
    str(tmp_path / "out" / "bert_config.json")
  )
  model = heads.PretrainingModel(config)
  assert checkpoints.init_from_checkpoint(model, reader.path) == []
  assert {v.path for v in model.weights} == set(reader.shapes)
  expected = {
    "cls/predictions/transform/dense/kernel": tensors[
      "cls.predictions.transform.dense.weight"
    ].T,
    "cls/predictions/transform/LayerNorm/beta": tensors[
      "cls.predictions.transform.LayerNorm.bias"
    ],
    "cls/predictions/output_bias": tensors["cls.predictions.bias"],
    "cls/seq_relationship/output_weights": tensors[
      "cls.seq_relationship.weight"
    ],
  }
  for name, value in expected.items():
    np.testing.assert_array_equal(reader.get(name), value, err_msg=name)


def test_a_model_without_a_pooler_gets_a_random_one_and_reports_it(tmp_path):
  tensors = draw(SPAN)
  converted, reader = converted_model(tmp_path, tensors)
  assert converted.own_heads == (heads.SPAN,)
  assert converted.notes == (
    "The model has no pooler; an untrained pooler was added.",
  )
  np.testing.assert_array_equal(
    reader.get("cls/squad/output_weights"), tensors["qa_outputs.weight"]
  )
  kernel = reader.get("bert/pooler/dense/kernel")
  assert 0.01 < kernel.std() < 0.03  # initializer_range is 0.02.
  model = heads.SpanModel(
    modeling.BertConfig.from_json_file(
      str(tmp_path / "out" / "bert_config.json")
    )
  )
  assert checkpoints.init_from_checkpoint(model, reader.path) == []


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_old_names_and_half_floats_are_read(tmp_path, dtype):
  tensors = draw(encoder())
  old = {
    name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
      "LayerNorm.bias", "LayerNorm.beta"
    ): value.astype(dtype)
    for name, value in tensors.items()
  }
  _, reader = converted_model(tmp_path, old)
  gamma = reader.get("bert/embeddings/LayerNorm/gamma")
  assert gamma.dtype == np.float32
  expected = tensors["embeddings.LayerNorm.weight"].astype(dtype)
  np.testing.assert_array_equal(gamma, expected.astype(np.float32))


def test_tensors_outside_bert_are_left_out_and_named(tmp_path, caplog):
  extra = ("bert.encoder.layer.2.extra", "lora")
  tensors = draw(encoder())
  converted, _ = converted_model(
    tmp_path, {**tensors, **dict.fromkeys(extra, np.zeros(1, "f4"))}
  )
  assert len(converted.tensors) == len(tensors)
  [warning] = [r for r in caplog.records if r.levelname == "WARNING"]
  assert "left out bert/encoder/layer_2/extra, lora" in warning.getMessage()


def test_an_output_matrix_that_is_not_tied_is_refused(tmp_path):
  key = "cls.predictions.decoder.weight"
  tensors = {**draw(PRETRAINING), key: np.zeros((V, D), "f4")}
  folder = write_model(tmp_path / "hf", tensors)
  with pytest.raises(ValueError, match=f"{key} .*not the same as bert/emb"):
    to_original(folder, tmp_path / "out" / "m.ckpt")
  assert not (tmp_path / "out").exists()


OTHER_CONFIGS = {
  "layer_norm_eps": (1e-5, "layer_norm_eps is 1e-05 and has to be 1e-12"),
  "model_type": ("roberta", "model_type is 'roberta' and has to be 'bert'"),
  "hidden_act": ("swish", "hidden_act is 'swish' and has to be one of gelu"),
  "position_embedding_type": ("relative_key", "'relative_key' and has to be"),
}


def test_all_settings_of_another_model_are_named():
  config = {**HF_CONFIG, **{k: v for k, (v, _) in OTHER_CONFIGS.items()}}
  del config["hidden_size"]
  with pytest.raises(ValueError) as error:
    hugging_face.original_config(config, ["hidden_size", "vocab_size"], "c")
  for _, expected in OTHER_CONFIGS.values():
    assert expected in str(error.value)
  assert "hidden_size is missing" in str(error.value)


def test_pickled_weights_are_refused_with_the_reason(tmp_path):
  folder = write_model(tmp_path / "hf", draw(encoder()))
  weights = pathlib.Path(folder, "model.safetensors")
  weights.rename(weights.with_name("pytorch_model.bin"))
  with pytest.raises(ValueError, match="pytorch_model.bin.*save_pretrained"):
    to_original(folder, (tmp_path / "m.ckpt"))


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
  num_labels = len(labels or "123")
  shapes = {**prefixed(encoder()), **linear("classifier", num_labels, D)}
  if labels:
    names = {str(i): label for i, label in enumerate(labels)}
    settings = {**settings, "id2label": names}
  converted_model(tmp_path, draw(shapes), config=settings)
  label_map = json.loads((tmp_path / "out" / "label_map.json").read_text())
  assert label_map["problem_type"] == problem_type
  assert label_map["labels"] == expected


def test_another_number_of_labels_is_refused(tmp_path):
  folder = write_model(
    tmp_path / "hf", draw(CLASSIFIER), {"id2label": {"0": "a", "1": "b"}}
  )
  with pytest.raises(ValueError, match="ids 0, 1,.* 3"):
    to_original(folder, tmp_path / "m.ckpt")


def test_the_bias_of_choices_is_left_out_and_named(tmp_path):
  tensors = draw({**prefixed(encoder()), **linear("classifier", 1, D)})
  converted, reader = converted_model(
    tmp_path, tensors, config={"architectures": ["BertForMultipleChoice"]}
  )
  assert converted.own_heads == (heads.CHOICES,)
  np.testing.assert_array_equal(
    reader.get("choice_weights"), tensors["classifier.weight"]
  )
  bias = tensors["classifier.bias"][0]
  assert converted.notes == (
    f"The bias {bias:.6g} of the choices' scores is left out; it is the same "
    "for all choices of a question.",
  )
