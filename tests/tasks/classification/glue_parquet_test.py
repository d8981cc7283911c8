"""GLUE in Hugging Face's Parquet files, and own data in Parquet."""

import json
import pathlib

import pyarrow as pa
import pytest
from pyarrow import parquet

from bert_tf.checkpoint import run_info
from bert_tf.tasks.classification import config as config_lib
from bert_tf.tasks.classification import glue, layouts, task
from bert_tf.training import config as training_config

SPLITS = ("train", "dev", "test")
TEXTS = [("A film.", "It is a film."), ("so, why ?", "“No”\u2026"), ("x", "y")]
PAIR = ("sentence1", "sentence2")
PREMISE = ("premise", "hypothesis")

NLI = ("entailment", "neutral", "contradiction")
ENTAILMENT = ("entailment", "not_entailment")
QUESTIONS = ("question1", "question2")
QUESTION = ("question", "sentence")
TEXT = ("sentence",)

# The official columns, their labels by Hugging Face's id, and Hugging Face's
# folder and columns: gluebenchmark.com and the card of nyu-mll/glue.
TASKS = {
  "CoLA": (None, ("0", "1"), "cola", TEXT),
  "SST-2": (TEXT, ("0", "1"), "sst2", TEXT),
  "MRPC": (("#1 String", "#2 String"), ("0", "1"), "mrpc", PAIR),
  "STS-B": (PAIR, (3.25, 0.0, 5.0), "stsb", PAIR),
  "QQP": (QUESTIONS, ("0", "1"), "qqp", QUESTIONS),
  "MNLI": (PAIR, NLI, "mnli", PREMISE),
  "MNLI-mm": (PAIR, NLI, "mnli", PREMISE),
  "QNLI": (QUESTION, ENTAILMENT, "qnli", QUESTION),
  "RTE": (PAIR, ENTAILMENT, "rte", PAIR),
  "WNLI": (PAIR, ("0", "1"), "wnli", PAIR),
  "AX": (PAIR, NLI, "ax", PREMISE),
}
LABEL_COLUMNS = {
  "MRPC": "Quality",
  "STS-B": "score",
  "QQP": "is_duplicate",
  "MNLI": "gold_label",
  "MNLI-mm": "gold_label",
}
# Names of Hugging Face's dev and test files.
KINDS = {"MNLI": "_matched", "MNLI-mm": "_mismatched"}


def write_parquet(path, columns, names=None):
  """Writes a table; `names` are the classes of the column label."""
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  table = pa.table(columns)
  if names:
    feature = {"names": names, "_type": "ClassLabel"}
    info = json.dumps({"info": {"features": {"label": feature}}})
    table = table.replace_schema_metadata({"huggingface": info})
  parquet.write_table(table, path)


def label_index(row, split):
  """Returns a label id for a row that differs between the splits."""
  return row + SPLITS.index(split)


def write_official(folder, name):
  """Writes the rows of TEXTS in the official files."""
  columns, labels, *_ = TASKS[name]
  folder.mkdir()
  for split, split_layout in glue.get_task(name).splits.items():
    lines = []
    header = ["index", *(columns or ("sentence",))]
    if split != "test":
      header.append(LABEL_COLUMNS.get(name, "label"))
    for row, texts in enumerate(TEXTS):
      label = str(labels[label_index(row, split) % len(labels)])
      cells = [str(row), *texts[: len(header) - 2 + (split == "test")]]
      if split != "test":
        cells.append(label)
      if name == "CoLA" and split != "test":
        cells = ["gj04", label, "", texts[0]]
      lines.append("\t".join(cells))
    if name != "CoLA" or split == "test":
      lines.insert(0, "\t".join(header))
    (folder / split_layout.files[0]).write_text("\n".join(lines) + "\n")


def write_hugging_face(folder, name):
  """Writes the rows of TEXTS as Hugging Face does."""
  _, labels, data_set, columns = TASKS[name]
  kind = KINDS.get(name, "")
  for split in ("test",) if name == "AX" else SPLITS:
    file = {"dev": f"validation{kind}", "test": f"test{kind}"}.get(split, split)
    ids = [label_index(row, split) % len(labels) for row in range(len(TEXTS))]
    values = [labels[i] for i in ids] if name == "STS-B" else ids
    if split == "test":
      values = [-1] * len(ids)
    write_parquet(
      folder / f"{file}-00000-of-00001.parquet",
      {
        **{column: list(texts) for column, texts in zip(columns, zip(*TEXTS))},
        "label": pa.array(values, pa.float32() if name == "STS-B" else None),
        "idx": pa.array(range(len(ids)), pa.int32()),
      },
    )
  return data_set


def read(folder, name, **changes):
  """Returns the rows of each split, as a run of the command reads them."""
  train = training_config.FineTuningTrainConfig(output_dir="out")
  config = config_lib.ClassificationConfig(
    bert_config_file="",
    vocab_file="",
    train=train,
    do_train=True,
    data_dir=str(folder),
    task_name=name,
    **changes,
  )
  layout = task.file_layout(config)
  labels = layout.labels and run_info.LabelSpec(name, "", layout.labels)
  rows = {
    split: layouts.read_rows(config.data_dir, layout, labels, split)
    for split in layout.splits
  }
  return layout, rows


