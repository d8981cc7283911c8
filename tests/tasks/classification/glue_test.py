"""GLUE and XNLI: the original's recordings, published numbers, faults."""

import dataclasses
import json

import pytest
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.checkpoint import run_info
from bert_tf.tasks.classification import glue
from bert_tf.tasks.classification.config import ClassificationConfig
from tests.support import setups

RECORDED = ("CoLA", "MRPC", "MNLI", "XNLI")
PARTS = ("train", "dev", "test")
FILES = dict(
  zip(PARTS, ("train.tf_record", "eval.tf_record", "predict.tf_record"))
)


def read(folder, source, part="train"):
  labels = source.labels and run_info.LabelSpec(
    source.name, source.problem_type, source.labels
  )
  source = dataclasses.replace(source, data_dir=str(folder))
  return source.read(part, labels)


@pytest.mark.parametrize("name", RECORDED)
def test_examples_and_labels_are_the_originals(shared, name):
  recorded = json.loads(
    (shared / "golden/classifier" / f"{name.lower()}_examples.json").read_text()
  )
  task = glue.get_task(name)
  assert list(task.labels) == recorded["labels"]
  for part, rows in recorded["examples"].items():
    if name == "XNLI" and part == "test":
      assert "test" not in task.splits
      continue
    read_rows = read(shared / "golden/classifier/data" / name, task, part)
    # The original gave test examples the first label.
    assert [
      [row["id"], row["text"], row.get("text_b")]
      + [row.get("label", task.labels[0])]
      for row in read_rows
    ] == rows


@pytest.fixture(scope="module")
def tokenizer(unpacked):
  path = unpacked("vocab") / "bert_base_uncased_vocab.txt"
  return tokenization.FullTokenizer(str(path), do_lower_case=True)


def read_records(path):
  return list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())


def parsed(records, spec):
  values = tf.io.parse_example(tf.constant(records), spec)
  return {name: value.numpy().tolist() for name, value in values.items()}


@pytest.mark.parametrize("max_seq_length", [32, 128])
@pytest.mark.parametrize("name", RECORDED)
def test_features_are_the_originals(
  shared, tokenizer, tmp_path, name, max_seq_length
):
  layout = glue.get_task(name)
  task = setups.make(
    ClassificationConfig,
    tokenizer,
    max_seq_length,
    task_name=name,
    data_dir="",
  )
  for part in PARTS[: 2 if name == "XNLI" else 3]:
    rows = read(shared / "golden/classifier/data" / name, layout, part)
    data = setups.encode(task, rows, tmp_path, part)
    ours, spec = read_records(tmp_path / FILES[part]), data.spec
    file = f"{name.lower()}_{part}_seq{max_seq_length}.tf_record"
    path = str(shared / "golden/classifier" / file)
    recorded = read_records(path)
    # Recorded as on a TPU: padded to whole batches of eight.
    padding = parsed(recorded[len(ours) :], spec) if part == "dev" else {}
    assert not any(sum(padding.get("is_real_example", []), []))
    assert len(recorded) - len(ours) in range(8 if part == "dev" else 1)
    assert parsed(ours, spec) == parsed(recorded[: len(ours)], spec)


# Rows of the official files: Wang et al. 2019, table 1, and the diagnostic
# set; None where the archive has only a part.
OFFICIAL_ROWS = {
  "CoLA": (8551, 1043, 1063),
  "SST-2": (67349, 872, 1821),
  "MRPC": (3668, 408, 1725),
  "STS-B": (5749, 1500, 1379),
  "MNLI": (None, 9815, None),
  "QNLI": (None, 5463, 5463),
  "RTE": (2490, 277, 3000),
  "WNLI": (635, 71, 146),
  "AX": (None, None, 1104),
}


@pytest.mark.parametrize("name", OFFICIAL_ROWS)
def test_every_row_of_the_official_files_is_read(unpacked, name):
  folder = unpacked("glue") / ("diagnostic" if name == "AX" else name)
  task = glue.get_task(name)
  for part, num_rows in zip(PARTS, OFFICIAL_ROWS[name]):
    if num_rows:
      rows = read(folder, task, part)
      assert len(rows) == num_rows
      assert len({row["id"] for row in rows}) == num_rows
      has_labels = part != "test"
      assert all(("label" in row) == has_labels for row in rows)


def test_xnli_reads_the_requested_language(tmp_path):
  (tmp_path / "multinli").mkdir()
  (tmp_path / "multinli" / "multinli.train.de.tsv").write_text(
    "premise\thypo\tlabel\nja\tnein\tcontradictory\n"
  )
  (tmp_path / "xnli.dev.tsv").write_text(
    "language\tgold_label\tsentence1\tsentence2\n"
    "en\tneutral\tone\ttwo\nde\tentailment\teins\tzwei\n"
  )
  task = glue.get_task("xnli", "de")
  names = ("id", "text", "text_b", "label")
  for part, *expected in (
    ("train", "train-1", "ja", "nein", "contradiction"),
    ("dev", "dev-2", "eins", "zwei", "entailment"),
  ):
    assert read(tmp_path, task, part) == [dict(zip(names, expected))]
  with pytest.raises(ValueError, match="no examples with language 'zh'"):
    read(tmp_path, glue.get_task("xnli"), "dev")


def test_an_unknown_task_is_refused_with_the_known_tasks():
  with pytest.raises(ValueError, match="'sst' is not one of cola, sst-2"):
    glue.get_task("sst")


RTE_HEADER = "index\tsentence1\tsentence2\tlabel\n"
# (task, training file, part of the error).
FAULTS = [
  ("rte", RTE_HEADER, "train.tsv holds no example"),
  ("rte", RTE_HEADER + "1\tc\td\n", "train.tsv:2: 3 columns instead of 4"),
  (
    "rte",
    RTE_HEADER + "0\ta\tb\tneutral\n",
    "train.tsv:2: label 'neutral' is not one of entailment, not_entailment",
  ),
  (
    "sts-b",
    "sentence1\tsentence2\tscore\na\tb\t5.2\n",
    "train.tsv:2: label '5.2' is not a number from 0.0 to 5.0",
  ),
]


@pytest.mark.parametrize(("name", "content", "expected"), FAULTS)
def test_an_error_names_file_line_and_value(tmp_path, name, content, expected):
  (tmp_path / "train.tsv").write_text(content)
  with pytest.raises(ValueError) as error:
    read(tmp_path, glue.get_task(name))
  assert f"{tmp_path}/{expected}" in str(error.value)
