"""Advice about a model's files, its inputs, exports and conversions."""

import json
import pathlib
import re
import shutil

import numpy as np

from bert_tf import checkpoints, heads, model_folder, modeling, tokenization
from bert_tf.convert import convert, extend_vocab, model_files
from bert_tf.export import config as export_config
from bert_tf.export import export, saved_models, sources
from bert_tf.export.runtimes import ids_models
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.files import atomic
from bert_tf.layers import bilstm
from bert_tf.training import steps
from tests import tiny_models
from tests.advice.following import Case, Returned

CONFIG = tiny_models.CONFIG
IDS = [[2, 5, 6], [2, 7, 8]]


def write_config(world, name="bert_config.json", **changes):
  values = {**vars(CONFIG), **changes}
  del values["unknown"]
  return world.write(name, json.dumps(values))


def config_of(model):
  return str(pathlib.Path(model) / "bert_config.json")


def vocab(world, *tokens):
  return world.write("vocab.txt", "\n".join(tokens))


def encode(features):
  return modeling.BertModel(CONFIG)(features)


def build(path, **values):
  return export.build(
    export_config.ModelConfig(init_checkpoint=path, **values), with_text=False
  )


def export_to(world, name="exported", **values):
  """Exports the classifier; returns the folder."""
  values = {"init_checkpoint": world.model("classifier"), **values}
  if not world.folder.joinpath(name).exists():
    export.run(
      export_config.ExportConfig(export_dir=world.path(name), **values)
    )
  return world.path(name)


def source(path, **values):
  return model_files.Source(path, **values)


def to(world, kind, path, target=None, source_format="original", **values):
  return convert.convert(
    source(path, **values), source_format, target or world.path(kind), kind
  )


def extend(world, words, model="pretraining", out="more", **values):
  folder = pathlib.Path(world.model(model))
  files = {
    "bert_config_file": str(folder / "bert_config.json"),
    "vocab_file": str(folder / "vocab.txt"),
    "init_checkpoint": str(folder),
  }
  return extend_vocab.extend(
    **{**files, **values},
    words=[extend_vocab.Word(word, "--words") for word in words],
    output_dir=world.path(out),
  )


def unlabelled(world):
  return world.copy("classifier", without=("label_map.json",))


def follow_label_advice(world):
  """Writes the label map that the message shows."""
  folder = pathlib.Path(unlabelled(world))
  try:
    build(str(folder))
  except ValueError as error:
    shown = json.loads(re.search(r"\{.*\}", str(error))[0])
  shown["labels"].append("neutral")  # The head has three.
  (folder / "label_map.json").write_text(json.dumps(shown))
  build(str(folder))


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


def left_to_right(world, **values):
  folder = world.copy("pretraining")
  write_config(
    world, "pretraining/bert_config.json", attention_direction="left_to_right"
  )
  return build(folder, **values)


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
  checkpoints.restore(path, model, optimizer)


def weights_prefix(world, name="encoder"):
  return str(pathlib.Path(world.model(name), "model.ckpt-1"))


def lower_case(world, folder, do_lower_case):
  tokenization.validate_case_matches_checkpoint(
    do_lower_case, f"{folder}/bert_model.ckpt"
  )


def keras_config(world, size):
  folder = pathlib.Path(world.model("pretraining"))
  path = world.path("bert.weights.h5")
  if not pathlib.Path(path).exists():
    to(world, "keras", str(folder), path)
  for name in ("bert_config.json", "vocab.txt"):
    world.folder.joinpath(name).unlink(missing_ok=True)
  (world.folder / "vocab.txt").write_bytes((folder / "vocab.txt").read_bytes())
  config = write_config(world, "given.json", num_hidden_layers=size)
  return to(
    world,
    "original",
    path,
    world.path("o/bert_model.ckpt"),
    "keras",
    bert_config_file=config,
    vocab_file=world.path("vocab.txt"),
  )


