"""Advice about text, records, SQuAD's files and plans."""

import json

import h5py
import numpy as np
import tensorflow as tf

from bert_tf.convert import convert, inspect, pretrained
from bert_tf.corpora import corpus, sources, text_config
from bert_tf.data import input_pipeline, pretraining_records, vocabulary
from bert_tf.files import compression, lock
from bert_tf.pipeline import plan, text_steps
from bert_tf.tasks.squad import metrics
from tests.advice import data_cases, fine_tuning_cases, model_cases
from tests.advice.following import Case, Returned, Warned


def evaluated(world, qas_id):
  predictions = world.write("predictions.json", json.dumps({"q": "boat"}))
  metrics.evaluate_files(
    predictions, fine_tuning_cases.squad_file(world, qas_id=qas_id)
  )


def found(world, **values):
  path = world.write("a.xml", "<p>One.</p>")
  sources.find_files(path, text_config.TextConfig(**values), "text")


def planned(world, free=10**12, **values):
  numbers = dict.fromkeys(plan.Plan.__dataclass_fields__, 1)
  numbers |= {"train_seconds": 1000.0, **values}
  plan.Plan(**numbers).check(world.path("out"))


def covered(text):
  words = vocabulary.count_words([text], fine_tuning_cases.tokenizer())
  vocab = {"[UNK]": 0} | {c: i + 1 for i, c in enumerate("abcdefgh")}
  vocab |= {f"##{c}": len(vocab) + i for i, c in enumerate("abcdefgh")}
  text_steps.log_coverage(vocabulary.coverage(vocab, words))


def extracted(world, content):
  path = world.write("wiki.txt", content)
  return list(sources._read_wikiextractor(path))


def parquet_bytes(world, is_utf8):
  import pyarrow as pa
  from pyarrow import parquet as pq

  data = pa.array([b"\xff" if not is_utf8 else b"a"], pa.binary())
  column = pa.Array.from_buffers(pa.string(), 1, data.buffers())
  path = world.path("rows.parquet")
  pq.write_table(pa.table({"text": column}), path)
  return list(sources._read_parquet(path, "text"))


def named_records(world, ids):
  """Raises training's error if a second record has an id above 499."""
  first = data_cases.records(world)
  serialized = [r.numpy() for r in tf.data.TFRecordDataset(first)][:1]
  record = tf.train.Example.FromString(serialized[0])
  record.features.feature["input_ids"].int64_list.value[:] = ids
  path = world.path("two")
  with tf.io.TFRecordWriter(path) as writer:
    for value in (serialized[0], record.SerializeToString()):
      writer.write(value)
  files = input_pipeline.open_records(path)
  spec = pretraining_records.RecordFormat.read(path).spec()
  with input_pipeline.naming_records([(files, spec)], 500, 2):
    if max(ids) >= 500:
      raise tf.errors.InvalidArgumentError(None, None, "an id")


def no_example(world):
  path = world.path("other")
  with tf.io.TFRecordWriter(path) as writer:
    writer.write(b"\xff\xff")
  input_pipeline.first_features(path)


def converted(world, kind, name="bilstm.json", **changes):
  config = model_cases.write_config(world, name, **changes)
  source = pretrained.ModelSource(
    world.copy("encoder"), bert_config_file=config
  )
  return convert.convert(source, "original", world.path(f"{kind}/c"), kind)


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
  with compression.open_file(path) as reader:
    reader.read()


def held(world, name):
  with lock.hold(world.path("out")), lock.hold(world.path(name)):
    pass


CASES = (
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
    "corpora.corpus input_files",
    ("input_file", "pydoc"),
    lambda w: corpus.input_files(" ,"),
    lambda w: corpus.input_files(data_cases.text(w)),
  ),
  Case(
    "corpora.corpus input_files",
    ("pydoc_packages=numpy", "pydoc"),
    lambda w: corpus.input_files(data_cases.text(w), "numpy"),
    lambda w: corpus.input_files(data_cases.text(w)),
  ),
  Case(
    "corpora.corpus _find_files",
    ("folder", "/*"),
    lambda w: (
      data_cases.text(w, "texts/a.txt"),
      corpus.input_files(w.path("texts")),
    ),
    lambda w: corpus.input_files(w.path("texts/*")),
  ),
  Case(
    "corpora.corpus plan_shards",
    ("num_shards", "3", "2"),
    lambda w: corpus.plan_shards([data_cases.text(w, documents=2)], 3),
    lambda w: corpus.plan_shards([data_cases.text(w, documents=2)], 2),
  ),
  Case(
    "corpora.sources _detect_format",
    ("a.xml", "input_format=text"),
    lambda w: found(w),
    lambda w: found(w, input_format="text"),
  ),
  Case(
    "corpora.sources _read_wikiextractor",
    ("wiki.txt:2",),
    lambda w: extracted(w, '<doc title="a">\ntext\n'),
    lambda w: extracted(w, '<doc title="a">\ntext\n</doc>\n'),
  ),
  Case(
    "formats.parquet _open",
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
    "tasks.squad.task read",
    ("data.json", "eval_every_steps", "predict_file"),
    lambda w: fine_tuning_cases.squad_read(
      w,
      fine_tuning_cases.squad_file(w, answers=[]),
      eval_every_steps=1,
      version_2_with_negative=False,
    ),
    lambda w: (
      fine_tuning_cases.squad_read(
        w, fine_tuning_cases.squad_file(w, answers=[])
      ),
      fine_tuning_cases.squad_read(
        w, fine_tuning_cases.squad_file(w), eval_every_steps=1
      ),
    ),
  ),
  Warned(
    "tasks.squad.task read",
    ("data.json", "version_2_with_negative"),
    lambda w: fine_tuning_cases.squad_read(
      w, fine_tuning_cases.squad_file(w, answers=[], is_impossible=True)
    ),
    lambda w: fine_tuning_cases.squad_read(
      w,
      fine_tuning_cases.squad_file(w, answers=[], is_impossible=True),
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
    "pipeline.text_steps log_coverage",
    ("pieces", "spaces"),
    lambda w: covered("abcdefgh"),
    lambda w: covered("a b c d e f g h"),
  ),
  Case(
    "convert.convert convert",
    ("attention_direction", "hf", "to=original"),
    lambda w: converted(w, "hf", attention_direction="left_to_right"),
    lambda w: converted(w, "original", attention_direction="left_to_right"),
  ),
)
