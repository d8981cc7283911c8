"""A user's own files: formats, labels, faults, rows that are held out."""

import collections
import csv
import dataclasses
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import sources
from bert_tf.tasks.classification.config import FILE_FORMATS
from tests.support import own_classification, runs
from tests.support.own_classification import make_source

base = own_classification.base

ROWS = [
  ("good, really", "yes", "2"),
  ('a "quoted" word', "no\u2028no", "1"),
  ("ça et là", "中文", "10"),
]
COLUMNS = ("text_a_column", "text_b_column", "label_column")


def read(folder, split="train", **fields):
  return make_source(folder, **fields).read(split, None)


def write_own(folder, file_format, names):
  """Writes ROWS as train.* in a format, without a header if names is None."""
  rows = [names, *ROWS] if names else ROWS
  path = folder / f"train.{file_format}"
  if file_format == "parquet":
    parquet.write_table(pa.table(dict(zip(names, zip(*ROWS)))), path)
    return
  with path.open("w", newline="", encoding="utf-8") as writer:
    if file_format == "jsonl":
      for row in ROWS:
        value = dict(zip(names, row))
        writer.write(json.dumps({**value, "y": int(row[2])}) + "\n")
    elif file_format == "csv":
      csv.writer(writer).writerows(rows)
    else:
      writer.write("".join("\t".join(row) + "\r\n" for row in rows))


@pytest.mark.parametrize(
  "file_format,names",
  [
    *((file_format, ("first", "second", "y")) for file_format in FILE_FORMATS),
    ("tsv", None),
    ("csv", None),
  ],
)
def test_own_files_read_the_same_in_every_format(tmp_path, file_format, names):
  write_own(tmp_path, file_format, names)
  columns = dict(zip(COLUMNS, names or ("0", "1", "2")))
  rows = read(tmp_path, file_format=file_format, **columns)
  assert [(row["text"], row["text_b"], row["label"]) for row in rows] == ROWS


# A cell of text or a value of JSON, and the labels that it holds.
LABELS = [
  ("x|y", ["x", "y"]),
  ("", []),
  ("[x]|[y]", ["[x]", "[y]"]),
  ("10|01", ["10", "01"]),
  (["x", "y"], ["x", "y"]),
  ([], []),
  # None: the value is refused. A multi-hot list would be taken for labels.
  *((value, None) for value in ("1|0|1", [1, 0, 0], ["x", "y", "x"])),
  *((value, None) for value in ([True, False, True], [1.0, 0.0, 1.0])),
]


@pytest.mark.parametrize(("value", "labels"), LABELS)
def test_multilabel_cells_hold_any_number_of_names(tmp_path, value, labels):
  (tmp_path / "train.tsv").write_text(f"text\tlabel\na\t{value}\n")
  line = json.dumps({"text": "a", "label": value})
  (tmp_path / "train.jsonl").write_text(f"\n{line}\n")
  file_format = "tsv" if isinstance(value, str) else "jsonl"
  fields = {"file_format": file_format, "problem_type": "multilabel"}
  if labels is None:
    with pytest.raises(ValueError, match=f"{file_format}:2: label .*label"):
      read(tmp_path, **fields)
  else:
    (row,) = read(tmp_path, **fields)
    assert row["label"] == labels


def write_parquet(path, columns, names=None):
  """Writes a table; `names` are the classes of the column label."""
  table = pa.table(columns)
  if names:
    feature = {"names": names, "_type": "ClassLabel"}
    info = json.dumps({"info": {"features": {"label": feature}}})
    table = table.replace_schema_metadata({"huggingface": info})
  parquet.write_table(table, path)


def test_labels_of_parquet_are_names_lists_and_numbers(tmp_path):
  path, fields = tmp_path / "train.parquet", {"file_format": "parquet"}
  columns = {"text": ["a", "b"], "label": [1, 0], "n": [0.5, 2]}
  write_parquet(path, columns, ["bad", "good"])
  assert read(tmp_path, **fields) == [
    {"id": "train-0", "text": "a", "label": "good"},
    {"id": "train-1", "text": "b", "label": "bad"},
  ]
  fields["problem_type"] = "regression"
  rows = read(tmp_path, **fields, label_column="n")
  assert [row["label"] for row in rows] == [0.5, 2.0]
  write_parquet(path, {"text": ["a", "b"], "label": [["x", "y"], []]})
  rows = read(tmp_path, **{**fields, "problem_type": "multilabel"})
  assert [row["label"] for row in rows] == [["x", "y"], []]
  # A test file may lack labels.
  write_parquet(tmp_path / "test.parquet", {"text": ["c"]})
  assert read(tmp_path, "test", **fields) == [{"id": "test-0", "text": "c"}]


# A format, the content of the training file, and a part of the error.
FAULTS = [
  *(
    ("jsonl", f'{{"text": "a", "label": {label}}}\n', "train.jsonl:1: ")
    for label in ("null", "NaN", "Infinity", '"\\ud83d"')
  ),
  ("jsonl", '{"text": 5, "label": 1}', "jsonl:1: 5 is not a text (column 'te"),
  ("csv", "text;label\n ;1\n", "train.csv:2: the text is empty"),
  ("csv", "words;label\na;1\n", "has no column 'text' (`text_a_column`)"),
  ("tsv", "text\tlabel\n\udcff\t1\n", "train.tsv:2: not UTF-8"),
  ("parquet", {"text": ["a", None], "label": [0, 1]}, ":2: None is not a text"),
  ("parquet", {"text": ["a"], "label": [None]}, ":1: label None"),
  ("parquet", {"words": ["a"], "label": [1]}, "no column 'text' (`text_a_col"),
]


