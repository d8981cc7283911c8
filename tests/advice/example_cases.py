"""Advice about examples, labels, texts and outputs."""

import pathlib

import numpy as np
import pandas as pd

from bert_tf.corpora import corpus
from bert_tf.data import config as data_config
from bert_tf.data import pretraining_shards
from bert_tf.files import atomic
from bert_tf.inference import question_answering
from bert_tf.tasks.classification import examples
from bert_tf.tasks.ner import examples as ner_examples
from tests.advice import data_cases, python_cases, training_cases
from tests.advice.following import Case, Returned, Warned


def tagged(world, text, **values):
  path = world.write("words.txt", text)
  ner_examples.read_sentences(path, ner_examples.FileFormat(**values))


def label(value):
  layout = examples.own_files("jsonl", "multilabel", "text", None, "label")
  examples.read_label(value, layout)


def labelled(world, train, dev):
  for name, labels in (("train", train), ("dev", dev)):
    rows = "".join(f"a,{label}\n" for label in labels)
    world.write(f"{name}.csv", f"text,label\n{rows}")
  training_cases.read(world, do_train=True, do_eval=True)


def answered(has_negatives, answer):
  answerer = question_answering.QuestionAnswerer.__new__(
    question_answering.QuestionAnswerer
  )

  class Task:
    class decoding_config:
      version_2_with_negative = has_negatives

  row = {"question": "What?", "context": "a boat"}
  answerer._examples(Task(), "train", [row], [answer])


def changed(world, content):
  """Plans shards, replaces the text unless None, and reads a shard."""
  path = data_cases.text(world, documents=2)
  first, _ = corpus.plan_shards([path], 2)
  if content is not None:
    world.write("text.txt", content)
  list(corpus.shard_documents(first))


def make_records(world, is_text):
  """Makes records of long lines; if `is_text`, splits them into sentences."""
  line = "the boat is old . " * 9
  path = world.write("long.txt", f"{line}\n{line}\n\n{line}\n{line}\n")
  if is_text:
    sentences = pathlib.Path(path).read_text().replace(". ", ".\n")
    path = world.write("split.txt", sentences)
  config = data_config.PretrainingDataConfig(
    vocab_file=data_cases.VOCAB_FILE,
    max_seq_length=16,
    dupe_factor=1,
    masking_config=data_cases.masking.MaskingConfig(max_predictions_per_seq=2),
  )
  pretraining_shards.create(config, [path], world.path("records"))


CASES = (
  Case(
    "corpora.corpus _read_span",
    ("text.txt", "byte"),
    lambda w: changed(w, "a .\n"),
    lambda w: changed(w, None),
  ),
  Case(
    "corpora.corpus _read_span",
    ("text.txt", "UTF-8"),
    lambda w: changed(w, b"\xff\n" * 99),
    lambda w: changed(w, None),
  ),
  Warned(
    "data.pretraining_shards _warn_of_long_lines",
    ("4 of 4", "max_seq_length 16", "--input_format=text"),
    lambda w: make_records(w, is_text=False),
    lambda w: make_records(w, is_text=True),
  ),
  Case(
    "files.atomic check_writable",
    ("file/out", "output_dir"),
    lambda w: atomic.check_writable(
      w.write("file", "") + "/out", "output_dir", True
    ),
    lambda w: atomic.check_writable(w.path("out"), "output_dir", True),
  ),
  Case(
    "inference.classifier _label_list",
    ("2-D", "list", "DataFrame"),
    lambda w: python_cases.untrained(w)._label_list(np.array([[1, 0]])),
    lambda w: (
      python_cases.untrained(w)._label_list([["a"]]),
      python_cases.untrained(w)._label_list(pd.DataFrame({"a": [1], "b": [0]})),
    ),
  ),
  Case(
    "inference.question_answering _examples",
    ("row 0", "version_2_with_negative"),
    lambda w: answered(False, None),
    lambda w: (answered(True, None), answered(False, "boat")),
  ),
  Returned(
    "model_folder.run_info from_data",
    ("dev.csv:2", "'bad'", "train.csv"),
    lambda w: labelled(w, ["good", "so so"], ["bad"]),
    lambda w: (
      labelled(w, ["good", "so so"], ["good"]),
      labelled(w, ["good", "so so", "bad"], ["bad"]),
    ),
  ),
  Case(
    "tasks.classification.examples _check_cell",
    ("['a', 'b']", ";"),
    lambda w: label("['a', 'b']"),
    lambda w: label("a;b"),
  ),
  Case(
    "tasks.classification.examples _class",
    ("None",),
    lambda w: label([None]),
    lambda w: [label([value]) for value in ("a", 1, True)],
  ),
  Case(
    "tasks.classification.examples _classes",
    ("'a'",),
    lambda w: label(["a", "b", "a"]),
    lambda w: label(["a", "b"]),
  ),
  Case(
    "tasks.ner.examples _check_scheme",
    ("words.txt:2", "I-X", "tag_scheme"),
    lambda w: tagged(w, "a O\nb I-X\n", tag_scheme="iob2"),
    lambda w: (
      tagged(w, "a O\nb B-X\n", tag_scheme="iob2"),
      tagged(w, "a O\nb I-X\n"),
    ),
  ),
  Case(
    "tasks.ner.examples _word_and_tag",
    ("words.txt:1", "tag_column 3"),
    lambda w: tagged(w, "a X O\n", tag_column=3),
    lambda w: [tagged(w, "a X O\n", tag_column=n) for n in (2, -1)],
  ),
)
