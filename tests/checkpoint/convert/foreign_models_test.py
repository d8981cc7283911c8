"""Models that other programs wrote in forms of their own."""

import json
import pathlib
import tarfile

import numpy as np
import pytest
import tensorflow as tf
from safetensors import numpy as safetensors_numpy

import bert_tf
from bert_tf import modeling
from bert_tf.checkpoint import (
  checkpoints,
  sentence_transformers,
  weights,
)
from bert_tf.checkpoint.convert import convert
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.model import heads
from tests.support import interop_models

GOLDEN = pathlib.Path(__file__).parents[2] / "golden"


def warnings(caplog):
  return " ".join(r.getMessage() for r in caplog.records if r.levelno > 20)


def prefixed(prefix):
  return lambda name: prefix + name


RENAMED = [
  *((p, prefixed(p)) for p in ("module.", "_orig_mod.", "model.", "my_bert.")),
  ("base_model.model.", prefixed("base_model.model.")),
  ("module._orig_mod.", prefixed("module._orig_mod.")),
  # Only the encoder is wrapped.
  ("bert.module.", lambda name: name.replace("bert.", "bert.module.")),
]


@pytest.mark.parametrize(("prefix", "rename"), RENAMED)
def test_a_prefix_of_all_names_is_dropped(tmp_path, prefix, rename):
  folder, tensors, model = interop_models.to_hf(tmp_path, "classifier")
  interop_models.replace_weights(
    folder, {rename(n): v for n, v in tensors.items()}
  )
  read = heads.ClassifierModel.from_pretrained(folder)
  for variable, expected in zip(read.weights, model.weights, strict=True):
    np.testing.assert_array_equal(variable, expected, err_msg=expected.path)


def test_the_transformer_of_a_whole_sentence_encoder_is_read(tmp_path):
  folder, tensors, model = interop_models.to_hf(tmp_path, "encoder")
  interop_models.replace_weights(
    folder, {f"0.auto_model.{n}": v for n, v in tensors.items()}
  )
  read = modeling.BertModel.from_pretrained(folder)
  for variable, expected in zip(read.weights, model.weights, strict=True):
    np.testing.assert_array_equal(variable, expected, err_msg=expected.path)


def two_models(tensors):
  return {f"{s}.{n}": v for n, v in tensors.items() for s in ("query", "text")}


def with_adapter(tensors):
  name = "bert.encoder.layer.0.attention.self.query.lora_A.default.weight"
  return {**tensors, name: np.zeros((2, 8), "f4")}


def quantized(tensors):
  name = "bert.encoder.layer.0.output.dense.weight"
  return {**tensors, name: np.ones((8, 12), np.int8)}