@pytest.mark.parametrize(("file_format", "content", "expected"), FAULTS)
def test_an_error_names_file_line_and_value(
  tmp_path, file_format, content, expected
):
  path = tmp_path / f"train.{file_format}"
  if isinstance(content, dict):
    write_parquet(path, content)
  else:
    path.write_bytes(content.encode(errors="surrogateescape"))
  with pytest.raises(ValueError) as error:
    read(tmp_path, file_format=file_format)
  assert str(error.value).startswith(f"{tmp_path}/")
  assert expected in str(error.value)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize(
  ("file_format", "text", "label", "expected"),
  [
    ("tsv", "text", "1", "names or"),
    ("jsonl", "0", "1", "names or"),
    ("tsv", "", "label", "cannot be empty"),
    ("tsv", "text", "", "cannot be empty"),
  ],
)
def test_columns_are_all_names_or_all_numbers(
  file_format, text, label, expected
):
  with pytest.raises(ValueError, match=expected):
    make_source("", file_format, text_a_column=text, label_column=label)


@settings(max_examples=100, deadline=None)
@given(
  st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abcd")), min_size=1),
  st.floats(0.05, 0.9),
  st.integers(0, 9),
)
def test_the_same_fraction_of_each_label_is_held_out(pairs, fraction, seed):
  rows = [{"text": str(i), "label": label} for i, label in pairs]
  dev = sources.choose_dev_rows(rows, fraction, seed)
  assert dev == sorted(set(dev))
  assert dev == sources.choose_dev_rows(rows, fraction, seed)
  train = [row for i, row in enumerate(rows) if i not in dev]
  held_out = [rows[i] for i in dev]
  # Every label keeps an example to train on, and no text is in both parts.
  labels = {row["label"] for row in train}
  assert labels == {row["label"] for row in rows}
  assert {r["text"] for r in train}.isdisjoint(r["text"] for r in held_out)
  # One of each label, and copies, cannot be held out.
  copies = collections.Counter(row["text"] for row in rows)
  num_free = sum(copies[row["text"]] == 1 for row in rows)
  wanted = max(1, round(fraction * len(rows)))
  assert min(wanted, num_free - len(labels)) <= len(dev) <= wanted
  if num_free == len(rows) and len(dev) == wanted:
    for label in labels:
      num = sum(row["label"] == label for row in rows)
      num_dev = sum(row["label"] == label for row in held_out)
      free = len(rows) - len(labels)
      assert abs(num_dev - wanted * (num - 1) / free) <= 1


@pytest.mark.parametrize(
  "labels",
  [
    [0.1, 0.5, 2.0, 3.0, 4.0],  # A regression.
    [["x"], ["y"], ["x", "y"], ["x"]],  # Multilabel.
  ],
)
def test_rows_without_a_single_class_are_held_out(labels):
  rows = [{"text": str(i), "label": x} for i, x in enumerate(labels)]
  for seed in range(5):
    assert len(sources.choose_dev_rows(rows, 0.1, seed)) == 1


def make(folder, output_dir, **changes):
  data_file = folder / "reviews.csv"
  if not data_file.exists():
    rows = enumerate(own_classification.rows(40))
    lines = [f"{text} {i};{label}" for i, (text, label) in rows]
    data_file.write_text("\n".join(["text;label", *lines]))
  return own_classification.make(
    folder,
    output_dir,
    task_name=None,
    data_dir=None,
    do_train=True,
    do_eval=True,
    **{"data_file": str(data_file), **changes},
  )


def test_a_data_file_is_read_once(base, tmp_path):
  source = sources.own_source(make(base, tmp_path / "out"))
  train = source.read("train", None)
  (base / "reviews.csv").unlink()
  assert len(train) + len(source.read("dev", None)) == 40


def test_a_file_is_split_and_a_later_command_keeps_the_split(base, tmp_path):
  config = make(base, tmp_path / "out", eval_fraction=0.25)
  with runs.logged() as log:
    first = fine_tuning.run(config)
  assert "30 train examples" in log() and "10 dev examples" in log()
  assert f"bert-tf serve --model={tmp_path / 'out'}" in log()
  split = json.loads((tmp_path / "out" / "data_split.json").read_text())
  assert len(split["dev"]) == 10 and split["num_rows"] == 40
  # With another seed and fraction, the model would be tested on what it knows.
  later = dataclasses.replace(
    config,
    do_train=False,
    eval_fraction=0.5,
    train=dataclasses.replace(config.train, seed=99),
  )
  assert fine_tuning.run(later) == first
  assert json.loads((tmp_path / "out" / "data_split.json").read_text()) == split
  (base / "reviews.csv").write_text("text;label\ngood;good\nbad;bad\n")
  with pytest.raises(ValueError, match="2 rows, but .* 40"):
    fine_tuning.run(later)
  (base / "reviews.csv").unlink()


MISTAKES = {
  "two sources": ({"data_dir": "data"}, "`data_dir` or `data_file`"),
  "no source": ({"data_file": None}, "`data_dir` or `data_file`"),
  "an unknown ending": ({"data_file": "a.ods"}, "a.ods (`data_file`)"),
  "texts as labels": (
    {"label_column": "text"},
    "no label has two different ones",
  ),
  "no such file": ({"data_file": "none/a.csv"}, "none/a.csv. Set `data_file`"),
  "no test file": ({"do_predict": True}, "`do_predict` needs a test file"),
  "nothing held out": ({"eval_fraction": 0.0}, "Set `eval_fraction`"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_the_setting(base, tmp_path, mistake):
  changes, expected = MISTAKES[mistake]
  with pytest.raises(ValueError) as error:
    config = make(base, tmp_path / "out")
    fine_tuning.run(dataclasses.replace(config, **changes))
  assert expected in str(error.value)
