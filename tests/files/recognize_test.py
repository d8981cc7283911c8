"""The form of a file of another form is named."""

import gzip

import pytest

from bert_tf.files import recognize


@pytest.mark.parametrize(
  ("content", "form"),
  [
    ('{"a": 1}\n{"a": 2}\n', "JSON lines"),
    ('{"a": {"b": []}}', "a JSON object"),
    ('{\n "a": {\n  "b": 1\n }\n}\n', "a JSON object"),
    ('\ufeff [\n {"a": 1}]', "a JSON list"),
    ("a;b\n1;2\n", "columns between semicolons"),
    ("a|b\n1|2", "columns between bars"),
    ("a\tb,c\n1\t2,3\n", "columns between tabs"),
    ("a,b\n1,2\n", "columns between commas"),
    ("<!DOCTYPE html>\n", "HTML or XML"),
    ("PAR1", "Parquet"),
    ("PK\x03\x04...a.csv", "a zip archive"),
    ("PK\x03\x04...xl/workbook.xml", "an Excel file"),
    ("PK\x03\x04...m/data.pkl", "a PyTorch file"),
    ("BZh9", "bzip2"),
    ("the O\nboat B-X\n", ""),
    ("one, two\nthree\n", ""),
    ("{ O\n[ O\n", ""),
    ("a,b\n", ""),
    ("", ""),
  ],
)
def test_the_form_is_named(tmp_path, content, form):
  assert recognize.form(content.encode()).startswith(form)
  path = tmp_path / "x.gz"
  path.write_bytes(gzip.compress(content.encode()))
  assert bool(recognize.form_of(str(path))) == bool(form)


def test_a_file_that_cannot_be_read_has_no_form(tmp_path):
  (tmp_path / "x.gz").write_text("no gzip")
  for name in ("x.gz", "none"):
    assert recognize.form_of(str(tmp_path / name)) == ""