REFUSED = {
  "two models": (two_models, {}, "one BERT model"),
  "an adapter": (with_adapter, {}, "merge_and_unload"),
  "integers": (quantized, {}, "int8"),
  "another model": (lambda t: t, {"model_type": "roberta"}, "'roberta'"),
  "no type": (
    lambda t: {n.replace("bert.", "roberta."): v for n, v in t.items()},
    {"model_type": None},
    "one BERT model",
  ),
  "a label twice": (
    lambda t: t,
    {"id2label": {"0": "a", "1": "a", "2": "b"}},
    r"id2label of .*config.json: .*'a', 'a', 'b'",
  ),
  "an empty label": (
    lambda t: t,
    {"id2label": {"0": "a", "1": "", "2": "b"}},
    r"id2label of .*config.json: .*'a', '', 'b'",
  ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_model_that_would_give_wrong_results_is_refused(tmp_path, fault):
  change, config, expected = REFUSED[fault]
  folder, tensors, _ = interop_models.to_hf(tmp_path, "classifier")
  interop_models.replace_weights(folder, change(tensors), **config)
  with pytest.raises(ValueError, match=expected):
    bert_tf.load(folder)
  if fault != "integers":
    target = str(tmp_path / "out" / "m")
    with pytest.raises(ValueError, match=expected):
      convert.convert(ModelFolder.open(str(folder)), target)
  assert not (tmp_path / "out").exists()


def test_the_only_safetensors_file_of_a_folder_may_have_any_name(tmp_path):
  folder, tensors, _ = interop_models.to_hf(tmp_path, "encoder")
  interop_models.replace_weights(folder, tensors, name="model.fp16.safetensors")
  expected = str(folder / "model.fp16.safetensors")
  assert weights.find_weights(str(folder)) == expected
  # The files of other libraries are copies of model.safetensors.
  (folder / "tf_model.h5").write_bytes(b"")
  safetensors_numpy.save_file(tensors, folder / "model.safetensors")
  expected = str(folder / "model.safetensors")
  assert weights.find_weights(str(folder)) == expected


def convolution():
  module = tf.Module()
  module.kernel = tf.Variable(tf.ones([3, 3, 1, 2]), name="conv/kernel")
  return module


def save_original(path, module):
  checkpoints.write(f"{path}/m.ckpt", {"conv/kernel": module.kernel})


OTHERS = {
  "SavedModel": lambda path, module: tf.saved_model.save(module, path),
  "objects": lambda path, module: tf.train.Checkpoint(model=module).write(
    f"{path}/m.ckpt"
  ),
  "names": save_original,
}


@pytest.mark.parametrize("form", OTHERS)
def test_what_is_no_bert_is_not_converted(tmp_path, run_script, form):
  OTHERS[form](str(tmp_path / "other"), convolution())
  command = ("convert", "--model=other")
  result = run_script(*command, "--output_checkpoint=out/m", cwd=tmp_path)
  assert result.returncode == 1
  assert len(result.stderr.strip().splitlines()[-1:]) == 1
  assert not (tmp_path / "out").exists()


def write_sentence_encoder(tmp_path, files, modules=()):
  """Writes an encoder with files of sentence-transformers, by their paths."""
  folder, _, _ = interop_models.to_hf(tmp_path, "encoder")
  kinds = {"": "Transformer", "1_Pooling": "Pooling", **dict(modules)}
  listed = [{"path": p, "type": f"models.{k}"} for p, k in kinds.items()]
  files = {
    "modules.json": listed,
    "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
    **files,
  }
  for name, content in files.items():
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    if isinstance(content, bytes):
      path.write_bytes(content)
    else:
      path.write_text(json.dumps(content))
  return folder


PROMPT = {"prompts": {"query": "q : "}, "default_prompt_name": "query"}
NOT_APPLIED = [
  ("config_sentence_transformers.json", PROMPT, "'query': 'q : '"),
  ("config_sentence_transformers.json", {"truncate_dim": 4}, "truncate_dim=4"),
  ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case=True"),
  (
    "sentence_bert_config.json",
    {"transformer_task": "fill-mask"},
    "transformer_task='fill-mask'",
  ),
  (
    "1_Pooling/config.json",
    {"pooling_mode_mean_tokens": True, "include_prompt": False},
    "include_prompt=False",
  ),
]


@pytest.mark.parametrize(("file", "content", "expected"), NOT_APPLIED)
def test_a_setting_of_vectors_that_is_not_applied_is_named(
  tmp_path, caplog, file, content, expected
):
  tokenizer = {"tokenizer_config.json": {"do_lower_case": False}}
  folder = write_sentence_encoder(tmp_path, {**tokenizer, file: content})
  config = export_config.ModelConfig(
    init_checkpoint=str(folder), task="encoder"
  )
  export.build(config, with_text=False)
  for part in (str(folder), expected, file):
    assert part in warnings(caplog)


def test_settings_that_are_applied_are_not_named(tmp_path, caplog):
  files = {
    "config_sentence_transformers.json": {
      "__version__": {"sentence_transformers": "5.4.0"},
      "model_type": "SentenceTransformer",
      "prompts": {"query": "", "document": ""},
      "default_prompt_name": None,
      "similarity_fn_name": "cosine",
    },
    "sentence_bert_config.json": {
      "transformer_task": "feature-extraction",
      "modality_config": {"text": {"method": "forward"}},
      "module_output_name": "token_embeddings",
      "processing_kwargs": {},
      "unpad_inputs": None,
    },
    "1_Pooling/config.json": {
      "embedding_dimension": 8,
      "pooling_mode": "mean",
      "include_prompt": True,
    },
    # Since sentence-transformers 5.4, the limit of a text is only here.
    "tokenizer_config.json": {"do_lower_case": True, "model_max_length": 7},
  }
  folder = write_sentence_encoder(tmp_path, files)
  settings = sentence_transformers.read_settings(str(folder))
  assert settings == sentence_transformers.VectorSettings("mean", False, 7)
  assert not warnings(caplog)


def test_a_dense_layer_goes_through_conversions_with_its_weights(tmp_path):
  files = {"2_Dense/config.json": {"bias": True}, "2_Dense/model.bin": b"\0w"}
  folder = write_sentence_encoder(tmp_path, files, {"2_Dense": "Dense"})
  prefix, back = str(tmp_path / "out" / "bert_model.ckpt"), tmp_path / "back"
  convert.convert(ModelFolder.open(str(folder)), prefix)
  convert.convert(ModelFolder.open(prefix), str(back), "hf")
  for name in ("modules.json", *files):
    assert (back / name).read_bytes() == (folder / name).read_bytes()


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
  folder, theirs = (
    recorded / name,
    dict(np.load(recorded / name / "outputs.npz")),
  )
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
