"""Advice about fine-tuning, its data and the server's flags."""

import json
import pathlib

import numpy as np

from bert_tf import checkpoints
from bert_tf.cli import serve
from bert_tf.data import (
  input_pipeline,
  pretraining_records,
)
from bert_tf.export import config as export_config
from bert_tf.model_folder import run_folder, run_info
from bert_tf.server import config as server_config
from bert_tf.tasks import (
  fine_tuning,
  pretraining,
  pretraining_config,
  pretraining_objective,
)
from bert_tf.tasks.classification import task as classification
from bert_tf.tasks.ner import config as ner_config
from bert_tf.tasks.ner import task as ner
from bert_tf.tasks.squad import config as squad_config
from bert_tf.tasks.squad import task as squad
from tests.advice import data_cases, training_cases
from tests.advice.following import Case, Returned
from tests.support import tiny_models

CONFIG = tiny_models.CONFIG
BOAT = [{"text": "boat", "answer_start": 0}]


def masked(world, **values):
  """Calls `labelled` with masked records."""
  return labelled(world, data_cases.records(world), **values)


def labelled(world, path, **values):
  """Chooses the masked positions of records, as pre-training does."""
  values = {"objective": "mlm", **values}
  config = training_cases.build(
    world,
    pretraining_config.PretrainingConfig,
    input_file=path,
    max_seq_length=16,
    max_predictions_per_seq=2,
    **values,
  )
  files = input_pipeline.open_records(path)
  form = pretraining_records.RecordFormat.read(path)
  records = pretraining_records.PretrainingRecords(files, form)
  labelled = pretraining_objective.labelled(config, records, 500)
  pretraining_objective.check_masking(config, [labelled])
  return labelled


def phases(world, pack, group):
  path = data_cases.records(world, f"pack{pack}", pack_sequences=pack)
  config = training_cases.build(
    world,
    pretraining_config.PretrainingConfig,
    input_file=path,
    max_seq_length=16,
    max_predictions_per_seq=2,
    group_by_length=group,
    objective="mlm",
  )
  pretraining._phases(config, CONFIG)


def squad_file(world, name="data.json", answers=BOAT, qas_id="q", **question):
  question = {"id": qas_id, "question": "What?", "answers": answers, **question}
  paragraph = {"context": "boat", "qas": [question]}
  data = [{"title": "t", "paragraphs": [paragraph]}]
  return world.write(name, json.dumps({"version": "x", "data": data}))


def squad_task(world, **values):
  config = training_cases.build(
    world,
    squad_config.SquadConfig,
    **{
      "do_predict": True,
      "max_seq_length": 100,
      "doc_stride": 16,
      **values,
    },
  )
  setup = fine_tuning.load(config)
  return setup, squad.make_task(setup)


def squad_read(world, path, **values):
  return fine_tuning._read(*squad_task(world, predict_file=path, **values))


def tokenizer():
  from bert_tf import tokenization

  return tokenization.BasicTokenizer()


def folders(*models):
  return serve.CommandConfig(
    model=models,
    server=server_config.ServerConfig(),
    checkpoint=export_config.ModelConfig(init_checkpoint=""),
  ).folders()


def other_vocabulary(world, output_dir):
  run = world.copy("encoder")
  lines = pathlib.Path(run, "vocab.txt").read_text().split()
  other = world.write("other.txt", "\n".join(reversed(lines)))
  target = run if output_dir is None else world.path(output_dir)
  info = run_info.RunInfo(task="encoder")
  run_folder.RunFolder(target, "encoder").prepare(info, CONFIG, other)


def adapter_start(world, **values):
  """Prepares a feature-based NER run, which checks its initial weights."""
  config = training_cases.build(
    world,
    ner_config.NerConfig,
    **{
      "data_dir": str(world.folder),
      "do_train": True,
      "approach": "features",
      "feature_layers": "last",
      "init_checkpoint": world.model("encoder"),
      **values,
    },
  )
  setup = fine_tuning.load(config)
  fine_tuning._with_start(setup, ner.make_task(setup), config.train)


