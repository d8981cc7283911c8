"""Rows of tables: quoting, delimiters, faulty lines, long cells."""

import csv
import os
import tempfile

import hypothesis
import pytest
from hypothesis import strategies

from bert_tf.files import tables


def read(path, columns, settings=None):
  """Returns the cells of the columns of each row."""
  table = tables.Table(str(path), path.suffix[1:], columns, settings or {})

  def convert(line, row):
    return [tables.get_cell(row, column) for column in columns]

  return list(tables.read(table, convert))


def texts(path, lines):
  path.write_text("\n".join(lines) + "\n", newline="")
  return [text for (text,) in read(path, ["text"])]


def test_escaped_surrogate_pairs_are_decoded(tmp_path):
  lines = ['{"text": "\\ud83d\\ude00"}', '{"text": "a"}']
  assert texts(tmp_path / "a.jsonl", lines) == ["\U0001f600", "a"]


@pytest.mark.parametrize(
  "line",
  [
    '{"text": "\\ud83d"}',
    '{"text": "a", "label": "\\uDE00"}',
    "[" * 100_000,
    '["a"]',
    "{",
  ],
)
def test_the_line_of_a_faulty_row_is_named(tmp_path, line):
  with pytest.raises(ValueError, match=r"a\.jsonl:2"):
    texts(tmp_path / "a.jsonl", ['{"text": "a"}', line])


def test_rows_without_a_header_have_the_columns_of_the_first(tmp_path):
  path = tmp_path / "a.csv"
  path.write_text("long, but good,pos\nbad,neg\ngood,pos\n")
  with pytest.raises(ValueError, match="a.csv:2: 2 columns instead of 3"):
    read(path, [0, 1])
  path.write_text("")
  assert read(path, [0, 1]) == []


@pytest.mark.parametrize(
  ("suffix", "cell"),
  [("csv", "{}"), ("tsv", "{}"), ("jsonl", '{{"text": "{}"}}')],
)
def test_a_cell_may_have_any_length(tmp_path, suffix, cell):
  long = "word " * 60_000
  header = [] if suffix == "jsonl" else ["text"]
  lines = [*header, cell.format(long), cell.format("a")]
  assert texts(tmp_path / f"a.{suffix}", lines) == [long, "a"]


# Carriage returns are dropped, and Python 3.10's csv refuses NUL.
CELLS = strategies.text(
  strategies.characters(codec="utf-8", exclude_characters="\r\0")
)


@hypothesis.given(
  strategies.lists(strategies.tuples(CELLS, CELLS), max_size=6),
  strategies.sampled_from(",;\t|"),
  strategies.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_csvs_writer_writes_is_read(rows, delimiter, quoting):
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "a.csv")
    with open(path, "w", encoding="utf-8", newline="") as file:
      writer = csv.writer(file, delimiter=delimiter, quoting=quoting)
      writer.writerows([("text", "label"), *rows])
    table = tables.Table(path, "csv", ["text", "label"])
    read_rows = tables.read(table, lambda _, row: tuple(row.values()))
    assert list(read_rows) == rows


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_carriage_returns_are_dropped(tmp_path, suffix):
  lines = ["te\rxt\r", "a\rb", "c\r", "\r"]
  assert texts(tmp_path / f"a.{suffix}", lines) == ["ab", "c"]


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("delimiter", list(",;\t|"))
@pytest.mark.parametrize("header", [["text", "label"], []])
def test_the_delimiter_is_found_from_the_first_line(
  tmp_path, suffix, delimiter, header
):
  path = tmp_path / f"a.{suffix}"
  rows = [["a fine song", "good"], ["a bad one", "bad"]]
  lines = [delimiter.join(row) for row in [header, *rows] if row]
  path.write_text("\ufeff" + "\n".join(lines))
  assert read(path, header or (0, 1)) == rows


@pytest.mark.parametrize(
  ("name", "content", "expected"),
  [
    ("a.csv", "review,stars\n", ["'revew' (`text`)", "columns: review, stars"]),
    ("a.csv", "revew,stars,stars\n", ["2 columns 'stars' (`label`)"]),
    ("a.csv", "", ["no column 'revew'", "Its columns: none"]),
    ("a.jsonl", '{"revew": "a"}\n', ["a.jsonl:1:", "'stars' (`label`)"]),
  ],
)
def test_a_missing_column_is_named_with_its_setting(
  tmp_path, name, content, expected
):
  path = tmp_path / name
  path.write_text(content)
  settings = {"revew": "text", "stars": "label"}
  with pytest.raises(ValueError) as error:
    read(path, list(settings), settings)
  for part in (str(path), *expected):
    assert part in str(error.value)
