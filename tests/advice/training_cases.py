"""Advice about training: runs, their data, folders and settings."""

import dataclasses
import json
import pathlib

from bert_tf import heads
from bert_tf.formats import label_map
from bert_tf.layers import lora
from bert_tf.tasks import (
  bilstm_on_top,
  fine_tuning,
  pretraining,
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
from bert_tf.training import adapters, evaluation, new_models, run_dir
from bert_tf.training import config as training_config
from tests import tiny_models
from tests.advice.following import Case

CONFIG = tiny_models.CONFIG
_TRAIN = {
  field.name for field in dataclasses.fields(training_config.TrainConfig)
}


def build(world, config_class, **values):
  """Returns a config of the tiny model, in the folder "out"."""
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
  """Returns a config of a classifier of a small file."""
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
  config, bert_config, tokenizer = fine_tuning.load(texts(world, **values))
  task = classification.make_task(config, bert_config, tokenizer, None)
  return fine_tuning._read(config, task), task


def steps(world, **values):
  examples, task = read(world, **values)
  config = texts(world, **values)
  data = task.prepare("train", examples["train"])
  return fine_tuning._with_steps(config, task, data)


def start(world, **values):
  """Runs the checks before training; returns nothing."""
  config, bert_config, tokenizer = fine_tuning.load(texts(world, **values))
  task = classification.make_task(config, bert_config, tokenizer, None)
  fine_tuning._check_labels(task, config.train.output_dir)


def pretrain(world, **values):
  return pretraining.check(
    build(
      world,
      pretraining_config.PretrainingConfig,
      **{"input_file": "x", "do_train": True, **values},
    )
  )


def words(world, **values):
  config = build(
    world,
    ner_config.NerConfig,
    **{"data_dir": str(world.folder), "do_train": True, **values},
  )
  return ner.make_task(*fine_tuning.load(config))


def choices(world, **values):
  config = build(
    world,
    swag_config.SwagConfig,
    **{"data_dir": str(world.folder), "do_train": True, **values},
  )
  return swag._file_layout(config)


def sweep(world, results, **values):
  """Runs a sweep of runs that are not trained."""
  flags = {"do_train": True, "do_eval": True}
  config = texts(world, **{**flags, **values})
  found = sweeps.run(
    config, lambda c: dict(results), ("eval_accuracy",), None, 2
  )
  return found


def diverged(world, learning_rate, output_dir):
  """Runs a sweep that diverges at a learning rate above 1."""
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


def periodic(world, metric, folder="out"):
  return evaluation.PeriodicEvaluation(
    lambda: {"loss": 1.0, "global_step": 1},
    world.path(folder),
    1,
    metric,
    0,
    0,
  )


def old_best(world):
  history = {"metric": "f1", "evaluations": []}
  name = f"out/{evaluation.BEST_DIR}/{evaluation.HISTORY_FILE}"
  world.write(name, json.dumps(history))


def run_json(world, folder="out", **values):
  world.write(f"{folder}/run.json", json.dumps({"task": "squad", **values}))


def config_json(world, name="config.json", **changes):
  values = {**vars(CONFIG), **changes}
  del values["unknown"]
  return world.write(name, json.dumps(values))


def labels(world, *names):
  spec = label_map.LabelSpec("own data", "classification", names)
  label_map.check(world.path("out"), spec)
  return spec


def adapter(world, base):
  model = heads.ClassifierModel(base.bert.config, 3)
  model.set_weights(base.get_weights()[: len(model.weights)])
  lora.enable(model, 2, None)
  adapters.save(world.path("adapted"), lora.tensors(model))


def add_adapter(world, is_same):
  base = heads.ClassifierModel(CONFIG, 3)
  adapter(world, base)
  if not is_same:
    for variable in base.trainable_variables:
      variable.assign(variable + 1.0)
  adapters.add(base, world.path("adapted"))


class Headless:
  """A model without BERT."""


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
    "tasks.fine_tuning _read",
    ("no_such", "data_dir"),
    lambda w: read(w, do_train=True, data_dir=w.path("no_such")),
    lambda w: read(w, do_train=True),
  ),
  Case(
    "tasks.fine_tuning _read_labelled",
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
    "tasks.classification.processors _call",
    ("get_labels", "DataProcessor"),
    lambda w: processors.labels(processors.DataProcessor()),
    lambda w: processors.labels(Labelled()),
  ),
  Case(
    "tasks.ner.task make_task",
    ("approach=features", "bilstm"),
    lambda w: words(w, approach="features", bilstm=True, **FIRST_LAYERS),
    lambda w: words(
      w, approach="features", init_checkpoint=w.model("encoder"), **FIRST_LAYERS
    ),
  ),
  Case(
    "tasks.ner.task make_task",
    ("init_checkpoint",),
    lambda w: words(w, approach="features", **FIRST_LAYERS),
    lambda w: words(
      w, approach="features", init_checkpoint=w.model("encoder"), **FIRST_LAYERS
    ),
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
    "tasks.swag.examples own_files",
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
    "tasks.sweeps run",
    ("learning rate", "output_dir"),
    lambda w: diverged(w, 10.0, "out"),
    lambda w: diverged(w, 0.1, "out2"),
  ),
  Case(
    "tasks.sweeps _run_once",
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
    "tasks.bilstm_on_top settle",
    ("bilstm", "False", "with"),
    lambda w: bilstm_on_top.settle(
      texts(w, bilstm=False, bert_config_file=config_json(w, bilstm=True))
    ),
    lambda w: (
      bilstm_on_top.settle(
        texts(w, bert_config_file=config_json(w, bilstm=True))
      ),
      bilstm_on_top.settle(texts(w, bilstm=False)),
    ),
  ),
  Case(
    "tasks.pretraining check",
    ("do_train", "do_eval"),
    lambda w: pretrain(w, do_train=False),
    lambda w: (pretrain(w), pretrain(w, do_train=False, do_eval=True)),
  ),
  Case(
    "tasks.pretraining check",
    ("best_metric", "'f1'", "masked_lm_loss"),
    lambda w: pretrain(w, best_metric="f1", eval_every_steps=1),
    lambda w: pretrain(w, best_metric="masked_lm_loss", eval_every_steps=1),
  ),
  Case(
    "tasks.pretraining check",
    ("max_predictions_per_seq", "20", "16"),
    lambda w: pretrain(w, max_seq_length=16),
    lambda w: pretrain(w, max_seq_length=16, max_predictions_per_seq=3),
  ),
  Case(
    "tasks.pretraining check",
    ("schedule", "train_hours", "num_train_steps"),
    lambda w: pretrain(w, schedule="16:1", train_hours=1.0),
    lambda w: pretrain(w, schedule="16:1", num_train_steps=10),
  ),
  Case(
    "tasks.pretraining _starts_at_neighbours",
    ("initial_values", "init_checkpoint"),
    lambda w: neighbours(w, initial_values="cooccurrence", init_checkpoint="c"),
    lambda w: (
      neighbours(w, initial_values="cooccurrence"),
      neighbours(w, init_checkpoint="c"),
    ),
  ),
  Case(
    "tasks.pretraining_objective settle",
    ("config.json", "bilstm"),
    lambda w: pretrain(w, bert_config_file=config_json(w, bilstm=True)),
    lambda w: pretrain(w, bert_config_file=config_json(w, "copy.json")),
  ),
  Case(
    "tasks.pretraining_objective settle",
    ("objective", "'ltr'", "run.json", "'mlm'"),
    lambda w: (run_json(w, task="pretraining"), pretrain(w, objective="ltr")),
    lambda w: (
      pretrain(w),
      pretrain(
        w,
        objective="ltr",
        output_dir=w.path("other"),
        bert_config_file=silent(w),
      ),
    ),
  ),
  Case(
    "tasks.pretraining_objective settle",
    ("objective", "'rtl'", "attention_direction"),
    lambda w: pretrain(w, objective="rtl", bert_config_file=left(w)),
    lambda w: (
      pretrain(w, bert_config_file=left(w)),
      pretrain(w, objective="rtl", bert_config_file=silent(w)),
    ),
  ),
  Case(
    "training.evaluation run",
    ("best_metric", "'f1'", "loss"),
    lambda w: periodic(w, "f1").run({}),
    lambda w: periodic(w, "loss").best(),
  ),
  Case(
    "training.evaluation _known",
    ("f1", "loss", "output_dir"),
    lambda w: (old_best(w), periodic(w, "loss")),
    lambda w: (periodic(w, "f1"), periodic(w, "loss", "other")),
  ),
  Case(
    "training.new_models checkpoint_gradients",
    ("recompute",),
    lambda w: new_models.checkpoint_gradients(Headless()),
    lambda w: None,
  ),
  Case(
    "layers.lora enable",
    ("lora_rank",),
    lambda w: lora.enable(Headless(), 2, None),
    lambda w: None,
  ),
  Case(
    "layers.lora enable",
    ("lora_rank", "17", "16"),
    lambda w: lora.enable(heads.ClassifierModel(CONFIG, 3), 17, None),
    lambda w: lora.enable(heads.ClassifierModel(CONFIG, 3), 16, None),
  ),
  Case(
    "training.adapters open_adapter",
    ("model.ckpt-1", "adapter"),
    lambda w: adapters.open_adapter(w.model("classifier") + "/model.ckpt-1"),
    lambda w: (
      adapter(w, heads.ClassifierModel(CONFIG, 3)),
      adapters.open_adapter(w.path("adapted/adapter/lora.ckpt")),
    ),
  ),
  Case(
    "training.adapters _check_base",
    ("lora.ckpt", "init_checkpoint"),
    lambda w: add_adapter(w, is_same=False),
    lambda w: add_adapter(w, is_same=True),
  ),
  Case(
    "training.run_dir read_run_of_task",
    ("out", "squad", "classification", "output_dir"),
    lambda w: (run_json(w), load(w, do_train=True)),
    lambda w: load(w, do_train=True, output_dir=w.path("other")),
  ),
  Case(
    "training.run_dir check_same_config",
    ("hidden_size", "8", "16"),
    lambda w: run_dir.check_same_config(
      config_json(w, "out/bert_config.json", hidden_size=8), CONFIG
    ),
    lambda w: run_dir.check_same_config(
      config_json(w, "other/bert_config.json"), CONFIG
    ),
  ),
  Case(
    "formats.label_map check",
    ("out", "yes", "good", "output_dir"),
    lambda w: (
      label_map.write(w.path("out"), labels(w, "good", "bad")),
      labels(w, "yes", "no"),
    ),
    lambda w: label_map.check(
      w.path("other"),
      label_map.LabelSpec("own data", "classification", ("yes", "no")),
    ),
  ),
  Case(
    "formats.label_map read",
    ("label_map.json", "output_dir"),
    lambda w: (w.write("out/label_map.json", "{}"), label_map.read("out")),
    lambda w: (
      label_map.read("other"),
      w.folder.joinpath("out", "label_map.json").unlink(),
      label_map.read("out"),
    ),
  ),
)
FIRST_LAYERS = {"feature_layers": "last"}


class Labelled(processors.DataProcessor):
  """A processor with labels."""

  def get_labels(self):
    """Returns two labels."""
    return ["0", "1"]


def neighbours(world, **values):
  pretraining._starts_at_neighbours(
    build(
      world,
      pretraining_config.PretrainingConfig,
      input_file="x",
      **values,
    )
  )


def silent(world):
  values = {**vars(CONFIG)}
  del values["unknown"], values["attention_direction"]
  return world.write("silent.json", json.dumps(values))


def left(world):
  return config_json(world, "left.json", attention_direction="left_to_right")
