"""Advice about training: runs, their data, folders and settings."""

import dataclasses
import json
import pathlib

import numpy as np

from bert_tf import checkpoints
from bert_tf.model_folder import fingerprint, run_info
from bert_tf.tasks import (
  fine_tuning,
  pretraining_config,
  sweeps,
)
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import processors
from bert_tf.tasks.classification import task as classification
from bert_tf.tasks.ner import config as ner_config
from bert_tf.tasks.ner import feature_based
from bert_tf.tasks.ner import task as ner
from bert_tf.tasks.swag import config as swag_config
from bert_tf.tasks.swag import examples as swag_examples
from bert_tf.tasks.swag import task as swag
from bert_tf.training import config as training_config
from tests.advice.following import Case
from tests.support import tiny_models

CONFIG = tiny_models.CONFIG
_TRAIN = {
  field.name for field in dataclasses.fields(training_config.TrainConfig)
}
FIRST_LAYERS = {"feature_layers": "last"}


def build(world, config_class, **values):
  """Returns a config of a run of the tiny encoder, in the folder "out"."""
  own = {n: v for n, v in values.items() if n not in _TRAIN}
  train = {n: v for n, v in values.items() if n in _TRAIN}
  train = {
    "output_dir": world.path("out"),
    "train_batch_size": 4,
    "use_xla": False,
    **train,
  }
  folder = pathlib.Path(world.model("encoder"))
  files = {"bert_config_file": str(folder / "bert_config.json")}
  if config_class is not pretraining_config.PretrainingConfig:
    files["vocab_file"] = str(folder / "vocab.txt")
  train = training_config.TrainConfig(**train)
  return config_class(**{**files, **own, "train": train})


def texts(world, **values):
  """Returns the config of a classifier on small CSV files."""
  rows = "".join(f"{word},{i % 2}\n" for i, word in enumerate("abcdefgh"))
  for name in ("train", "dev", "test"):
    if not world.folder.joinpath(f"{name}.csv").exists():
      world.write(f"{name}.csv", "text,label\n" + rows)
  return build(
    world,
    classification_config.ClassificationConfig,
    **{"data_dir": str(world.folder), "task_name": "csv", **values},
  )


def load(world, **values):
  fine_tuning.load(texts(world, **values))


def read(world, **values):
  setup = fine_tuning.load(texts(world, **values))
  task = classification.make_task(setup, None)
  return fine_tuning._read(setup, task), task


def steps(world, **values):
  splits, task = read(world, **values)
  config = texts(world, **values)
  return fine_tuning._with_steps(config, task, splits.data["train"])


def start(world, **values):
  """Makes the task of a run, which checks its settings."""
  classification.make_task(fine_tuning.load(texts(world, **values)), None)


def words(world, **values):
  config = build(
    world,
    ner_config.NerConfig,
    **{"data_dir": str(world.folder), "do_train": True, **values},
  )
  return ner.make_task(fine_tuning.load(config))


def on_features(world, init_checkpoint):
  """Continues a run on the features of the tiny encoder with another BERT."""
  bert = fingerprint.hash_encoder(world.model("encoder"))
  run = run_info.RunInfo(task="ner", feature_model=bert)
  run_info.write_json(world.path("out"), run)
  checkpoints.save(world.path("out"), {"global_step": np.int64(1)}, 1)
  start = {"approach": "features", "init_checkpoint": init_checkpoint}
  return words(world, **start, **FIRST_LAYERS)


def choices(world, **values):
  config = build(
    world,
    swag_config.SwagConfig,
    **{"data_dir": str(world.folder), "do_train": True, **values},
  )
  return swag._file_layout(config)


def sweep(world, results, **values):
  """Runs a sweep whose runs return `results` without training."""
  flags = {"do_train": True, "do_eval": True}
  config = texts(world, **{**flags, **values})
  best = sweeps.run(
    config, lambda c: dict(results), ("eval_accuracy",), None, 2
  )
  return best


def diverged(world, learning_rate, output_dir):
  """Runs a sweep whose run diverges if the learning rate is above 1."""
  from bert_tf.training import divergence

  def run(config):
    if config.train.learning_rate > 1:
      raise divergence.DivergedError("the loss became nan")
    return {"eval_accuracy": 0.5}

  config = texts(
    world,
    do_train=True,
    do_eval=True,
    learning_rate=learning_rate,
    output_dir=world.path(output_dir),
  )
  sweeps.run(config, run, ("eval_accuracy",), None, 2)


def config_json(world, name="config.json", **changes):
  values = {**vars(CONFIG), **changes}
  del values["unknown"]
  return world.write(name, json.dumps(values))


def own_choices(*columns, **values):
  names = {
    "context_column": "context",
    "question_column": None,
    "label_column": "label",
    **values,
  }
  return swag_examples.own_files(
    "csv",
    names["context_column"],
    names["question_column"],
    columns,
    names["label_column"],
    "number",
  )


class Labelled(processors.DataProcessor):
  """A processor with labels."""

  def get_labels(self):
    """Returns two labels."""
    return ["0", "1"]