@pytest.mark.parametrize("name", TASKS)
def test_tsv_and_parquet_of_the_same_rows_give_the_same_examples(
  tmp_path, name
):
  write_official(tmp_path / "tsv", name)
  data_set = TASKS[name][2]
  folder = tmp_path / "glue"
  is_nested = len(name) % 2  # Some in folders of their names.
  write_hugging_face(folder / data_set if is_nested else folder, name)
  official, official_rows = read(tmp_path / "tsv", name)
  layout, rows = read(folder, name)
  assert (layout.file_format, official.file_format) == ("parquet", "tsv")
  assert layout.labels == official.labels
  assert layout.problem_type == official.problem_type
  assert rows.keys() == official_rows.keys()
  for split, expected in official_rows.items():
    parquet_rows = rows[split]
    assert len(expected) == len(TEXTS)
    prefix = layout.splits[split].prefix
    assert parquet_rows == [
      {**row, "id": f"{prefix}-{i}"} for i, row in enumerate(expected)
    ]
  # The server of GLUE takes the same file.
  submission = "MNLI-m.tsv" if name == "MNLI" else f"{name}.tsv"
  assert layout.submission == official.submission == submission
  assert layout.metrics == official.metrics


def test_the_names_of_classes_in_a_file_decide(tmp_path):
  columns = {"premise": ["a", "b", "c"], "hypothesis": ["d", "e", "f"]}
  names = ["contradiction", "entailment", "neutral"]
  for split in ("train", "validation_matched", "test_matched"):
    path = tmp_path / f"{split}.parquet"
    write_parquet(path, {**columns, "label": [2, 0, 1]}, names)
  _, rows = read(tmp_path, "mnli")
  labels = [row["label"] for row in rows["train"]]
  assert labels == ["neutral", "contradiction", "entailment"]


def test_official_files_have_precedence(tmp_path):
  write_official(tmp_path / "RTE", "RTE")
  write_hugging_face(tmp_path / "RTE", "RTE")
  layout, _ = read(tmp_path / "RTE", "RTE")
  assert layout.file_format == "tsv"


def test_own_data_have_the_labels_that_the_file_names(tmp_path):
  for name in ("train-00001-of-00002", "train-00000-of-00002", "validation/0"):
    text = [f"{name} a", f"{name} b"]
    path = tmp_path / f"{name}.parquet"
    write_parquet(path, {"text": text, "label": [1, 0]}, ["bad", "good"])
  write_parquet(tmp_path / "test.parquet", {"text": ["c"]})
  layout, rows = read(tmp_path, "parquet")
  assert [tuple(row.values()) for row in rows["train"]] == [
    ("train-0", "train-00000-of-00002 a", "good"),
    ("train-1", "train-00000-of-00002 b", "bad"),
    ("train-2", "train-00001-of-00002 a", "good"),
    ("train-3", "train-00001-of-00002 b", "bad"),
  ]
  assert [row["label"] for row in rows["dev"]] == ["good", "bad"]
  assert "label" not in rows["test"][0]


def test_lists_of_labels_and_numbers_are_own_data_too(tmp_path):
  columns = {"text": ["a", "b"], "label": [["x", "y"], []], "n": [0.5, 2]}
  for name in ("train", "dev", "test"):
    write_parquet(tmp_path / f"{name}.parquet", columns)
  _, rows = read(tmp_path, "parquet", problem_type="multilabel")
  assert [row["label"] for row in rows["train"]] == [["x", "y"], []]
  _, rows = read(
    tmp_path, "parquet", problem_type="regression", label_column="n"
  )
  assert [row["label"] for row in rows["train"]] == [0.5, 2.0]


# Columns of the training file, and parts of the error.
FAULTS = {
  "a label without meaning": (
    {"sentence1": ["a"], "sentence2": ["b"], "label": [2]},
    (":1: ", "2", "entailment, not_entailment"),
  ),
  "no label": (
    {"sentence1": ["a", "c"], "sentence2": ["b", "d"], "label": [0, -1]},
    (":2: ", "-1"),
  ),
  "null": (
    {"sentence1": pa.array([None], pa.string()), "sentence2": ["b"]}
    | {"label": [1]},
    (":1: ", "sentence1", "None"),
  ),
  "columns of another task": (
    {"question": ["a"], "sentence": ["b"], "label": [1]},
    ("no column 'sentence1'", "question, sentence, label"),
  ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_names_the_file_and_the_column(tmp_path, fault):
  columns, expected = FAULTS[fault]
  path = tmp_path / "train-00000-of-00001.parquet"
  write_parquet(path, columns)
  with pytest.raises(ValueError) as error:
    read(tmp_path, "RTE")
  message = str(error.value)
  assert message.startswith(str(path)) and "\n" not in message
  for part in expected:
    assert part in message
