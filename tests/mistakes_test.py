"""Mistakes of users that would be silent or cost hours end with an error.

Each row makes a mistake. The error, or the warning of a row of `Warned`, must
name the values, files or settings that lead a user to the cause, in one line.
Its wording is free. What a reader of files or a config refuses by itself is
in the tests of that module.
"""

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoint import checkpoints, convert, extend_vocab
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.cli import serve
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.files import lock, shard_files
from bert_tf.inference import config as inference_config
from bert_tf.inference import feature_extraction
from bert_tf.server import config as server_config
from bert_tf.tasks.pretraining import pretraining, pretraining_config
from bert_tf.text import corpus, corpus_build, letter_case, sources, text_config
from tests.support import runs, worlds

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CASED = "\n".join([*SPECIAL, "The", "the", "Dog", "dog"])


class Mistake(NamedTuple):
  """A mistake that raises an error."""

  name: str
  make: Callable[[worlds.World], Any]
  words: str  # What the message must contain, with blanks between.


class Warned(Mistake):
  """A mistake that is possibly intended, and therefore only logged."""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  return worlds.write_models(tmp_path_factory.mktemp("models"))


def build_corpus(world, formats="text", **output):
  config = text_config.TextConfig(input_format=formats)
  output = text_config.Output(output_file=world.path("corpus.txt"), **output)
  files = sources.find_files(world.path("text.txt"), config, formats)
  corpus_build.build_corpus(config, files, output)


def not_finite(world):
  """Copies the encoder with a bias that is nan; returns its checkpoint."""
  path = world.copy("encoder") + "/model.ckpt-1"
  reader = checkpoints.CheckpointReader(path)
  tensors = {name: reader.get(name) for name in reader.shapes}
  tensors["bert/pooler/dense/bias"][0] = np.nan
  checkpoints.write(path, tensors)
  return path


def to(world, target_format, path, target="new/ckpt", **values):
  source = ModelFolder.open(path, **values)
  convert.convert(source, world.path(target), target_format)


def check_pretraining(config):
  file = config.bert_config_file
  pretraining.check(config, ModelFolder.open(None, bert_config_file=file))


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
  with lock.hold_file(path):
    write()


def untrained(world, model_class=bert_tf.Classifier):
  return model_class(
    init_checkpoint=world.model("encoder"), output_dir=world.path("out")
  )


def replace_texts(world):
  path = world.write("in.txt", "a text\n")
  config = inference_config.ExtractionConfig(
    init_checkpoint=world.model("encoder"), layers=(-1,)
  )
  feature_extraction.extract_file(config, path, path, "jsonl")


def serve_models(*folders):
  serve.CommandConfig(
    model=folders,
    server=server_config.ServerConfig(),
    checkpoint=export_config.ModelConfig(init_checkpoint=""),
  ).folders()