CASES = (
  Case(
    "tasks.fine_tuning load",
    ("do_train", "do_eval", "do_predict"),
    load,
    lambda w: [
      load(w, **{flag: True}) for flag in ("do_train", "do_eval", "do_predict")
    ],
  ),
  Case(
    "tasks.fine_tuning load",
    ("freeze_layers", "3", "2"),
    lambda w: load(w, do_train=True, freeze_layers=3),
    lambda w: load(w, do_train=True, freeze_layers=2),
  ),
  Case(
    "tasks.splits read",
    ("no_such", "data_dir"),
    lambda w: read(w, do_train=True, data_dir=w.path("no_such")),
    lambda w: read(w, do_train=True),
  ),
  Case(
    "tasks.splits _read_labelled",
    ("label_map.json", "out"),
    lambda w: read(w, do_eval=True, data_dir=w.write("e/dev.csv", "t")[:-8]),
    lambda w: (
      w.write(
        "out/label_map.json",
        pathlib.Path(w.model("classifier"), "label_map.json").read_text(),
      ),
      w.write("e/dev.csv", "text,label\na,good\nb,so so\n"),
      read(w, do_eval=True, data_dir=w.path("e")),
    ),
  ),
  Case(
    "tasks.fine_tuning _with_steps",
    ("best_metric", "'f2'", "eval_accuracy"),
    lambda w: steps(w, do_train=True, best_metric="f2", eval_every_steps=1),
    lambda w: steps(
      w, do_train=True, best_metric="eval_accuracy", eval_every_steps=1
    ),
  ),
  Case(
    "tasks.fine_tuning _with_steps",
    ("num_train_epochs", "0.1", "8"),
    lambda w: steps(w, do_train=True, num_train_epochs=0.1),
    lambda w: steps(w, do_train=True, num_train_epochs=0.5),
  ),
  Case(
    "tasks.classification.task _check_pairs",
    ("long_text", "windows", "MRPC", "truncate"),
    lambda w: start(w, do_train=True, task_name="MRPC", long_text="windows"),
    lambda w: start(w, do_train=True, task_name="MRPC", long_text="truncate"),
  ),
  Case(
    "tasks.classification.processors _refuse_missing",
    ("get_labels", "DataProcessor"),
    lambda w: processors.labels(processors.DataProcessor()),
    lambda w: processors.labels(Labelled()),
  ),
  Case(
    "tasks.ner.task _resolve_features",
    ("approach=features", "bilstm"),
    lambda w: words(w, approach="features", bilstm=True, **FIRST_LAYERS),
    lambda w: words(
      w, approach="features", init_checkpoint=w.model("encoder"), **FIRST_LAYERS
    ),
  ),
  Case(
    "tasks.ner.task _resolve_features",
    ("init_checkpoint",),
    lambda w: words(w, approach="features", **FIRST_LAYERS),
    lambda w: words(
      w, approach="features", init_checkpoint=w.model("encoder"), **FIRST_LAYERS
    ),
  ),
  Case(
    "tasks.ner.task _resolve_features",
    ("another BERT", "init_checkpoint", "output_dir"),
    lambda w: on_features(w, w.model("squad")),
    lambda w: on_features(w, w.model("encoder")),
  ),
  Case(
    "tasks.ner.feature_based check_layers",
    ("concat_last_four", "4", "2"),
    lambda w: feature_based.check_layers("concat_last_four", CONFIG),
    lambda w: feature_based.check_layers("last", CONFIG),
  ),
  Case(
    "tasks.swag.task _file_layout",
    ("swog", "swag", "csv"),
    lambda w: choices(w, task_name="swog"),
    lambda w: choices(w, task_name="swag"),
  ),
  Case(
    "tasks.swag.examples own_files",
    ("context_column", "label_column"),
    lambda w: own_choices("a", "b", label_column=""),
    lambda w: own_choices("a", "b"),
  ),
  Case(
    "tasks.swag.examples _check_choices",
    ("choice_columns=a",),
    lambda w: own_choices("a"),
    lambda w: own_choices("a", "b"),
  ),
  Case(
    "tasks.sweeps run",
    ("do_train", "do_eval"),
    lambda w: sweep(w, {"eval_accuracy": 1.0}, do_eval=False),
    lambda w: sweep(w, {"eval_accuracy": 1.0}),
  ),
  Case(
    "tasks.sweeps _run_all",
    ("learning rate", "output_dir"),
    lambda w: diverged(w, 10.0, "out"),
    lambda w: diverged(w, 0.1, "out2"),
  ),
  Case(
    "tasks.sweeps _execute",
    ("eval_accuracy", "eval_loss", "best_metric"),
    lambda w: sweep(w, {"eval_loss": 1.0}),
    lambda w: (
      sweep(w, {"eval_loss": 1.0}, best_metric="eval_loss"),
      sweep(w, {"eval_accuracy": 1.0}, output_dir=w.path("other")),
    ),
  ),
  Case(
    "tasks.sweeps _check_trains_alike",
    ("out", "num_train_epochs"),
    lambda w: (
      sweep(w, {"eval_accuracy": 1.0}),
      sweep(w, {"eval_accuracy": 1.0}, num_train_epochs=1.0),
    ),
    lambda w: sweep(
      w,
      {"eval_accuracy": 1.0},
      num_train_epochs=1.0,
      output_dir=w.path("other"),
    ),
  ),
  Case(
    "tasks.fine_tuning _load_bert_config",
    ("bilstm", "False", "config.json"),
    lambda w: load(
      w,
      do_train=True,
      bilstm=False,
      bert_config_file=config_json(w, bilstm=True),
    ),
    lambda w: (
      load(w, do_train=True, bert_config_file=config_json(w, bilstm=True)),
      load(w, do_train=True, bilstm=False),
    ),
  ),
)
