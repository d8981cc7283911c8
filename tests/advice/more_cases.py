"""Advice about text files, records, SQuAD's files, plans and servers."""

import json
import pathlib
import shutil

import h5py
import numpy as np
import tensorflow as tf

from bert_tf import checkpoints
from bert_tf.cli import serve
from bert_tf.convert import convert, inspect, model_files
from bert_tf.data import (
  corpus,
  input_pipeline,
  pretraining_records,
  sources,
  vocabulary,
)
from bert_tf.export import config as export_config
from bert_tf.files import compression, lock
from bert_tf.pipeline import plan, text_steps
from bert_tf.plots import style
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
from bert_tf.tasks.squad import metrics
from bert_tf.tasks.squad import task as squad
from bert_tf.training import run_dir
from tests import tiny_models
from tests.advice import data_cases, model_cases, training_cases
from tests.advice.following import Case, Returned, Warned

CONFIG = tiny_models.CONFIG
BOAT = [{"text": "boat", "answer_start": 0}]


def masked(world, **values):
  """Returns what `labelled` makes of masked records."""
  return labelled(world, data_cases.records(world), **values)


def labelled(world, path, **values):
  """Chooses what is predicted of records, as pre-training does."""
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
  form = pretraining_records.Form.of(path)
  records = pretraining_records.PretrainingRecords(files, form)
  found = pretraining_objective.labelled(config, records, 500)
  pretraining_objective.check_masking(config, [found])
  return found


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
  config, bert_config, tokenizer = fine_tuning.load(config)
  return config, squad.make_task(config, bert_config, tokenizer)


def squad_read(world, path, **values):
  config, task = squad_task(world, predict_file=path, **values)
  return fine_tuning._read(config, task)


def evaluated(world, qas_id):
  predictions = world.write("predictions.json", json.dumps({"q": "boat"}))
  metrics.evaluate_files(predictions, squad_file(world, qas_id=qas_id))


def planned(world, free=10**12, **values):
  numbers = dict.fromkeys(plan.Plan.__dataclass_fields__, 1)
  numbers |= {"train_seconds": 1000.0, **values}
  plan.Plan(**numbers).check(world.path("out"))


def covered(text):
  words = vocabulary.count_words([text], tokenizer())
  vocab = {"[UNK]": 0} | {c: i + 1 for i, c in enumerate("abcdefgh")}
  vocab |= {f"##{c}": len(vocab) + i for i, c in enumerate("abcdefgh")}
  text_steps.say_coverage(vocabulary.coverage(vocab, words))


def tokenizer():
  from bert_tf import tokenization

  return tokenization.BasicTokenizer()


def drawn(world, width):
  with style.picture(world.path("plot.png"), width=width):
    pass


def folders(*models):
  return serve.CommandConfig(
    model=models,
    server=server_config.ServerConfig(),
    checkpoint=export_config.ModelConfig(init_checkpoint=""),
  ).folders()


def extracted(world, content):
  path = world.write("wiki.txt", content)
  return list(sources._extracted(path))


def parquet_bytes(world, is_utf8):
  import pyarrow as pa
  from pyarrow import parquet as pq

  data = pa.array([b"\xff" if not is_utf8 else b"a"], pa.binary())
  column = pa.Array.from_buffers(pa.string(), 1, data.buffers())
  path = world.path("rows.parquet")
  pq.write_table(pa.table({"text": column}), path)
  from bert_tf.data import parquet

  return list(parquet.texts(path, "text"))


def named_records(world, ids):
  """Reads a second record, of ids, as training does."""
  first = data_cases.records(world)
  serialized = [r.numpy() for r in tf.data.TFRecordDataset(first)][:1]
  record = tf.train.Example.FromString(serialized[0])
  record.features.feature["input_ids"].int64_list.value[:] = ids
  path = world.path("two")
  with tf.io.TFRecordWriter(path) as writer:
    for value in (serialized[0], record.SerializeToString()):
      writer.write(value)
  files = input_pipeline.open_records(path)
  spec = pretraining_records.Form.of(path).spec()
  with input_pipeline.naming_records([(files, spec)], 500, 2):
    if max(ids) >= 500:
      raise tf.errors.InvalidArgumentError(None, None, "an id")