MISTAKES = (
  # Vocabularies and casing.
  Mistake(
    "the vocabulary is cased, do_lower_case is set",
    lambda w: w.classify(
      vocab_file=w.write("cased.txt", CASED), do_lower_case=True
    ),
    "do_lower_case=True cased.txt",
  ),
  Warned(
    "records of a cased vocabulary are lower-cased",
    lambda w: letter_case.warn_if_cased(w.write("cased.txt", CASED), True),
    "cased.txt do_lower_case=False",
  ),
  Warned(
    "the vocabulary has accents, strip_accents is not given",
    lambda w: letter_case.resolve(
      letter_case.Case(),
      letter_case.Case(),
      ("accents.txt", ["[PAD]", "[UNK]", "the", "caf\xe9"]),
    ),
    "accents.txt strip_accents=False do_lower_case=False",
  ),
  Mistake(
    "the vocabulary of records lacks [MASK]",
    lambda w: w.records(
      vocab_file=w.write("v.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na")
    ),
    "v.txt [MASK]",
  ),
  Mistake(
    "the vocabulary has more tokens than the model",
    lambda w: w.classify(bert_config_file=w.config_file(vocab_size=499)),
    "vocab.txt 500 499 config.json",
  ),
  # Corpora.
  Mistake(
    "the texts to evaluate on replace those to train on",
    lambda w: (
      w.text(),
      build_corpus(w, eval_output_file=w.path("corpus.txt"), eval_fraction=0.5),
    ),
    "corpus.txt",
  ),
  Mistake(
    "no document is held out",
    lambda w: (
      w.text(documents=40),
      build_corpus(w, eval_output_file=w.path("eval.txt"), eval_fraction=1e-4),
    ),
    "eval_fraction 0.0001",
  ),
  Warned(
    "every paragraph becomes a document",
    lambda w: (w.write("text.txt", "A sentence.\n\n" * 9), build_corpus(w)),
    "documents=file",
  ),
  Mistake(
    "a glob for all shards of records finds some of them",
    lambda w: (
      w.records(num_shards=3),
      os.remove(w.path("data-00001-of-00003")),
      w.pretrain(input_file=w.path("data-*"), do_train=False, do_eval=True),
    ),
    "data-00001-of-00003",
  ),
  Mistake(
    "two data sets match one glob",
    lambda w: (
      w.records(num_shards=2),
      w.records(num_shards=3),
      w.pretrain(input_file=w.path("data-*")),
    ),
    "data-00000-of-00002 data-00000-of-00003",
  ),
  Mistake(
    "the text changes while its records are made",
    lambda w: [
      list(corpus.read_shard(shard))
      for shard in corpus.plan_shards([w.text()], 2)
      if w.write("text.txt", "a .\n")
    ],
    "text.txt",
  ),
  # Records.
  Warned(
    "a shard has a single document, so no random next sentence",
    lambda w: w.records(documents=2, num_shards=2),
    "2 of 2 shards",
  ),
  Mistake(
    "shards of an earlier command match the same pattern",
    lambda w: (
      w.write("other-00000-of-00003", ""),
      shard_files.expand(w.records("other", num_shards=2) + "*"),
    ),
    "other-00000-of-00003",
  ),
  Mistake(
    "records are longer than the model",
    lambda w: w.pretrain(
      max_seq_length=16,
      bert_config_file=w.config_file(max_position_embeddings=8),
    ),
    "max_seq_length 16 8 config.json",
  ),
  Mistake(
    "records have another length",
    lambda w: w.pretrain(max_seq_length=32),
    "data max_seq_length 16 32",
  ),
  Mistake(
    "records were made with another vocabulary",
    lambda w: w.pretrain(bert_config_file=w.config_file(vocab_size=50)),
    "data input_ids 49",
  ),
  Mistake(
    "unmasked records were made with another vocabulary",
    lambda w: w.pretrain(
      w.unmasked(), vocab_file=w.write("other.txt", "\n".join(SPECIAL[2:]))
    ),
    "unmasked other.txt",
  ),
  Mistake(
    "masked and unmasked records are mixed",
    lambda w: w.pretrain(
      f"{w.records()},{w.unmasked()}", vocab_file=worlds.VOCAB_FILE
    ),
    "data unmasked mask",
  ),
  Mistake(
    "records that are masked already are masked again",
    lambda w: w.pretrain(masked_lm_prob=0.2),
    "masked_lm_prob data mask=False",
  ),
  Mistake(
    "records have fewer masked positions",
    lambda w: w.pretrain(max_predictions_per_seq=9),
    "data masked_lm_positions 2 9",
  ),
  Mistake(
    "more positions are masked than exist",
    lambda w: w.pretrain(max_predictions_per_seq=17),
    "max_predictions_per_seq 17 max_seq_length 16",
  ),
  Mistake(
    "a text instead of records",
    lambda w: w.pretrain(w.text()),
    "text.txt",
  ),
  Warned(
    "the learning rate only rises",
    lambda w: check_pretraining(
      w.configure(
        pretraining_config.PretrainingConfig,
        {"num_train_steps": 5, "num_warmup_steps": 5},
        do_train=True,
        input_file="x",
      ),
    ),
    "num_warmup_steps 5 num_train_steps",
  ),
  Mistake(
    "less than a batch is trained on",
    lambda w: w.classify(num_train_epochs=0.1),
    "num_train_epochs 0.1 4",
  ),
  Mistake(
    "the best checkpoint without evaluations",
    lambda w: w.pretrain(train={"best_metric": "masked_lm_loss"}),
    "best_metric masked_lm_loss eval_every_steps",
  ),
  # Examples and labels.
  Mistake(
    "a label of dev.csv is not in train.csv",
    lambda w: w.classify({"dev.csv": "text,label\na,2\n"}, do_eval=True),
    "dev.csv:2 '2' 0, 1",
  ),
  Mistake(
    "every text has the same label",
    lambda w: w.classify({"train.csv": "text,label\na,1\nb,1\n"}),
    "train.csv 1 label_column",
  ),
  Mistake(
    "the number to predict is not finite",
    lambda w: w.classify(
      {"train.csv": "text,label\na,inf\n"}, problem_type="regression"
    ),
    "train.csv:2 'inf'",
  ),
  Mistake(
    "a run continues with other labels",
    lambda w: w.classify(train={"output_dir": w.copy("classifier")}),
    "train.csv:2 '0' good so so",
  ),
  Mistake(
    "a weight is missing for a label",
    lambda w: w.classify(class_weights=("2",)),
    "class_weights 2 0, 1",
  ),
  Mistake(
    "the weights are those of a regression",
    lambda w: w.classify(
      class_weights=("balanced",), problem_type="regression"
    ),
    "class_weights balanced classes",
  ),
  Mistake(
    "a run of other rows joins an ensemble",
    lambda w: w.classify(
      {"test.csv": "text\na\nb\n"},
      {"init_checkpoint": w.model("classifier")},
      do_train=False,
      do_predict=True,
      ensemble_with=(
        w.write("test_results.tsv", "1\t0\t0\n") and str(w.folder),
      ),
    ),
    "test_results.tsv ensemble_with 1 2",
  ),
  Mistake(
    "a run evaluates without the labels of its model",
    lambda w: (
      w.write("train.csv", worlds.TEXTS),
      w.evaluate(
        data_dir=w.write("e/dev.csv", worlds.TEXTS).removesuffix("/dev.csv")
      ),
    ),
    "label_map.json out",
  ),
  Mistake(
    "an array of flags instead of labels",
    lambda w: untrained(w).fit(["a", "b"], np.eye(2, dtype=int)),
    "0 [1, 0]",
  ),
  Mistake(
    "the column of the tags holds parts of speech",
    lambda w: w.tag("a NN B-X\nb VB O\n", tag_column=1),
    "train.txt:1 'NN' tag_column",
  ),
  Mistake(
    "a tag of dev.txt is not in train.txt",
    lambda w: w.tag(dev="a B-Y\n"),
    "dev.txt:1 B-Y B-X",
  ),
  Mistake(
    "words without tags are trained on",
    lambda w: w.tag("a\nb\n"),
    "train.txt tags",
  ),
  Mistake(
    "words without tags are evaluated", lambda w: w.tag(dev="a\n"), "dev.txt"
  ),
  Mistake("no word is an entity", lambda w: w.tag("a O\n" * 40), "O"),
  Mistake(
    "a run evaluates without the tags of its model",
    lambda w: w.tag(do_train=False, train_file="none.txt"),
    "labels",
  ),
  Mistake(
    "a word of two words",
    lambda w: untrained(w, bert_tf.EntityRecognizer).fit(
      [["in", "New York"], ["a"]], [["O", "B-LOC"], ["O"]]
    ),
    "row 0 New York",
  ),
  Mistake(
    "fewer tags than words",
    lambda w: untrained(w, bert_tf.EntityRecognizer).fit(
      [["in", "New", "York"], ["a"]], [["O", "B-LOC"], ["O"]]
    ),
    "row 0 3 B-LOC",
  ),
  Mistake(
    "a run evaluates on questions without answers",
    lambda w: w.answer(
      {"eval_every_steps": 1},
      predict_file=w.squad_file(name="test.json"),
      train_file=w.squad_file(2),
    ),
    "test.json eval_every_steps predict_file",
  ),
  Mistake(
    "questions are to be answered without a file",
    lambda w: w.answer(do_predict=True, train_file=w.squad_file(2)),
    "predict_file",
  ),
  Mistake(
    "questions are JSON lines",
    lambda w: w.answer(train_file=w.write("rows.json", '{"id": 1}\n' * 2)),
    "rows.json is not JSON",
  ),
  Mistake(
    "questions are a list of contexts",
    lambda w: w.answer(train_file=w.write("cmrc.json", '[{"qas": []}]')),
    "cmrc.json qas dictionary",
  ),
  Mistake(
    "words and tags are JSON lines",
    lambda w: w.tag(train='{"tokens": ["a"], "tags": ["O"]}\n' * 2),
    "train.txt:1 not a tag",
  ),
  Mistake(
    "rows of CSV are given as JSON lines",
    lambda w: w.classify({"train.jsonl": worlds.TEXTS}, task_name="jsonl"),
    "train.jsonl:1",
  ),
  Mistake(
    "words to predict have tags that the model lacks",
    lambda w: (
      w.write("test.txt", "a NNP\n"),
      w.tag(do_eval=False, do_predict=True, num_train_epochs=4.0),
    ),
    "test.txt:1 'NNP' tag_column",
  ),
  Warned(
    "a text to predict is empty",
    lambda w: w.classify(
      {"test.csv": 'text\na\n""\nb\n'},
      {"init_checkpoint": w.model("classifier")},
      do_train=False,
      do_predict=True,
    ),
    "test.csv empty example 2",
  ),
  Mistake(
    "two commands write the same records",
    lambda w: while_written(w.path("data"), w.records),
    "data another process",
  ),
  # Starts and resumed runs.
  Mistake(
    "no step is chosen",
    lambda w: w.pretrain(do_train=False),
    "do_train do_eval",
  ),
  Mistake(
    "the checkpoint to start from has other sizes",
    lambda w: w.pretrain(
      train={"init_checkpoint": w.model("pretraining") + "/model.ckpt-1"},
      bert_config_file=w.config_file(hidden_size=8),
    ),
    "model.ckpt-1",
  ),
  Mistake(
    "a run resumes with another model",
    lambda w: w.pretrain(
      train={"output_dir": w.copy("pretraining")},
      bert_config_file=w.config_file(hidden_size=8),
    ),
    "pretraining hidden_size 8 16",
  ),
  Mistake(
    "a run resumes from weights without a state of training",
    lambda w: w.classify(
      {"train.csv": "text,label\na,good\nb,<b>bad</b>\nc,so so\nd,good\n"},
      train={"output_dir": w.copy("classifier")},
    ),
    "model.ckpt-1 init_checkpoint output_dir",
  ),
  Mistake(
    "an evaluation of weights that are not trained",
    lambda w: w.evaluate(train={"init_checkpoint": w.model("encoder")}),
    "encoder output_weights do_train",
  ),
  Mistake(
    "an evaluation ignores the trained head",
    lambda w: w.evaluate(
      train={"init_checkpoint": w.model("classifier"), "encoder_only": True}
    ),
    "encoder_only classifier do_train",
  ),
  # Models and conversions.
  Mistake(
    "the head of a classifier tags words",
    lambda w: bert_tf.TokenModel.from_pretrained(w.model("classifier")),
    "classifier ner",
  ),
  Mistake(
    "a converted checkpoint replaces its source",
    lambda w: convert.slim(
      w.model("encoder"), w.model("encoder") + "/model.ckpt-1"
    ),
    "model.ckpt-1 output_checkpoint",
  ),
  Mistake(
    "a conversion to the folder of another model",
    lambda w: (
      w.write("new/bert_config.json", '{"vocab_size": 9}'),
      to(w, "original", w.model("encoder")),
    ),
    "new/bert_config.json vocab_size output_checkpoint",
  ),
  Mistake(
    "a conversion of weights that are not finite",
    lambda w: to(w, "hf", not_finite(w), "hf"),
    "model.ckpt-1 bert/pooler/dense/bias",
  ),
  Mistake(
    "a unidirectional model in a format that is not",
    lambda w: to(
      w,
      "hf",
      w.model("encoder"),
      "hf",
      bert_config_file=w.config_file(attention_direction="left_to_right"),
    ),
    "attention_direction=left_to_right",
  ),
  Mistake(
    "a new word is no whole word",
    lambda w: extend(w, "new-york"),
    "new-york new - york",
  ),
  # Exports and predictions.
  Mistake(
    "an export without the names of the labels",
    lambda w: export_to(w, w.copy("classifier", "label_map.json")),
    "label_map.json labels",
  ),
  Mistake(
    "an export with the labels of another model",
    lambda w: export_to(w, with_labels(w, "good", "bad")),
    "model.ckpt-1 3 2 good",
  ),
  Mistake(
    "a setting of vectors for a classifier",
    lambda w: export_to(w, task="classification", pooling="max"),
    "pooling 'max' classification pooling",
  ),
  Mistake("vectors replace their texts", replace_texts, "in.txt output_file"),
  Mistake(
    "a text without a mask",
    lambda w: bert_tf.Predictor(w.model("pretraining")).predict("the dog"),
    "[MASK] the dog",
  ),
  Mistake(
    "a text with masks is longer than the model",
    lambda w: bert_tf.Predictor(w.model("pretraining")).predict(
      "[MASK] " * 600
    ),
    "word pieces",
  ),
  Mistake(
    "a model that was never fitted predicts",
    lambda w: untrained(w).predict("a"),
    "out fit",
  ),
  # The server and the pipeline.
  Mistake(
    "two models are served by the same name",
    lambda w: serve_models("a=x", "a=y"),
    "x 'a'",
  ),
)


@pytest.mark.parametrize(
  "mistake", MISTAKES, ids=lambda mistake: mistake.name.replace(" ", "-")
)
def test_a_mistake_is_named(mistake, models, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  world = worlds.World(tmp_path, models)
  errors = (ValueError, OSError, RuntimeError, TypeError)
  if isinstance(mistake, Warned):
    with runs.logged() as log:
      mistake.make(world)
    lines = log().splitlines()
  else:
    with pytest.raises(errors) as error:
      mistake.make(world)
    lines = [str(error.value)]
    assert "\n" not in lines[0]
  words = mistake.words.split()
  named = [all(word in line for word in words) for line in lines]
  assert any(named), lines