def divided(num_parts, batch_size):
  steps.TrainingStep(
    None, None, None, None, None, batch_size, num_parts, 0, steps.Form.PLAIN
  )


TOKENIZER = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}


def zipped(world):
  shutil.make_archive(world.path("zips/encoder"), "zip", world.model("encoder"))
  return world.path("zips")


CASES = (
  Returned(
    "model_folder _said",
    ("bert_config.json", "output_dir", "SavedModel"),
    lambda w: (w.write("empty/notes", ""), model_folder.find(w.path("empty"))),
    lambda w: (
      model_folder.find(w.model("encoder")),
      model_folder.find_weights(export_to(w, with_text=False)),
    ),
  ),
  Returned(
    "model_folder _said",
    ("encoder.zip", "unpack"),
    lambda w: model_folder.find(zipped(w)),
    lambda w: (
      shutil.unpack_archive(w.path("zips/encoder.zip"), w.path("unpacked")),
      model_folder.find(w.path("unpacked")),
    ),
  ),
  Returned(
    "model_folder _said",
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
    "checkpoints write_whole",
    ("ckpt", "folder"),
    lambda w: checkpoints.write(
      w.write("file", "") + "/ckpt", {"a": np.zeros(1)}
    ),
    lambda w: checkpoints.write(w.path("other/ckpt"), {"a": np.zeros(1)}),
  ),
  Case(
    "checkpoints restore",
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
  Case(
    "tokenization load_vocab",
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
    "modeling call",
    ("max_seq_length", "129", "128"),
    lambda w: encode({"input_ids": [[1] * 129]}),
    lambda w: encode({"input_ids": [[1] * 128]}),
  ),
  Case(
    "layers.model_inputs checked",
    ("list", "input_ids"),
    lambda w: encode(IDS),
    lambda w: encode({"input_ids": IDS}),
  ),
  Case(
    "layers.model_inputs checked",
    ("attention_mask", "input_mask"),
    lambda w: encode({"input_ids": IDS, "attention_mask": IDS}),
    lambda w: encode({"input_ids": IDS, "input_mask": IDS}),
  ),
  Case(
    "layers.model_inputs _tensor",
    ("input_ids", "input_mask"),
    lambda w: encode({"input_ids": [[1, 2], [3]]}),
    lambda w: encode(
      {"input_ids": [[1, 2], [3, 0]], "input_mask": [[1, 1], [1, 0]]}
    ),
  ),
  Case(
    "layers.model_inputs _tensor",
    ("input_ids", "numbers"),
    lambda w: encode({"input_ids": [["a"]]}),
    lambda w: encode({"input_ids": [[1]]}),
  ),
  Case(
    "layers.model_inputs _check",
    ("input_ids", "[3]"),
    lambda w: encode({"input_ids": IDS[0]}),
    lambda w: encode({"input_ids": IDS[:1]}),
  ),
  Case(
    "layers.model_inputs _check",
    ("input_ids", "float"),
    lambda w: encode({"input_ids": [[1.0, 2.0]]}),
    lambda w: encode({"input_ids": np.array([[1, 2]], np.int32)}),
  ),
  Case(
    "layers.model_inputs _check",
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
    "model_folder num_outputs",
    ("classifier", "ner"),
    lambda w: heads.TokenModel.from_pretrained(w.model("classifier")),
    lambda w: (
      heads.ClassifierModel.from_pretrained(w.model("classifier")),
      heads.TokenModel.from_pretrained(w.model("encoder"), num_labels=2),
    ),
  ),
  Case(
    "model_folder find_weights",
    ("model.ckpt-1", "other.ckpt"),
    lambda w: model_folder.find_weights(two_models(w)),
    lambda w: model_folder.find_weights(f"{two_models(w)}/other.ckpt"),
  ),
  Case(
    "model_folder _config_file",
    ("bert_config.json", "bert_config_file"),
    lambda w: model_folder.find(w.copy("encoder", ("bert_config.json",))),
    lambda w: model_folder.find(
      w.copy("encoder"), bert_config_file=write_config(w)
    ),
  ),
  Case(
    "model_folder _refuse",
    ("vocab.txt", "vocab_file"),
    lambda w: model_folder.find(
      w.model("encoder"), vocab_file=vocab(w, "[UNK]")
    ),
    lambda w: model_folder.find(w.model("encoder")),
  ),
  Case(
    "model_folder beside",
    ("config.json", "bert_config.json"),
    lambda w: model_folder.find(
      w.model("encoder"),
      bert_config_file=write_config(w, "config.json", model_type="bert"),
    ),
    lambda w: (
      model_folder.find(w.model("encoder"), config_of(w.model("encoder"))),
      model_folder.find(w.model("encoder"), write_config(w, "config.json")),
    ),
  ),
  Case(
    "files.atomic _check_is_no_folder",
    ("target",),
    lambda w: (w.write("target/x", ""), atomic.write_bytes("target", b"")),
    lambda w: atomic.write_bytes("target/file", b""),
  ),
  Case(
    "export.sources open_source",
    ("vocab.txt", "vocab_file"),
    lambda w: sources.open_source(w.copy("encoder", ("vocab.txt",))),
    lambda w: sources.open_source(
      w.copy("encoder"),
      vocab_file=str(pathlib.Path(w.model("encoder"), "vocab.txt")),
    ),
  ),
  Case(
    "export.saved_models check_is_free",
    ("1", "export_dir"),
    lambda w: (w.write("1/x", ""), saved_models.check_is_free("1")),
    lambda w: saved_models.check_is_free("2"),
  ),
  Case(
    "export.export _check_used",
    ("task=preprocessing", "text"),
    lambda w: export_to(w, task="preprocessing", with_text=False),
    lambda w: export_to(w, task="preprocessing"),
  ),
  Case(
    "export.export _check_fills_masks",
    ("model.ckpt-1", "task=encoder"),
    left_to_right,
    lambda w: left_to_right(w, task="encoder"),
  ),
  Case(
    "export.export _checked",
    ("label_map.json", "labels"),
    lambda w: build(unlabelled(w)),
    follow_label_advice,
  ),
  Case(
    "export.export _checked",
    ("task=ner", "classification"),
    lambda w: build(w.model("classifier"), task="ner"),
    lambda w: build(w.model("classifier")),
  ),
  Case(
    "export.runtimes.ids_models __init__",
    ("encoder", "SavedModel"),
    lambda w: ids_models.IdsModel(w.model("encoder")),
    lambda w: ids_models.IdsModel(export_to(w, with_text=False)),
  ),
  Case(
    "export.runtimes.ids_models __init__",
    ("ids", "preprocessing"),
    lambda w: ids_models.IdsModel(export_to(w, "pre", task="preprocessing")),
    lambda w: ids_models.IdsModel(export_to(w, with_text=False)),
  ),
  Case(
    "export.text_ops.bert_tokenizer pack",
    ("3",),
    lambda w: pack(3, 16),
    lambda w: (pack(1, 16), pack(2, 16)),
  ),
  Case(
    "export.text_ops.bert_tokenizer pack",
    ("max_seq_length", "2", "3"),
    lambda w: pack(2, 2),
    lambda w: pack(2, 3),
  ),
  Case(
    "export.text_ops.bert_tokenizer _wordpiece_tokenizer",
    ("load_vocab",),
    lambda w: bert_tokenizer.BertTokenizer({"[UNK]": 1}),
    lambda w: bert_tokenizer.BertTokenizer(
      tokenization.load_vocab(vocab(w, "[UNK]", "a"))
    ),
  ),
  Case(
    "export.text_ops.bert_tokenizer _wordpiece_tokenizer",
    ("[UNK]",),
    lambda w: bert_tokenizer.BertTokenizer({"a": 0}),
    lambda w: bert_tokenizer.BertTokenizer({"a": 0, "[UNK]": 1}),
  ),
  Case(
    "convert.convert slim",
    ("average_last=3", "two_steps"),
    lambda w: convert.slim(w.model("two_steps"), w.path("s/ckpt"), 3),
    lambda w: convert.slim(w.model("two_steps"), w.path("s/ckpt"), 1),
  ),
  Case(
    "convert.extend_vocab extend",
    ("more",),
    lambda w: (w.write("more/x", ""), extend(w, ["zebra"], method="grow")),
    lambda w: extend(w, ["zebra"], out="other", method="grow"),
  ),
  Case(
    "convert.extend_vocab _ids",
    ("unused", "grow"),
    lambda w: extend(w, ["zebra"]),
    lambda w: extend(w, ["zebra"], method="grow"),
  ),
  Case(
    "convert.extend_vocab _extended_tensors",
    ("word_embeddings", "(500, 16)", "(500, 32)"),
    lambda w: extend(
      w,
      ["zebra"],
      method="grow",
      bert_config_file=write_config(w, hidden_size=32),
    ),
    lambda w: extend(w, ["zebra"], method="grow"),
  ),
  Case(
    "convert.hugging_face read",
    ("encoder", "from=hf"),
    lambda w: to(w, "original", w.model("encoder"), source_format="hf"),
    lambda w: (
      to(w, "hf", w.model("encoder")),
      to(w, "original", w.path("hf"), w.path("o/ckpt"), "hf"),
    ),
  ),
  Case(
    "convert.hugging_face read",
    ("vocab.txt", "vocab_file"),
    lambda w: (
      to(w, "hf", w.model("encoder")),
      w.folder.joinpath("hf", "vocab.txt").rename(w.path("moved.txt")),
      [
        w.folder.joinpath("hf", name).unlink(missing_ok=True)
        for name in ("tokenizer.json",)
      ],
      to(w, "original", w.path("hf"), w.path("o/ckpt"), "hf"),
    ),
    lambda w: to(
      w,
      "original",
      w.path("hf"),
      w.path("o/ckpt"),
      "hf",
      vocab_file=w.path("moved.txt"),
    ),
  ),
  Case(
    "convert.hugging_face _check_folder",
    ("taken", "output_checkpoint"),
    lambda w: to(w, "hf", w.model("encoder"), w.write("taken", "")),
    lambda w: to(w, "hf", w.model("encoder")),
  ),
  Case(
    "convert.hugging_face _check_folder",
    ("taken", "notes", "output_checkpoint"),
    lambda w: (
      w.write("taken/notes", ""),
      to(w, "hf", w.model("encoder"), w.path("taken")),
    ),
    lambda w: to(w, "hf", w.model("encoder")),
  ),
  Case(
    "convert.hugging_face_config texts",
    ("vocab.txt", "vocab_file"),
    lambda w: to(w, "hf", w.copy("encoder", ("vocab.txt",))),
    lambda w: to(
      w,
      "hf",
      w.copy("encoder"),
      vocab_file=str(pathlib.Path(w.model("encoder"), "vocab.txt")),
    ),
  ),
  Case(
    "convert.keras_weights _check_size",
    ("bert.weights.h5", "bert_config_file"),
    lambda w: keras_config(w, 1),
    lambda w: keras_config(w, 2),
  ),
  Case(
    "convert.model_files _refuse",
    ("vocab.txt", "output_checkpoint"),
    lambda w: (
      w.write("o/vocab.txt", "x"),
      convert.slim(w.model("encoder"), w.path("o/ckpt")),
    ),
    lambda w: convert.slim(w.model("encoder"), w.path("p/ckpt")),
  ),
  Case(
    "training.steps __init__",
    ("train_batch_size", "10", "4"),
    lambda w: divided(4, 10),
    lambda w: divided(4, 12),
  ),
)


def pack(num_segments, length):
  tokenizer = bert_tokenizer.BertTokenizer(TOKENIZER)
  part = tokenizer.tokenize(["a"])
  return tokenizer.pack([part] * num_segments, length)
