"""Mistakes of users that would be silent or cost hours end with an error.

The error, or the warning, must name the values, files or settings that lead a
user to the cause, in one line. Its wording is free. What a reader of files or a
config refuses by itself is in the tests of that module.
"""

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoint import convert, extend_vocab
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.cli import serve
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.files import atomic, shard_files
from bert_tf.server import config as server_config
from bert_tf.tasks.pretraining import pretraining_config
from bert_tf.text import corpus, corpus_build, letter_case, text_config
from tests.support import runs, worlds

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CASED = "\n".join([*SPECIAL, "The", "the", "Dog", "dog"])


# By what the message must contain, with blanks between: the mistake.
Rows = dict[str, Callable[[worlds.World], Any]]
ERRORS = (ValueError, OSError, RuntimeError, TypeError)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  return worlds.write_models(tmp_path_factory.mktemp("models"))


def build_corpus(world, formats="text", **output):
  config = text_config.TextConfig(input_format=formats)
  output = text_config.Output(output_file=world.path("corpus.txt"), **output)
  files = corpus_build.find_files(world.path("text.txt"), config, formats)
  corpus_build.build_corpus(config, files, output)


def to(world, target_format, path, target="new/ckpt", **values):
  source = ModelFolder.open(path, **values)
  convert.convert(source, world.path(target), target_format)


def check_pretraining(config):
  file = config.bert_config_file
  config.resolve_for_run(ModelFolder.open(None, bert_config_file=file), None)


def extend(world, word):
  source = ModelFolder.open(world.model("pretraining"))
  extend_vocab.extend(source, [word], world.path("more"), "grow")


def export_to(world, path=None, **values):
  path = path or world.model("classifier")
  config = export_config.ExportConfig(
    init_checkpoint=path, export_dir=world.path("exported"), **values
  )
  export.run(config)


def with_labels(world, *labels):
  """Copies the classifier with other labels; returns its folder."""
  spec = {"task_name": "x", "problem_type": "classification", "labels": labels}
  run = {"task": "classification", "labels": spec}
  folder = world.copy("classifier", "label_map.json")
  world.write("classifier/run.json", json.dumps(run))
  return folder


def while_written(path, write):
  """Writes while another command holds the lock of the file."""
  with atomic.lock_file(path):
    write()


def untrained(world, model_class=bert_tf.Classifier):
  return model_class(
    init_checkpoint=world.model("encoder"), output_dir=world.path("out")
  )


def serve_models(*folders):
  serve.CommandConfig(
    model=folders,
    server=server_config.ServerConfig(),
    checkpoint=export_config.ModelConfig(init_checkpoint=""),
  ).folders()


