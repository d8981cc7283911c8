"""Models of Hugging Face, and of other programs that write its format."""

import json
import pathlib
import tarfile

import ml_dtypes
import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

import bert_tf
from bert_tf import modeling
from bert_tf.checkpoint import checkpoints, convert, sentence_transformers
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.model import heads, hugging_face_config
from tests.support import interop_models, runs

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


def warnings(caplog):
  return " ".join(r.getMessage() for r in caplog.records if r.levelno > 20)


RENAMED = [
  lambda name: f"module.{name}",
  lambda name: f"my_bert.{name}",
  lambda name: f"module._orig_mod.{name}",
  # Only the encoder is wrapped.
  lambda name: name.replace("bert.", "bert.module."),
]


@pytest.mark.parametrize("rename", RENAMED)
def test_a_prefix_of_all_names_is_dropped(tmp_path, rename):
  folder, tensors, model = interop_models.to_hf(tmp_path, "classifier")
  interop_models.replace_weights(
    folder, {rename(n): v for n, v in tensors.items()}
  )
  read = heads.ClassifierModel.from_pretrained(folder)
  for variable, expected in zip(read.weights, model.weights, strict=True):
    np.testing.assert_array_equal(variable, expected, err_msg=expected.path)


def as_they_are(tensors):
  return tensors


def two_models(tensors):
  return {f"{s}.{n}": v for n, v in tensors.items() for s in ("query", "text")}


def of_roberta(tensors):
  return {n.replace("bert.", "roberta."): v for n, v in tensors.items()}


def with_adapter(tensors):
  name = "bert.encoder.layer.0.attention.self.query.lora_A.default.weight"
  return {**tensors, name: np.zeros((2, 8), "f4")}


def quantized(tensors):
  name = "bert.encoder.layer.0.output.dense.weight"
  return {**tensors, name: np.ones((8, 12), np.int8)}


def untied(tensors):
  words = np.zeros((interop_models.V, interop_models.D), "f4")
  return {**tensors, "cls.predictions.decoder.weight": words}


def labelled(labels):
  return {"id2label": dict(zip("0123", labels))}


