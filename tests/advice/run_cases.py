"""Advice about pre-training and the folders of runs."""

import json

from bert_tf import heads
from bert_tf.layers import lora
from bert_tf.model_folder import run_folder, run_info
from bert_tf.tasks import (
  pretraining,
  pretraining_config,
)
from bert_tf.training import adapters, evaluation, model_setup
from bert_tf.training import config as training_config
from tests.advice import training_cases
from tests.advice.following import Case

TWICE = {
  "task_name": "x",
  "problem_type": "classification",
  "labels": ["a"] * 2,
}


def pretrain(world, **values):
  config = training_cases.build(
    world,
    pretraining_config.PretrainingConfig,
    **{"input_file": "x", "do_train": True, **values},
  )
  folder = run_folder.RunFolder(config.train.output_dir, "pretraining")
  return pretraining.check(config, folder)


def without_nsp(world, metric):
  return pretrain(world, no_nsp=True, best_metric=metric, eval_every_steps=1)


def periodic(world, metric, folder="out"):
  config = training_config.TrainConfig(
    output_dir=world.path(folder), eval_every_steps=1, best_metric=metric
  )
  return evaluation.PeriodicEvaluation(
    lambda: {"loss": 1.0, "global_step": 1}, config, 0
  )


def old_best(world):
  history = {"metric": "f1", "evaluations": []}
  name = f"out/{evaluation.BEST_DIR}/{evaluation.HISTORY_FILE}"
  world.write(name, json.dumps(history))


def run_json(world, folder="out", **values):
  world.write(f"{folder}/run.json", json.dumps({"task": "squad", **values}))


def labels(world, *names, folder="out"):
  spec = run_info.LabelSpec("own data", "classification", names)
  opened = run_folder.RunFolder(world.path(folder), "classification")
  opened.check_labels(spec)
  return spec


def adapter(world, base):
  model = heads.ClassifierModel(base.bert.config, 3)
  model.set_weights(base.get_weights()[: len(model.weights)])
  lora.enable(model, 2, None)
  adapters.save(world.path("adapted"), lora.tensors(model))


def add_adapter(world, is_same):
  base = heads.ClassifierModel(training_cases.CONFIG, 3)
  adapter(world, base)
  if not is_same:
    for variable in base.trainable_variables:
      variable.assign(variable + 1.0)
  adapters.add(base, world.path("adapted"))


class Headless:
  """A model without BERT."""


def same_config(world, folder="out", **changes):
  training_cases.config_json(world, f"{folder}/bert_config.json", **changes)
  opened = run_folder.RunFolder(world.path(folder), "classification")
  info = run_info.RunInfo(task="classification")
  opened.prepare(info, training_cases.CONFIG, None)


def neighbours(world, **values):
  pretraining._needs_initial_values(
    training_cases.build(
      world,
      pretraining_config.PretrainingConfig,
      input_file="x",
      **values,
    )
  )


def silent(world):
  values = {**vars(training_cases.CONFIG)}
  del values["unknown"], values["attention_direction"]
  return world.write("silent.json", json.dumps(values))


def left(world):
  return training_cases.config_json(
    world, "left.json", attention_direction="left_to_right"
  )


CASES = (
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
    ("best_metric", "'next_sentence_accuracy'", "masked_lm_loss"),
    lambda w: without_nsp(w, "next_sentence_accuracy"),
    lambda w: without_nsp(w, "masked_lm_loss"),
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
    "tasks.pretraining _needs_initial_values",
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
    lambda w: pretrain(
      w, bert_config_file=training_cases.config_json(w, bilstm=True)
    ),
    lambda w: pretrain(
      w, bert_config_file=training_cases.config_json(w, "copy.json")
    ),
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
    "training.evaluation _read_earlier",
    ("f1", "loss", "output_dir"),
    lambda w: (old_best(w), periodic(w, "loss")),
    lambda w: (periodic(w, "f1"), periodic(w, "loss", "other")),
  ),
  Case(
    "training.model_setup _checkpoint_gradients",
    ("recompute",),
    lambda w: model_setup._checkpoint_gradients(Headless()),
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
    lambda w: lora.enable(
      heads.ClassifierModel(training_cases.CONFIG, 3), 17, None
    ),
    lambda w: lora.enable(
      heads.ClassifierModel(training_cases.CONFIG, 3), 16, None
    ),
  ),
  Case(
    "training.adapters open_adapter",
    ("model.ckpt-1", "adapter"),
    lambda w: adapters.open_adapter(w.model("classifier") + "/model.ckpt-1"),
    lambda w: (
      adapter(w, heads.ClassifierModel(training_cases.CONFIG, 3)),
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
    "model_folder.run_folder info",
    ("out", "squad", "classification", "output_dir"),
    lambda w: (run_json(w), training_cases.load(w, do_train=True)),
    lambda w: training_cases.load(w, do_train=True, output_dir=w.path("other")),
  ),
  Case(
    "settings resolve",
    ("max_seq_length", "64", "out/run.json", "128", "output_dir"),
    lambda w: (
      run_json(w, task="classification", max_seq_length=128),
      training_cases.load(w, do_train=True, max_seq_length=64),
    ),
    lambda w: (
      training_cases.load(w, do_train=True),
      training_cases.load(
        w, do_train=True, max_seq_length=64, output_dir=w.path("other")
      ),
    ),
  ),
  Case(
    "model_folder.run_folder check_same_config",
    ("hidden_size", "8", "16"),
    lambda w: same_config(w, hidden_size=8),
    lambda w: same_config(w, "other"),
  ),
  Case(
    "model_folder.run_folder check_labels",
    ("out", "yes", "good", "output_dir"),
    lambda w: (
      run_info.write_labels(w.path("out"), labels(w, "good", "bad")),
      labels(w, "yes", "no"),
    ),
    lambda w: labels(w, "yes", "no", folder="other"),
  ),
  Case(
    "model_folder.run_info read_labels",
    ("label_map.json", "'a'"),
    lambda w: (
      w.write("out/label_map.json", json.dumps(TWICE)),
      run_info.read_labels("out"),
    ),
    lambda w: (
      run_info.read_labels("other"),
      w.folder.joinpath("out", "label_map.json").unlink(),
      run_info.read_labels("out"),
    ),
  ),
)
