"""Folders for transformers: what they hold, and what transformers makes of it.

Comparisons with transformers itself need transformers and torch, which the
project does not install: `pip install transformers torch`. transformers brings
tokenizers, which tokenizer.json is compared with.
"""

import dataclasses
import json

import numpy as np
import pytest

from bert_tf import modeling, tokenization
from bert_tf.checkpoint import convert
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import tokenizer_files
from bert_tf.text import letter_case
from tests.support import checkout, interop_models, run_infos

CLASSES = {
  "encoder": "BertModel",
  "pretraining": "BertForPreTraining",
  "span": "BertForQuestionAnswering",
  "classifier": "BertForSequenceClassification",
  "token": "BertForTokenClassification",
  "choice": "BertForMultipleChoice",
}


@pytest.fixture
def transformers():
  """The module transformers; skips the test if it is not installed."""
  pytest.importorskip("torch", reason="torch is not installed")
  return pytest.importorskip(
    "transformers", reason="transformers is not installed"
  )


def read_json(path):
  return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", CLASSES)
def test_from_pretrained_finds_all_its_files(tmp_path, kind):
  folder, _, _ = interop_models.to_hf(tmp_path, kind)
  assert {path.name for path in folder.iterdir()} == {
    *("bert_config.json", "config.json", "model.safetensors", "run.json"),
    *("tokenizer.json", "tokenizer_config.json", "vocab.txt"),
    *(["label_map.json"] if kind in interop_models.LABEL_MAPS else []),
  }
  assert (folder / "vocab.txt").read_text() == interop_models.VOCAB
  config = read_json(folder / "config.json")
  assert config["architectures"] == [CLASSES[kind]]
  assert config["model_type"] == "bert"
  assert config["hidden_act"] == "gelu_new"
  assert config["layer_norm_eps"] == 1e-12
  assert config["pad_token_id"] == 0
  if kind == "classifier":
    assert config["id2label"] == {"0": "good", "1": "bad", "2": "schön"}
    assert config["label2id"] == {"good": 0, "bad": 1, "schön": 2}
    assert config["problem_type"] == "multi_label_classification"
    assert config["classifier_dropout"] == 0.1
  # Other users may read the file.
  assert (folder / "model.safetensors").stat().st_mode & 0o044


@pytest.mark.parametrize(
  ("name", "value", "there"),
  [
    ("hidden_act", "gelu", "gelu_new"),
    ("hidden_act", "gelu_erf", "gelu"),
    ("hidden_act", "relu", "relu"),
    ("layer_norm_eps", 1e-5, 1e-5),
  ],
)
def test_settings_of_a_model_are_kept_in_both_directions(
  tmp_path, name, value, there
):
  config = dataclasses.replace(interop_models.CONFIG, **{name: value})
  folder, _, _ = interop_models.to_hf(tmp_path, "encoder", config)
  assert read_json(folder / "config.json")[name] == there
  back = tmp_path / "back" / "bert_model.ckpt"
  convert.convert(ModelFolder.open(str(folder)), str(back))
  ours = modeling.BertConfig.from_json_file(
    str(back.parent / "bert_config.json")
  )
  assert ours == config


@pytest.mark.parametrize("name", ["tokenizer.json", "added_tokens.json"])
def test_a_folder_with_foreign_files_is_not_changed(tmp_path, name):
  folder = tmp_path / "hf"
  folder.mkdir()
  # transformers would take its words before those of vocab.txt.
  (folder / name).write_text("{}")
  with pytest.raises(ValueError, match=name):
    interop_models.to_hf(tmp_path, "encoder")
  assert [path.name for path in folder.iterdir()] == [name]


def test_the_same_model_is_written_again(tmp_path):
  folder, _, _ = interop_models.to_hf(tmp_path, "encoder")
  weights = (folder / "model.safetensors").read_bytes()
  (folder / "model.safetensors").write_bytes(weights[:100])
  # A killed process leaves its hidden folders.
  (folder / ".model.safetensors.tmp-bert_tf-1").mkdir()
  interop_models.to_hf(tmp_path, "encoder")
  assert not list(folder.glob(".*"))
  assert (folder / "model.safetensors").read_bytes() == weights
  with pytest.raises(ValueError, match="config.json .*`output_checkpoint`"):
    interop_models.to_hf(tmp_path, "pretraining")


def their_inputs(kind):
  """Returns the two texts as inputs of transformers' models."""
  import torch

  inputs = {
    "input_ids": interop_models.IDS,
    "attention_mask": interop_models.MASK,
    "token_type_ids": interop_models.SEGMENTS,
  }
  if kind == "choice":
    inputs = {name: value[None] for name, value in inputs.items()}
  return {n: torch.tensor(v.astype(np.int64)) for n, v in inputs.items()}


