"""Lines of JSONL that are no rows."""

import pytest

from bert_tf.data import tables


def texts(path, lines):
  path.write_text("\n".join(lines) + "\n")
  table = tables.Table(str(path), "jsonl", ["text"], "films")
  rows = []
  tables.read(table, lambda _, row: rows.append(tables.value(row, "text")))
  return rows


def test_whole_characters_may_be_escaped(tmp_path):
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
def test_the_line_of_a_bad_row_is_named(tmp_path, line):
  with pytest.raises(ValueError, match=r"a\.jsonl:2"):
    texts(tmp_path / "a.jsonl", ['{"text": "a"}', line])
