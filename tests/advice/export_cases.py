"""Advice about exports and conversions of models."""

import json
import pathlib
import re

from bert_tf import checkpoints, tokenization
from bert_tf.convert import convert, pretrained
from bert_tf.export import config as export_config
from bert_tf.export import export, saved_models
from bert_tf.export.runtimes import ids_models
from bert_tf.export.text_ops import bert_tokenizer
from tests.advice import model_cases
from tests.advice.following import Case

TOKENIZER = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}


def build(path, **values):
  return export.build(
    export_config.ModelConfig(init_checkpoint=path, **values), with_text=False
  )


def source(path, **values):
  return pretrained.ModelSource(path, **values)


def to(world, kind, path, target=None, source_format="original", **values):
  return convert.convert(
    source(path, **values), source_format, target or world.path(kind), kind
  )


def unlabelled(world):
  return world.copy("classifier", without=("label_map.json",))


def follow_label_advice(world):
  """Writes the label map that the message shows, then builds again."""
  folder = pathlib.Path(unlabelled(world))
  try:
    build(str(folder))
  except ValueError as error:
    shown = json.loads(re.search(r"\{.*\}", str(error))[0])
  shown["labels"].append("neutral")  # The head has three outputs.
  (folder / "label_map.json").write_text(json.dumps(shown))
  build(str(folder))


def left_to_right(world, **values):
  folder = world.copy("pretraining")
  model_cases.write_config(
    world, "pretraining/bert_config.json", attention_direction="left_to_right"
  )
  return build(folder, **values)


def keras_config(world, size):
  folder = pathlib.Path(world.model("pretraining"))
  path = world.path("bert.weights.h5")
  if not pathlib.Path(path).exists():
    to(world, "keras", str(folder), path)
  for name in ("bert_config.json", "vocab.txt"):
    world.folder.joinpath(name).unlink(missing_ok=True)
  (world.folder / "vocab.txt").write_bytes((folder / "vocab.txt").read_bytes())
  config = model_cases.write_config(world, "given.json", num_hidden_layers=size)
  return to(
    world,
    "original",
    path,
    world.path("o/bert_model.ckpt"),
    "keras",
    bert_config_file=config,
    vocab_file=world.path("vocab.txt"),
  )


def pack(num_segments, length):
  tokenizer = bert_tokenizer.BertTokenizer(TOKENIZER)
  part = tokenizer.tokenize(["a"])
  return tokenizer.pack([part] * num_segments, length)


CASES = (
  Case(
    "model_folder.opening needed_vocab",
    ("vocab.txt", "vocab_file"),
    lambda w: export.build(
      export_config.ModelConfig(
        init_checkpoint=w.copy("encoder", ("vocab.txt",))
      )
    ),
    lambda w: build(
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
    "export.export build",
    ("task=preprocessing", "text"),
    lambda w: model_cases.export_to(
      w,
      init_checkpoint=model_cases.exported(w, "preprocessing"),
      with_text=False,
    ),
    lambda w: model_cases.exported(w, "preprocessing"),
  ),
  Case(
    "export.export _check_fills_masks",
    ("model.ckpt-1", "task=encoder"),
    left_to_right,
    lambda w: left_to_right(w, task="encoder"),
  ),
  Case(
    "export.export _check_labels",
    ("label_map.json", "labels"),
    lambda w: build(unlabelled(w)),
    follow_label_advice,
  ),
  Case(
    "export.export _check_labels",
    ("task=ner", "classification"),
    lambda w: build(w.model("classifier"), task="ner"),
    lambda w: build(w.model("classifier")),
  ),
  Case(
    "export.runtimes.ids_models __init__",
    ("encoder", "SavedModel"),
    lambda w: ids_models.IdsModel(w.model("encoder")),
    lambda w: ids_models.IdsModel(model_cases.exported(w, "ids")),
  ),
  Case(
    "export.runtimes.ids_models __init__",
    ("ids", "preprocessing"),
    lambda w: ids_models.IdsModel(model_cases.exported(w, "preprocessing")),
    lambda w: ids_models.IdsModel(model_cases.exported(w, "ids")),
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
      tokenization.load_vocab(model_cases.vocab(w, "[UNK]", "a"))
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
    ("output_checkpoint", "checkpoint to convert"),
    lambda w: convert.slim(
      w.model("two_steps"), checkpoints.find_latest(w.model("two_steps"))
    ),
    lambda w: convert.slim(w.model("two_steps"), w.path("slim/ckpt")),
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
    lambda w: (
      w.write("more/x", ""),
      model_cases.extend(w, ["zebra"], method="grow"),
    ),
    lambda w: model_cases.extend(w, ["zebra"], out="other", method="grow"),
  ),
  Case(
    "convert.extend_vocab _ids",
    ("unused", "grow"),
    lambda w: model_cases.extend(w, ["zebra"]),
    lambda w: model_cases.extend(w, ["zebra"], method="grow"),
  ),
  Case(
    "convert.extend_vocab _extended_tensors",
    ("word_embeddings", "(500, 16)", "(500, 32)"),
    lambda w: model_cases.extend(
      w,
      ["zebra"],
      method="grow",
      bert_config_file=model_cases.write_config(w, hidden_size=32),
    ),
    lambda w: model_cases.extend(w, ["zebra"], method="grow"),
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
    "model_folder.opening needed_vocab",
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
    "convert.pretrained _refuse",
    ("vocab.txt", "output_checkpoint"),
    lambda w: (
      w.write("o/vocab.txt", "x"),
      convert.slim(w.model("encoder"), w.path("o/ckpt")),
    ),
    lambda w: convert.slim(w.model("encoder"), w.path("p/ckpt")),
  ),
)
