"""Advice about a model's files, its inputs, exports and conversions."""

import json
import os
import pathlib
import shutil
import types

import numpy as np

from bert_tf import checkpoints, heads, model_folder, modeling, tokenization
from bert_tf.convert import extend_vocab
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.export.signatures import masks
from bert_tf.files import atomic
from bert_tf.layers import bilstm
from bert_tf.training import compilation, restore
from bert_tf.training import step as step_lib
from tests.advice.following import Case, Returned
from tests.support import tiny_models

CONFIG = tiny_models.CONFIG
EXPORTS = {
  "texts": {},
  "ids": {"with_text": False},
  "preprocessing": {"task": "preprocessing"},
  "attention": {"with_attention": True},
}
IDS = [[2, 5, 6], [2, 7, 8]]


def write_config(world, name="bert_config.json", **changes):
  values = {**vars(CONFIG), **changes}
  del values["unknown"]
  return world.write(name, json.dumps(values))


def config_path(model):
  return str(pathlib.Path(model) / "bert_config.json")


def vocab(world, *tokens):
  return world.write("vocab.txt", "\n".join(tokens))


def fill_masks(tokens):
  tokenizer = types.SimpleNamespace(vocab=dict.fromkeys(tokens, 0))
  masks._text_function(None, tokenizer, max_seq_length=8, top_k=1)


def encode(features):
  return modeling.BertModel(CONFIG)(features)


def export_to(world, name="exported", **values):
  """Exports the classifier; returns the folder."""
  values = {"init_checkpoint": world.model("classifier"), **values}
  export.run(export_config.ExportConfig(export_dir=world.path(name), **values))
  return world.path(name)


def exported(world, name):
  """Returns the folder of a shared export, which is created once."""
  folder = pathlib.Path(world.model("exports"), name)
  if not folder.exists():
    values = {"init_checkpoint": world.model("classifier"), **EXPORTS[name]}
    export.run(export_config.ExportConfig(export_dir=str(folder), **values))
  return str(folder)


def extend(world, words, model="pretraining", out="more", **values):
  folder = pathlib.Path(world.model(model))
  files = {
    "bert_config_file": str(folder / "bert_config.json"),
    "vocab_file": str(folder / "vocab.txt"),
    "init_checkpoint": str(folder),
  }
  return extend_vocab.extend(
    **{**files, **values},
    words=[extend_vocab.NewWord(word, "--words") for word in words],
    output_dir=world.path(out),
  )


def with_bilstm(world, says_so):
  config = CONFIG if not says_so else None
  model = heads.ClassifierModel(
    modeling.BertConfig.from_dict({**_values(), "bilstm": True}), 3
  )
  folder = tiny_models.write_run(world.folder / "bilstm", model)
  reader = checkpoints.CheckpointReader(str(folder))
  other = model if config is None else heads.ClassifierModel(CONFIG, 3)
  bilstm.check_is_loaded(other, reader.path, reader.shapes)


def _values():
  values = dict(vars(CONFIG))
  del values["unknown"]
  return values


def two_models(world):
  folder = world.copy("encoder", without=("checkpoint",))
  for end in ("index", "data-00000-of-00001"):
    first = pathlib.Path(folder, f"model.ckpt-1.{end}")
    pathlib.Path(folder, f"other.ckpt.{end}").write_bytes(first.read_bytes())
  return folder


def not_finite(world):
  tensors = {"a": np.array([np.nan], np.float32)}
  checkpoints.check_finite("newest", tensors)


def resume(world, path):
  model = modeling.BertModel(CONFIG)
  from bert_tf import optimization

  optimizer = optimization.create_optimizer(1e-3, 10, 0)
  optimizer.build(model.trainable_variables)
  restore.resume(path, model, optimizer)


def weights_prefix(world, name="encoder"):
  return str(pathlib.Path(world.model(name), "model.ckpt-1"))


def lower_case(world, folder, do_lower_case):
  tokenization.validate_case_matches_checkpoint(
    do_lower_case, f"{folder}/bert_model.ckpt"
  )


def divided(num_parts, batch_size):
  step_lib.TrainingStep(
    None, None, None, batch_size, num_parts, 0, compilation.PLAIN
  )


def zipped(world):
  shutil.make_archive(world.path("zips/encoder"), "zip", world.model("encoder"))
  return world.path("zips")