def their_outputs(model, kind):
  """Computes a transformers model's outputs, under our names."""
  import torch

  with torch.no_grad():
    output = model.eval()(**their_inputs(kind))
  if kind == "pretraining":
    rows = np.arange(2)[:, None]
    logits = output.prediction_logits.numpy()
    return {
      "masked_lm_logits": logits[rows, interop_models.POSITIONS],
      "next_sentence_logits": output.seq_relationship_logits.numpy(),
    }
  names = {
    "encoder": {
      "sequence_output": "last_hidden_state",
      "pooled_output": "pooler_output",
    },
    "span": {"start_logits": "start_logits", "end_logits": "end_logits"},
  }.get(kind, {"logits": "logits"})
  return {ours: output[theirs].numpy() for ours, theirs in names.items()}


@pytest.mark.parametrize("kind", CLASSES)
def test_transformers_computes_the_same_outputs(tmp_path, transformers, kind):
  folder, _, model = interop_models.to_hf(tmp_path, kind)
  name = read_json(folder / "config.json")["architectures"][0]
  theirs, loading = getattr(transformers, name).from_pretrained(
    folder, output_loading_info=True
  )
  assert not loading["missing_keys"]
  assert not loading["mismatched_keys"]
  assert {k.split(".")[1] for k in loading["unexpected_keys"]} <= {"pooler"}
  interop_models.assert_close(
    their_outputs(theirs, kind), interop_models.outputs(model, kind)
  )


# Every combination of do_lower_case and strip_accents.
CASES = [
  letter_case.Case(lower, accents)
  for lower in (True, False)
  for accents in (None, True, False)
]
OWN_TEXTS = [
  # tokenizers has no final sigma: a capital one at a word's end differs.
  "Straße, naïve Ångström: Σίσυφος İstanbul",
  "神奈川県民が選ぶ住みたい街",
  "don't   stop\u00a0-- e\u0301 \u200d\ufeff \t tab",
  "x" * 150 + " " + "y" * 201,
]


def texts():
  """Lines of the documentation, and some odd texts."""
  lines = list(OWN_TEXTS)
  for path in sorted((checkout.ROOT / "docs").glob("*.md")):
    lines += path.read_text(encoding="utf-8").splitlines()
  # Special tokens in texts are pieces to the original and tokens to others.
  special = tokenization.SPECIAL_TOKENS
  return [line for line in lines if not any(s in line for s in special)]


def write_hf(tmp_path, case):
  """Converts a model whose vocabulary has every character of the texts."""
  characters = sorted({c for text in texts() for c in text + text.casefold()})
  characters = [c for c in characters if c.strip()]
  words = [*tokenization.SPECIAL_TOKENS, *characters, "the", "of", "x" * 150]
  words += [f"##{c}" for c in characters]
  config = interop_models.CONFIG
  config = type(config)(**{**vars(config), "vocab_size": len(words)})
  prefix, _ = interop_models.write_original(tmp_path / "in", "encoder", config)
  (tmp_path / "in" / "vocab.txt").write_text("\n".join(words), "utf-8")
  run = run_infos.make(
    task="encoder",
    do_lower_case=case.do_lower_case,
    strip_accents=case.strip_accents,
  )
  vocab_file = str(tmp_path / "in" / "vocab.txt")
  run_infos.write(str(tmp_path / "in"), run, config, vocab_file)
  folder = tmp_path / "hf"
  convert.convert(ModelFolder.open(prefix), str(folder), "hf")
  return folder


def test_tokenizer_json_describes_our_tokenizer(tmp_path):
  folder = write_hf(tmp_path, letter_case.Case(False, None))
  settings = tokenizer_files.read_case(str(folder))
  assert settings == tokenizer_files.Case(False, None)
  vocab = tokenization.load_vocab(str(folder / "vocab.txt"))
  path = folder / "tokenizer.json"
  assert tokenization.load_vocab(str(path)) == vocab
  content = json.loads(path.read_text("utf-8"))
  assert content["model"]["max_input_chars_per_word"] == 200
  assert [t["content"] for t in content["added_tokens"]] == list(
    tokenization.SPECIAL_TOKENS
  )


@pytest.mark.parametrize("case", CASES)
def test_the_package_tokenizers_gives_the_same_ids(tmp_path, case):
  tokenizers = pytest.importorskip(
    "tokenizers", reason="tokenizers is not installed"
  )
  folder = write_hf(tmp_path, case)
  other = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
  full = tokenization.FullTokenizer(
    str(folder / "vocab.txt"), bool(case.do_lower_case), case.strip_accents
  )
  cls, sep = full.convert_tokens_to_ids(["[CLS]", "[SEP]"])
  differing = [
    text
    for text in texts()
    if other.encode(text).ids != [cls, *full.tokenize_to_ids(text), sep]
  ]
  assert not differing
  pair = other.encode("the of", "of")
  assert pair.tokens == ["[CLS]", "the", "of", "[SEP]", "of", "[SEP]"]
  assert pair.type_ids == [0, 0, 0, 0, 1, 1]
