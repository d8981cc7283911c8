"""A user's own data in Parquet, as Hugging Face's datasets writes it."""

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support import own_classification


def write_parquet(path, columns, names=None):
  """Writes a table; `names` are the classes of the column label."""
  table = pa.table(columns)
  if names:
    feature = {"names": names, "_type": "ClassLabel"}
    info = json.dumps({"info": {"features": {"label": feature}}})
    table = table.replace_schema_metadata({"huggingface": info})
  parquet.write_table(table, path)


def read(folder, split, **settings):
  source = own_classification.make_source(folder, "parquet", **settings)
  return source.read(split, None)


def test_labels_are_those_that_the_file_names(tmp_path):
  columns = {"text": ["a", "b"], "label": [1, 0]}
  write_parquet(tmp_path / "train.parquet", columns, ["bad", "good"])
  assert read(tmp_path, "train") == [
    {"id": "train-0", "text": "a", "label": "good"},
    {"id": "train-1", "text": "b", "label": "bad"},
  ]
  write_parquet(tmp_path / "test.parquet", {"text": ["c"]})
  assert read(tmp_path, "test") == [{"id": "test-0", "text": "c"}]


def test_labels_may_be_lists_and_numbers(tmp_path):
  columns = {"text": ["a", "b"], "label": [["x", "y"], []], "n": [0.5, 2]}
  write_parquet(tmp_path / "train.parquet", columns)
  rows = read(tmp_path, "train", problem_type="multilabel")
  assert [row["label"] for row in rows] == [["x", "y"], []]
  rows = read(tmp_path, "train", problem_type="regression", label_column="n")
  assert [row["label"] for row in rows] == [0.5, 2.0]


@pytest.mark.parametrize(
  ("columns", "expected"),
  [
    ({"text": ["a", None], "label": [0, 1]}, ":2: None is not a text"),
    ({"text": ["a"], "label": [None]}, ":1: label None"),
    ({"words": ["a"], "label": [1]}, " has no column 'text' (`text_a_column`)"),
  ],
)
def test_an_error_names_the_file_and_the_column(tmp_path, columns, expected):
  path = tmp_path / "train.parquet"
  write_parquet(path, columns)
  with pytest.raises(ValueError) as error:
    read(tmp_path, "train")
  assert str(error.value).startswith(f"{path}{expected}")