CASES = (
  Returned(
    "model_folder.opening _remedy",
    ("bert_config.json", "output_dir", "SavedModel"),
    lambda w: (w.write("empty/notes", ""), model_folder.find(w.path("empty"))),
    lambda w: (
      model_folder.find(w.model("encoder")),
      model_folder.find_weights(exported(w, "ids")),
    ),
  ),
  Returned(
    "model_folder.opening _remedy",
    ("encoder.zip", "unpack"),
    lambda w: model_folder.find(zipped(w)),
    lambda w: (
      shutil.unpack_archive(w.path("zips/encoder.zip"), w.path("unpacked")),
      model_folder.find(w.path("unpacked")),
    ),
  ),
  Returned(
    "model_folder.opening _remedy",
    ("model.ckpt-1.index", "name"),
    lambda w: model_folder.find(weights_prefix(w) + ".index"),
    lambda w: model_folder.find(weights_prefix(w)),
  ),
  Case(
    "checkpoints __init__",
    ("empty", "output_dir"),
    lambda w: (
      w.write("empty/x", ""),
      checkpoints.CheckpointReader(w.path("empty")),
    ),
    lambda w: (
      checkpoints.CheckpointReader(w.model("encoder")),
      checkpoints.CheckpointReader(weights_prefix(w)),
    ),
  ),
  Case(
    "checkpoints check_finite",
    ("newest", "a"),
    not_finite,
    lambda w: checkpoints.check_finite("older", {"a": np.zeros(1)}),
  ),
  Case(
    "checkpoints prefix_to_read",
    ("model.ckpt-1.index", ".index"),
    lambda w: checkpoints.prefix_to_read(weights_prefix(w) + ".index.index"),
    lambda w: (
      checkpoints.prefix_to_read(weights_prefix(w)),
      checkpoints.prefix_to_read(w.model("encoder")),
    ),
  ),
  Case(
    "checkpoints write_atomically",
    ("ckpt", "folder"),
    lambda w: checkpoints.write(
      w.write("file", "") + "/ckpt", {"a": np.zeros(1)}
    ),
    lambda w: checkpoints.write(w.path("other/ckpt"), {"a": np.zeros(1)}),
  ),
  Case(
    "training.restore resume",
    ("model.ckpt-1", "init_checkpoint", "output_dir"),
    lambda w: resume(w, weights_prefix(w)),
    lambda w: checkpoints.init_from_checkpoint(
      modeling.BertModel(CONFIG), weights_prefix(w)
    ),
  ),
  Case(
    "tokenization validate_case_matches_checkpoint",
    ("do_lower_case=True", "cased_L-12_H-768_A-12"),
    lambda w: lower_case(w, "cased_L-12_H-768_A-12", True),
    lambda w: (
      lower_case(w, "cased_L-12_H-768_A-12", False),
      lower_case(w, "my_model", True),
    ),
  ),
  Case(
    "tokenization convert_to_unicode",
    ("int",),
    lambda w: tokenization.convert_to_unicode(7),
    lambda w: [tokenization.convert_to_unicode(x) for x in ("a", b"a")],
  ),
  Returned(
    "files.encodings not_utf8",
    ("vocab.txt:2", "UTF-8"),
    lambda w: tokenization.load_vocab(w.write("vocab.txt", b"[UNK]\n\xe9\n")),
    lambda w: tokenization.load_vocab(vocab(w, "[UNK]", "\xe9")),
  ),
  Case(
    "tokenization load_vocab",
    ("vocab.txt:3", "'a'", "2"),
    lambda w: tokenization.load_vocab(vocab(w, "[UNK]", "a", "a")),
    lambda w: (
      tokenization.load_vocab(vocab(w, "[UNK]", "a", "a2")),
      tokenization.load_vocab(vocab(w, "[UNK]", "a")),
    ),
  ),
  Case(
    "tokenization __init__",
    ("vocab.txt", "[UNK]"),
    lambda w: tokenization.FullTokenizer(vocab(w, "a", "b")),
    lambda w: tokenization.FullTokenizer(
      vocab(w, "a", "b", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    ),
  ),
  Case(
    "model_config check_vocab",
    ("vocab.txt", "501", "500"),
    lambda w: CONFIG.check_vocab(501, "vocab.txt", "bert_config.json"),
    lambda w: CONFIG.check_vocab(500, "vocab.txt", "bert_config.json"),
  ),
  Case(
    "embeddings combine",
    ("max_seq_length", "129", "128"),
    lambda w: encode({"input_ids": [[1] * 129]}),
    lambda w: encode({"input_ids": [[1] * 128]}),
  ),
  Case(
    "model_inputs check_features",
    ("list", "input_ids"),
    lambda w: encode(IDS),
    lambda w: encode({"input_ids": IDS}),
  ),
  Case(
    "model_inputs check_features",
    ("attention_mask", "input_mask"),
    lambda w: encode({"input_ids": IDS, "attention_mask": IDS}),
    lambda w: encode({"input_ids": IDS, "input_mask": IDS}),
  ),
  Case(
    "model_inputs _to_tensor",
    ("input_ids", "input_mask"),
    lambda w: encode({"input_ids": [[1, 2], [3]]}),
    lambda w: encode(
      {"input_ids": [[1, 2], [3, 0]], "input_mask": [[1, 1], [1, 0]]}
    ),
  ),
  Case(
    "model_inputs _to_tensor",
    ("input_ids", "numbers"),
    lambda w: encode({"input_ids": [["a"]]}),
    lambda w: encode({"input_ids": [[1]]}),
  ),
  Case(
    "model_inputs _check",
    ("input_ids", "[3]"),
    lambda w: encode({"input_ids": IDS[0]}),
    lambda w: encode({"input_ids": IDS[:1]}),
  ),
  Case(
    "model_inputs _check",
    ("input_ids", "float"),
    lambda w: encode({"input_ids": [[1.0, 2.0]]}),
    lambda w: encode({"input_ids": np.array([[1, 2]], np.int32)}),
  ),
  Case(
    "model_inputs _check",
    ("segment_ids", "[1, 2]", "[1, 3]"),
    lambda w: encode({"input_ids": IDS[:1], "segment_ids": [[0, 0]]}),
    lambda w: encode({"input_ids": IDS[:1], "segment_ids": [[0, 0, 0]]}),
  ),
  Case(
    "layers.bilstm check_is_loaded",
    ("model.ckpt-1", "bert_config.json"),
    lambda w: with_bilstm(w, False),
    lambda w: with_bilstm(w, True),
  ),
  Case(
    "heads from_pretrained",
    ("encoder", "num_labels"),
    lambda w: heads.ClassifierModel.from_pretrained(w.model("encoder")),
    lambda w: heads.ClassifierModel.from_pretrained(
      w.model("encoder"), num_labels=2
    ),
  ),
  Case(
    "model_folder.opening num_outputs",
    ("classifier", "ner"),
    lambda w: heads.TokenModel.from_pretrained(w.model("classifier")),
    lambda w: (
      heads.ClassifierModel.from_pretrained(w.model("classifier")),
      heads.TokenModel.from_pretrained(w.model("encoder"), num_labels=2),
    ),
  ),
  Case(
    "model_folder.opening find_weights",
    ("model.ckpt-1", "other.ckpt"),
    lambda w: model_folder.find_weights(two_models(w)),
    lambda w: model_folder.find_weights(f"{two_models(w)}/other.ckpt"),
  ),
  Case(
    "model_folder.opening config_file",
    ("bert_config.json", "bert_config_file"),
    lambda w: model_folder.find(w.copy("encoder", ("bert_config.json",))),
    lambda w: model_folder.find(
      w.copy("encoder"), bert_config_file=write_config(w)
    ),
  ),
  Case(
    "model_folder.opening _refuse",
    ("vocab.txt", "vocab_file"),
    lambda w: model_folder.find(
      w.model("encoder"), vocab_file=vocab(w, "[UNK]")
    ),
    lambda w: model_folder.find(w.model("encoder")),
  ),
  Case(
    "model_folder.opening config_file",
    ("config.json", "bert_config.json"),
    lambda w: model_folder.find(
      w.model("encoder"),
      bert_config_file=write_config(w, "config.json", model_type="bert"),
    ),
    lambda w: (
      model_folder.find(w.model("encoder"), config_path(w.model("encoder"))),
      model_folder.find(w.model("encoder"), write_config(w, "config.json")),
    ),
  ),
  Case(
    "files.atomic _check_is_file",
    ("target",),
    lambda w: (w.write("target/x", ""), atomic.write_bytes("target", b"")),
    lambda w: atomic.write_bytes("target/file", b""),
  ),
  Case(
    "files.atomic _check_is_file",
    ("pipe",),
    lambda w: (os.mkfifo(w.path("pipe")), atomic.write_bytes("pipe", b"")),
    lambda w: atomic.write_bytes("file", b""),
  ),
  Case(
    "export.signatures.masks _text_function",
    ("[MASK]", "1"),
    lambda w: fill_masks(["a"]),
    lambda w: fill_masks(["a", "[MASK]"]),
  ),
  Case(
    "training.step __init__",
    ("train_batch_size", "10", "4"),
    lambda w: divided(4, 10),
    lambda w: divided(4, 12),
  ),
)