def no_example(world):
  path = world.path("other")
  with tf.io.TFRecordWriter(path) as writer:
    writer.write(b"\xff\xff")
  input_pipeline.first_features(path)


def other_vocabulary(world, output_dir):
  run = world.copy("encoder")
  lines = pathlib.Path(run, "vocab.txt").read_text().split()
  other = world.write("other.txt", "\n".join(reversed(lines)))
  info = run_dir.run_info.RunInfo(task="encoder")
  target = run if output_dir is None else world.path(output_dir)
  run_dir._check_same_run(target, info, CONFIG, other)


def converted(world, kind, name="bilstm.json", **changes):
  config = model_cases.write_config(world, name, **changes)
  source = model_files.Source(world.copy("encoder"), bert_config_file=config)
  return convert.convert(source, "original", world.path(f"{kind}/c"), kind)


def adapter_start(world, **values):
  """Checks the start of a tagger that is trained on features."""
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
  task = ner.make_task(*fine_tuning.load(config))
  fine_tuning._check_start(task, config.train, True)


def values_elsewhere(world, name):
  path = world.path("bert.weights.h5")
  with h5py.File(path, "w") as file:
    file["a"] = np.zeros(3)
    if name == "link":
      file["b"] = h5py.ExternalLink("other.h5", "b")
  inspect.open_tensors(path)


def compressed(world, size):
  import gzip

  path = world.write("text.txt.gz", gzip.compress(b"a text\n" * 99)[:size])
  with compression.opened(path) as reader:
    reader.read()