def run(world, output_dir, **values):
  """Runs a classifier from the encoder, for 4 steps if it trains."""
  values = {"init_checkpoint": world.model("encoder"), **values}
  return classification.run(
    training_cases.texts(
      world,
      output_dir=world.path(output_dir),
      max_seq_length=16,
      num_train_epochs=2.0,
      **values,
    )
  )


def huge(world):
  """Returns the checkpoint of a classifier whose logits overflow."""
  world.write("dev.csv", "text,label\na,good\n")
  path = world.copy("classifier") + "/model.ckpt-1"
  reader = checkpoints.CheckpointReader(path)
  tensors = {name: reader.get(name) for name in reader.shapes}
  weights = tensors["output_weights"]
  tensors["output_weights"] = np.full_like(weights, 3e38) * np.sign(weights)
  checkpoints.write(path, tensors)
  return path


CASES = (
  Returned(
    "training.divergence _error",
    ("checkpoint", "learning_rate"),
    lambda w: run(w, "out", do_train=True, learning_rate=1e30),
    lambda w: run(w, "out", do_train=True, learning_rate=1e-3),
  ),
  Case(
    "training.estimator evaluate",
    ("init_checkpoint", "output_dir"),
    lambda w: run(w, "eval", do_eval=True, init_checkpoint=huge(w)),
    lambda w: run(
      w,
      "eval2",
      do_eval=True,
      init_checkpoint=w.model("classifier"),
    ),
  ),
  Case(
    "tasks.pretraining _phases",
    ("packTrue", "group_by_length"),
    lambda w: phases(w, True, True),
    lambda w: (phases(w, True, False), phases(w, False, True)),
  ),
  Case(
    "tasks.pretraining_objective labelled",
    ("data", "objective=ltr", "--nomask"),
    lambda w: masked(w, objective="ltr"),
    lambda w: labelled(w, data_cases.unmasked(w), objective="ltr"),
  ),
  Case(
    "tasks.pretraining_objective labelled",
    ("unmasked", "vocab_file"),
    lambda w: labelled(w, data_cases.unmasked(w)),
    lambda w: labelled(
      w, data_cases.unmasked(w), vocab_file=data_cases.VOCAB_FILE
    ),
  ),
  Case(
    "tasks.pretraining_objective check_masking",
    ("mask_prob", "`ltr`"),
    lambda w: labelled(
      w, data_cases.unmasked(w), objective="ltr", mask_prob=0.8
    ),
    lambda w: labelled(w, data_cases.unmasked(w), objective="ltr"),
  ),
  Case(
    "tasks.pretraining_objective check_masking",
    ("mask_prob", "data", "mask=False"),
    lambda w: masked(w, mask_prob=0.8),
    lambda w: (
      masked(w),
      labelled(
        w,
        data_cases.unmasked(w),
        mask_prob=0.8,
        vocab_file=data_cases.VOCAB_FILE,
      ),
    ),
  ),
  Case(
    "tasks.splits read",
    ("do_predict", "predict_file"),
    lambda w: squad_read(w, None),
    lambda w: squad_read(w, squad_file(w)),
  ),
  Case(
    "tasks.fine_tuning _with_start",
    ("lora_adapter",),
    lambda w: adapter_start(w, lora_adapter="a"),
    adapter_start,
  ),
  Case(
    "cli.serve folders",
    ("--model=a", "NAME=a"),
    lambda w: folders("a", "b=c"),
    lambda w: folders("name=a", "b=c"),
  ),
  Case(
    "cli.serve folders",
    ("x", "'a'"),
    lambda w: folders("a=x", "a=y"),
    lambda w: folders("a=x", "b=y"),
  ),
  Case(
    "server.config check_model_name",
    ("a/b",),
    lambda w: server_config.check_model_name("a/b"),
    lambda w: server_config.check_model_name("ab"),
  ),
  Case(
    "model_folder.run_folder _check_vocab",
    ("vocab.txt", "output_dir"),
    lambda w: other_vocabulary(w, None),
    lambda w: other_vocabulary(w, "new"),
  ),
)