MISTAKES: Rows = {
  "v.txt [MASK]": lambda w: w.records(
    vocab_file=w.write("v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na")
  ),
  "vocab.txt 500 499 config.json": lambda w: w.classify(
    bert_config_file=w.config_file(vocab_size=499)
  ),
  "corpus.txt": lambda w: (
    w.text(),
    build_corpus(w, eval_output_file=w.path("corpus.txt"), eval_fraction=0.5),
  ),
  "eval_fraction 0.0001": lambda w: (
    w.text(documents=40),
    build_corpus(w, eval_output_file=w.path("eval.txt"), eval_fraction=1e-4),
  ),
  "data-00001-of-00003": lambda w: (
    w.records(num_shards=3),
    os.remove(w.path("data-00001-of-00003")),
    w.pretrain(input_file=w.path("data-*"), do_train=False, do_eval=True),
  ),
  "text.txt": lambda w: [
    list(corpus.read_shard(shard))
    for shard in corpus.plan_shards([w.text()], 2)
    if w.write("text.txt", "a .\n")
  ],
  "other-00000-of-00003": lambda w: (
    w.write("other-00000-of-00003", ""),
    shard_files.expand(w.records("other", num_shards=2) + "*"),
  ),
  "max_seq_length 16 8 config.json": lambda w: w.pretrain(
    max_seq_length=16,
    bert_config_file=w.config_file(max_position_embeddings=8),
  ),
  "data max_seq_length=16": lambda w: w.pretrain(max_seq_length=32),
  "data input_ids 49": lambda w: w.pretrain(
    bert_config_file=w.config_file(vocab_size=50)
  ),
  "unmasked other.txt": lambda w: w.pretrain(
    w.unmasked(), vocab_file=w.write("other.txt", "\n".join(SPECIAL[2:]))
  ),
  "data unmasked mask": lambda w: w.pretrain(
    f"{w.records()},{w.unmasked()}", vocab_file=worlds.VOCAB_FILE
  ),
  "masked_lm_prob data mask=False": lambda w: w.pretrain(masked_lm_prob=0.2),
  "max_predictions_per_seq 17 max_seq_length 16": lambda w: w.pretrain(
    max_predictions_per_seq=17
  ),
  "text.txt .": lambda w: w.pretrain(w.text()),
  "num_train_epochs 0.1 4": lambda w: w.classify(num_train_epochs=0.1),
  "best_metric masked_lm_loss eval_every_steps": lambda w: w.pretrain(
    train={"best_metric": "masked_lm_loss"}
  ),
  "dev.csv:2 '2' 0, 1": lambda w: w.classify(
    {"dev.csv": "text,label\na,2\n"}, do_eval=True
  ),
  "train.csv 1 label_column": lambda w: w.classify(
    {"train.csv": "text,label\na,1\nb,1\n"}
  ),
  "train.csv:2 'inf'": lambda w: w.classify(
    {"train.csv": "text,label\na,inf\n"}, problem_type="regression"
  ),
  "train.csv:2 '0' good so so": lambda w: w.classify(
    train={"output_dir": w.copy("classifier")}
  ),
  "class_weights 2 0, 1": lambda w: w.classify(class_weights=("2",)),
  "class_weights balanced classes": lambda w: w.classify(
    class_weights=("balanced",), problem_type="regression"
  ),
  "test_results.tsv ensemble_with 1 2": lambda w: w.classify(
    {"test.csv": "text\na\nb\n"},
    {"init_checkpoint": w.model("classifier")},
    do_train=False,
    do_predict=True,
    ensemble_with=(w.write("test_results.tsv", "1\t0\t0\n") and str(w.folder),),
  ),
  "label_map.json out": lambda w: (
    w.write("train.csv", worlds.TEXTS),
    w.evaluate(
      data_dir=w.write("e/dev.csv", worlds.TEXTS).removesuffix("/dev.csv")
    ),
  ),
  "0 [1, 0]": lambda w: untrained(w).fit(["a", "b"], np.eye(2, dtype=int)),
  "train.txt tags": lambda w: w.tag("a\nb\n"),
  "dev.txt": lambda w: w.tag(dev="a\n"),
  "O": lambda w: w.tag("a O\n" * 40),
  "labels": lambda w: w.tag(do_train=False, train_file="none.txt"),
  "row 0 New York": lambda w: untrained(w, bert_tf.EntityRecognizer).fit(
    [["in", "New York"], ["a"]], [["O", "B-LOC"], ["O"]]
  ),
  "row 0 3 B-LOC": lambda w: untrained(w, bert_tf.EntityRecognizer).fit(
    [["in", "New", "York"], ["a"]], [["O", "B-LOC"], ["O"]]
  ),
  "test.json eval_every_steps predict_file": lambda w: w.answer(
    {"eval_every_steps": 1},
    predict_file=w.squad_file(name="test.json"),
    train_file=w.squad_file(2),
  ),
  "predict_file": lambda w: w.answer(
    do_predict=True, train_file=w.squad_file(2)
  ),
  "train.jsonl:1": lambda w: w.classify(
    {"train.jsonl": worlds.TEXTS}, task_name="jsonl"
  ),
  "test.txt:1 'NNP' tag_column": lambda w: (
    w.write("test.txt", "a NNP\n"),
    w.tag(do_eval=False, do_predict=True, num_train_epochs=4.0),
  ),
  "data another process": lambda w: while_written(w.path("data"), w.records),
  "model.ckpt-1": lambda w: w.pretrain(
    train={"init_checkpoint": w.model("pretraining") + "/model.ckpt-1"},
    bert_config_file=w.config_file(hidden_size=8),
  ),
  "pretraining hidden_size 8 16": lambda w: w.pretrain(
    train={"output_dir": w.copy("pretraining")},
    bert_config_file=w.config_file(hidden_size=8),
  ),
  "model.ckpt-1 init_checkpoint output_dir": lambda w: w.classify(
    {"train.csv": "text,label\na,good\nb,<b>bad</b>\nc,so so\nd,good\n"},
    train={"output_dir": w.copy("classifier")},
  ),
  "encoder_only classifier do_train": lambda w: w.evaluate(
    train={"init_checkpoint": w.model("classifier"), "encoder_only": True}
  ),
  "model.ckpt-1 output_checkpoint": lambda w: convert.convert(
    ModelFolder.open(w.model("encoder")),
    w.model("encoder") + "/model.ckpt-1",
  ),
  "new/bert_config.json another output_checkpoint": lambda w: (
    w.write("new/bert_config.json", '{"vocab_size": 9}'),
    to(w, "original", w.model("encoder")),
  ),
  "attention_direction=left_to_right": lambda w: to(
    w,
    "hf",
    w.model("encoder"),
    "hf",
    bert_config_file=w.config_file(attention_direction="left_to_right"),
  ),
  "new-york new - york": lambda w: extend(w, "new-york"),
  "label_map.json labels": lambda w: export_to(
    w, w.copy("classifier", "label_map.json")
  ),
  "model.ckpt-1 3 2 good": lambda w: export_to(
    w, with_labels(w, "good", "bad")
  ),
  "pooling 'max' classification pooling": lambda w: export_to(
    w, task="classification", pooling="max"
  ),
  "x 'a'": lambda w: serve_models("a=x", "a=y"),
}