REFUSED = {
  "two models": (two_models, {}, "one BERT model"),
  "an adapter": (with_adapter, {}, "merge_and_unload"),
  "integers": (quantized, {}, "int8"),
  "another output matrix": (untied, {}, "decoder.weight .*bert/embeddings/wor"),
  "another model": (as_they_are, {"model_type": "roberta"}, "'roberta'"),
  "no type": (of_roberta, {"model_type": None}, "one BERT model"),
  "a label twice": (
    as_they_are,
    labelled("aab"),
    r"id2label of .*config.json: .*'a', 'a', 'b'",
  ),
  "an empty label": (
    as_they_are,
    labelled(["a", "", "b"]),
    r"id2label of .*config.json: .*'a', '', 'b'",
  ),
  "two labels of three": (as_they_are, labelled("ab"), "ids 0, 1,.* 3"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_model_that_would_give_wrong_results_is_refused(tmp_path, fault):
  change, config, expected = REFUSED[fault]
  folder, tensors, _ = interop_models.to_hf(tmp_path, "classifier")
  interop_models.replace_weights(folder, change(tensors), **config)
  with pytest.raises(ValueError, match=expected):
    bert_tf.load(folder)


def test_the_only_safetensors_file_of_a_folder_may_have_any_name(tmp_path):
  folder, tensors, _ = interop_models.to_hf(tmp_path, "encoder")
  interop_models.replace_weights(folder, tensors, name="model.fp16.safetensors")
  expected = str(folder / "model.fp16.safetensors")
  assert checkpoints.find_weights(str(folder)) == expected
  # The files of other libraries are copies of model.safetensors.
  (folder / "tf_model.h5").write_bytes(b"")
  safetensors_numpy.save_file(tensors, folder / "model.safetensors")
  expected = str(folder / "model.safetensors")
  assert checkpoints.find_weights(str(folder)) == expected


def write_sentence_encoder(tmp_path, files):
  """Writes an encoder with files of sentence-transformers, by their paths."""
  folder, _, _ = interop_models.to_hf(tmp_path, "encoder")
  kinds = {"": "Transformer", "1_Pooling": "Pooling"}
  listed = [{"path": p, "type": f"models.{k}"} for p, k in kinds.items()]
  files = {
    "modules.json": listed,
    "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
    **files,
  }
  for name, content in files.items():
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
  return folder


NOT_APPLIED = {
  "config_sentence_transformers.json": {
    "prompts": {"query": "q : "},
    "default_prompt_name": "query",
    "truncate_dim": 4,
  },
  "sentence_bert_config.json": {
    "do_lower_case": True,
    "transformer_task": "fill-mask",
  },
  "1_Pooling/config.json": {
    "pooling_mode_mean_tokens": True,
    "include_prompt": False,
  },
}


def test_settings_of_vectors_that_are_not_applied_are_named(tmp_path, caplog):
  tokenizer = {"tokenizer_config.json": {"do_lower_case": False}}
  folder = write_sentence_encoder(tmp_path, {**tokenizer, **NOT_APPLIED})
  sentence_transformers.read_settings(str(folder))
  for part in (
    *(str(folder), *NOT_APPLIED, "'query': 'q : '", "truncate_dim=4"),
    *("do_lower_case=True", "transformer_task='fill-mask'"),
    "include_prompt=False",
  ):
    assert part in warnings(caplog)


def test_settings_that_are_applied_are_not_named(tmp_path, caplog):
  files = {
    "config_sentence_transformers.json": {
      "prompts": {"query": "", "document": ""},
      "default_prompt_name": None,
      "similarity_fn_name": "cosine",
    },
    "sentence_bert_config.json": {"transformer_task": "feature-extraction"},
    "1_Pooling/config.json": {"pooling_mode": "mean", "include_prompt": True},
    # Since sentence-transformers 5.4, the limit of a text is only here.
    "tokenizer_config.json": {"do_lower_case": True, "model_max_length": 7},
  }
  folder = write_sentence_encoder(tmp_path, files)
  settings = sentence_transformers.read_settings(str(folder))
  assert settings == sentence_transformers.VectorSettings("mean", False, 7)
  assert not warnings(caplog)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
  """The folders that transformers 4 wrote with TensorFlow."""
  root = tmp_path_factory.mktemp("hugging_face_tf")
  with tarfile.open(GOLDEN / "hugging_face_tf.tar.xz") as archive:
    archive.extractall(root, filter="data")
  for folder in root.iterdir():
    (folder / "vocab.txt").write_text(interop_models.VOCAB)
  return root


# Our kind of model, and the names of transformers' outputs by ours.
TENSORFLOW_CLASSES = {
  "BertModel": (
    "encoder",
    {
      "sequence_output": "last_hidden_state",
      "pooled_output": "pooler_output",
    },
  ),
  "gelu_new": ("encoder", {"sequence_output": "last_hidden_state"}),
  "BertForPreTraining": (
    "pretraining",
    {
      "masked_lm_logits": "prediction_logits",
      "next_sentence_logits": "seq_relationship_logits",
    },
  ),
  "BertForMaskedLM": ("pretraining", {"masked_lm_logits": "logits"}),
  "BertForNextSentencePrediction": (
    "pretraining",
    {"next_sentence_logits": "logits"},
  ),
  "BertForSequenceClassification": ("classifier", {"logits": "logits"}),
  "BertForMultipleChoice": ("choice", {"logits": "logits"}),
  "BertForTokenClassification": ("token", {"logits": "logits"}),
  "BertForQuestionAnswering": (
    "span",
    {"start_logits": "start_logits", "end_logits": "end_logits"},
  ),
}


@pytest.mark.parametrize("name", TENSORFLOW_CLASSES)
def test_a_tf_model_h5_computes_what_transformers_4_did(
  recorded, tmp_path, name
):
  kind, outputs = TENSORFLOW_CLASSES[name]
  folder = recorded / name
  theirs = np.load(folder / "outputs.npz")
  expected = {ours: theirs[there] for ours, there in outputs.items()}
  if "masked_lm_logits" in expected:  # For all positions, not just masked ones.
    rows = np.arange(2)[:, None]
    logits = expected["masked_lm_logits"][rows, interop_models.POSITIONS]
    expected["masked_lm_logits"] = logits
  model = type(interop_models.KINDS[kind](interop_models.CONFIG))
  read = model.from_pretrained(folder)
  actual = interop_models.outputs(read, kind)
  if kind == "choice":  # The bias that all choices share is left out.
    actual, expected = (
      {n: x - x.mean() for n, x in each.items()} for each in (actual, expected)
    )
  interop_models.assert_close({n: actual[n] for n in expected}, expected)
  bert_tf.load(folder)
  # The same by way of a conversion.
  target = str(tmp_path / "out" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(str(folder)), target)
  reader = checkpoints.CheckpointReader(target)
  for variable in read.weights:
    if variable.path in reader.shapes:
      value = reader.get(variable.path)
      np.testing.assert_array_equal(value, variable, err_msg=variable.path)


def to_original(folder, tmp_path):
  """Converts a model. Returns the summary and a reader of the checkpoint."""
  output = str(tmp_path / "out" / "bert_model.ckpt")
  source = ModelFolder.open(str(folder))
  converted = convert.convert(source, output)
  return converted, checkpoints.CheckpointReader(output)


def cut_head(number):
  """Returns a change of tensors that leaves the first labels."""
  head = ("classifier.weight", "classifier.bias")
  return lambda t: {**t, **{name: t[name][:number] for name in head}}


def converted_model(tmp_path, kind, change=as_they_are, **config):
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
    ({"sentence_transformers": {"activation_fn": "torch.nn.Tanh"}}, 1),
    ({"sbert_ce_default_activation_function": "torch.nn.Tanh"}, 1),
    ({"sbert_ce_default_activation_function": "torch.nn.Sigmoid"}, 0),
    ({"sentence_transformers": {"activation_fn": "torch.nn.Identity"}}, 0),
  ],
)
def test_an_activation_that_is_not_applied_is_named(
  tmp_path, settings, num_warnings
):
  settings = {**settings, "id2label": {"0": "LABEL_0"}, "problem_type": None}
  with runs.logged() as log:
    converted_model(tmp_path, "classifier", cut_head(1), **settings)
  assert log().count("predictions are logits") == num_warnings


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
  change = cut_head(len(labels or "123"))
  converted_model(tmp_path, "classifier", change, **settings)
  label_map = json.loads((tmp_path / "out" / "label_map.json").read_text())
  assert label_map["problem_type"] == problem_type
  assert label_map["labels"] == expected


def test_the_bias_that_choices_share_is_left_out(tmp_path):
  bias = {"classifier.bias": np.ones(1, "f4") / 3}
  converted, reader = converted_model(tmp_path, "choice", lambda t: t | bias)
  assert converted.own_heads == (heads.CHOICES,)
  assert reader.shapes["choice_weights"]
