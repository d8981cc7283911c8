"""Rows of tables: quoting, delimiters, faulty lines, long cells."""

import csv
import os
import tempfile

import hypothesis
import pytest
from hypothesis import strategies

from bert_tf.files import tables


def texts(path, lines):
  path.write_text("\n".join(lines) + "\n", newline="")
  table = tables.Table(str(path), path.suffix[1:], ["text"])
  rows = []
  tables.read(table, lambda _, row: rows.append(tables.get_cell(row, "text")))
  return rows


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
  table = tables.Table(str(path), "csv", [0, 1])
  with pytest.raises(ValueError, match="a.csv:2: 2 columns instead of 3"):
    tables.read(table, lambda _, row: row)
  path.write_text("")
  assert tables.read(table, lambda _, row: row) == []


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
    assert tables.read(table, lambda _, row: tuple(row.values())) == rows


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_carriage_returns_are_dropped(tmp_path, suffix):
  lines = ["te\rxt\r", "a\rb", "c\r", "\r"]
  assert texts(tmp_path / f"a.{suffix}", lines) == ["ab", "c"]


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("delimiter", list(",;\t|"))
@pytest.mark.parametrize(
  ("header", "columns"), [(["text", "label"], None), ([], (0, 1))]
)
def test_the_delimiter_is_found_from_the_first_line(
  tmp_path, suffix, delimiter, header, columns
):
  path = tmp_path / f"a.{suffix}"
  rows = [["a fine song", "good"], ["a bad one", "bad"]]
  lines = [delimiter.join(row) for row in [header, *rows] if row]
  path.write_text("\ufeff" + "\n".join(lines))
  table = tables.Table(str(path), suffix, columns or header)
  cells = tables.read(
    table, lambda _, row: [tables.get_cell(row, c) for c in table.columns]
  )
  assert cells == rows


# The file, its text, and the parts of the error's line.
MISSING = {
  "a typo": (
    "a.csv",
    "review,stars\n",
    ("'revew' (`text`)", "Its columns: review, stars"),
  ),
  "twice": ("a.csv", "revew,stars,stars\n", ("2 columns 'stars' (`label`)",)),
  "an empty file": ("a.csv", "", ("no column 'revew'", "Its columns: none")),
  "a key": ("a.jsonl", '{"revew": "a"}\n', ("a.jsonl:1:", "'stars' (`label`)")),
}


@pytest.mark.parametrize("fault", MISSING)
def test_a_missing_column_is_named_with_its_setting(tmp_path, fault):
  name, content, expected = MISSING[fault]
  path = tmp_path / name
  path.write_text(content)
  settings = {"revew": "text", "stars": "label"}
  table = tables.Table(str(path), name[2:], list(settings), settings)
  with pytest.raises(ValueError) as error:
    tables.read(table, lambda _, row: row)
  for part in (str(path), *expected):
    assert part in str(error.value)