# Mistakes that are possibly intended, and therefore only logged.
WARNINGS: Rows = {
  "cased.txt do_lower_case=False": lambda w: letter_case.warn_if_cased(
    w.write("cased.txt", CASED), True
  ),
  "accents.txt strip_accents=False do_lower_case=False": lambda w: (
    letter_case.resolve(
      letter_case.Case(),
      letter_case.Case(),
      ("accents.txt", ["[PAD]", "[UNK]", "the", "caf\xe9"]),
    )
  ),
  "documents=file": lambda w: (
    w.write("text.txt", "A sentence.\n\n" * 9),
    build_corpus(w),
  ),
  "2 of 2 shards": lambda w: w.records(documents=2, num_shards=2),
  "num_warmup_steps 5 num_train_steps": lambda w: check_pretraining(
    w.configure(
      pretraining_config.PretrainingConfig,
      {"num_train_steps": 5, "num_warmup_steps": 5},
      do_train=True,
      input_file="x",
    ),
  ),
  "test.csv empty example 2": lambda w: w.classify(
    {"test.csv": 'text\na\n""\nb\n'},
    {"init_checkpoint": w.model("classifier")},
    do_train=False,
    do_predict=True,
  ),
}


@pytest.mark.parametrize("words", [*MISTAKES, *WARNINGS])
def test_a_mistake_is_named(words, models, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  world = worlds.World(tmp_path, models)
  with runs.logged() as log:
    if words in WARNINGS:
      WARNINGS[words](world)
      lines = log().splitlines()
    else:
      with pytest.raises(ERRORS) as error:
        MISTAKES[words](world)
      lines = [str(error.value)]
      assert "\n" not in lines[0]
  assert any(all(word in line for word in words.split()) for line in lines)