def held(world, name):
  with lock.hold(world.path("out")), lock.hold(world.path(name)):
    pass


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
  """Returns a checkpoint of a run whose answers overflow."""
  run(world, "out", do_train=True)
  newest = checkpoints.latest(world.path("out"))
  reader = checkpoints.CheckpointReader(newest)
  tensors = {name: reader.get(name) for name in reader.shapes}
  weights = tensors["output_weights"]
  tensors["output_weights"] = np.full_like(weights, 3e38) * np.sign(weights)
  shutil.copytree(world.path("out"), world.path("huge"))
  path = world.path(f"huge/{pathlib.Path(newest).name}")
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
      init_checkpoint=checkpoints.latest(w.path("out")),
    ),
  ),
  Returned(
    "convert.inspect _not_there",
    ("bert.weights.h5", "b"),
    lambda w: values_elsewhere(w, "link"),
    lambda w: values_elsewhere(w, "whole"),
  ),
  Returned(
    "files.compression _damaged",
    ("text.txt.gz",),
    lambda w: compressed(w, 20),
    lambda w: compressed(w, None),
  ),
  Returned(
    "files.lock _in_use",
    ("out", "output_dir"),
    lambda w: held(w, "out"),
    lambda w: (held(w, "other"), lock.hold(w.path("out")).__enter__()),
  ),
  Returned(
    "convert.extend_vocab _fault",
    ("##zebra", "whole"),
    lambda w: model_cases.extend(w, ["##zebra"], method="grow"),
    lambda w: model_cases.extend(w, ["zebra"], method="grow"),
  ),
  Returned(
    "convert.extend_vocab _fault",
    ("new-york", "new - york"),
    lambda w: model_cases.extend(w, ["new-york"], method="grow"),
    lambda w: model_cases.extend(w, ["zebra", "yorkish"], method="grow"),
  ),
  Case(
    "data.corpus input_files",
    ("input_file", "pydoc"),
    lambda w: corpus.input_files(" ,"),
    lambda w: corpus.input_files(data_cases.text(w)),
  ),
  Case(
    "data.corpus input_files",
    ("pydoc_packages=numpy", "pydoc"),
    lambda w: corpus.input_files(data_cases.text(w), "numpy"),
    lambda w: corpus.input_files(data_cases.text(w)),
  ),
  Case(
    "data.corpus _matches",
    ("folder", "/*"),
    lambda w: (
      data_cases.text(w, "texts/a.txt"),
      corpus.input_files(w.path("texts")),
    ),
    lambda w: corpus.input_files(w.path("texts/*")),
  ),
  Case(
    "data.corpus plan_shards",
    ("num_shards", "3", "2"),
    lambda w: corpus.plan_shards([data_cases.text(w, documents=2)], 3),
    lambda w: corpus.plan_shards([data_cases.text(w, documents=2)], 2),
  ),
  Case(
    "data.sources _extracted",
    ("wiki.txt:2",),
    lambda w: extracted(w, '<doc title="a">\ntext\n'),
    lambda w: extracted(w, '<doc title="a">\ntext\n</doc>\n'),
  ),
  Case(
    "data.parquet texts",
    ("rows.parquet", "text"),
    lambda w: parquet_bytes(w, False),
    lambda w: parquet_bytes(w, True),
  ),
  Case(
    "data.input_pipeline first_features",
    ("other", "create_pretraining_data.py"),
    no_example,
    lambda w: input_pipeline.first_features(data_cases.records(w)),
  ),
  Case(
    "data.input_pipeline naming_records",
    ("two", "record 1"),
    lambda w: named_records(w, [500] * 16),
    lambda w: named_records(w, [499] * 16),
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
    ("mask_prob", "objective=ltr"),
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
    "tasks.fine_tuning _read",
    ("do_predict", "predict_file"),
    lambda w: squad_read(w, None),
    lambda w: squad_read(w, squad_file(w)),
  ),
  Case(
    "tasks.fine_tuning _check_start",
    ("lora_adapter",),
    lambda w: adapter_start(w, lora_adapter="a"),
    adapter_start,
  ),
  Case(
    "tasks.squad.task read",
    ("data.json", "eval_every_steps", "predict_file"),
    lambda w: squad_read(
      w,
      squad_file(w, answers=[]),
      eval_every_steps=1,
      version_2_with_negative=False,
    ),
    lambda w: (
      squad_read(w, squad_file(w, answers=[])),
      squad_read(w, squad_file(w), eval_every_steps=1),
    ),
  ),
  Warned(
    "tasks.squad.task read",
    ("data.json", "version_2_with_negative"),
    lambda w: squad_read(w, squad_file(w, answers=[], is_impossible=True)),
    lambda w: squad_read(
      w,
      squad_file(w, answers=[], is_impossible=True),
      version_2_with_negative=True,
    ),
  ),
  Case(
    "tasks.squad.metrics evaluate_files",
    ("predictions.json", "data.json"),
    lambda w: evaluated(w, "p"),
    lambda w: evaluated(w, "q"),
  ),
  Case(
    "pipeline.plan check",
    ("10", "train_hours", "size"),
    lambda w: planned(w, train_seconds=10.0),
    lambda w: (
      planned(w, train_seconds=100.0),
      planned(w, train_seconds=10.0, step_seconds=0.1),
    ),
  ),
  Case(
    "pipeline.plan check",
    ("out", "output_dir"),
    lambda w: planned(w, record_bytes=10**18),
    planned,
  ),
  Warned(
    "pipeline.text_steps say_coverage",
    ("pieces", "spaces"),
    lambda w: covered("abcdefgh"),
    lambda w: covered("a b c d e f g h"),
  ),
  Case(
    "plots.style picture",
    ("10",),
    lambda w: drawn(w, 10),
    lambda w: drawn(w, style._MIN_PANEL_WIDTH),
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
    "training.run_dir _check_same_run",
    ("vocab.txt", "output_dir"),
    lambda w: other_vocabulary(w, None),
    lambda w: other_vocabulary(w, "new"),
  ),
  Case(
    "convert.convert convert",
    ("attention_direction", "hf", "to=original"),
    lambda w: converted(w, "hf", attention_direction="left_to_right"),
    lambda w: converted(w, "original", attention_direction="left_to_right"),
  ),
)
