"""Builds GLUE's MRPC from Microsoft's texts and the dev ids of GLUE."""

import os

from bert_tf.files import atomic

# Columns of Microsoft's files: the label, both ids and both sentences.
_COLUMNS = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")

TRAIN_TEXT = "msr_paraphrase_train.txt"
TEST_TEXT = "msr_paraphrase_test.txt"
DEV_IDS = "dev_ids.tsv"


def join(folder: str) -> None:
  """Writes train.tsv, dev.tsv and test.tsv beside Microsoft's files.

  The dev set consists of the pairs of TRAIN_TEXT whose ids are in DEV_IDS. As
  in GLUE, the test set has an index in place of the label.

  Args:
    folder: contains TRAIN_TEXT, TEST_TEXT and DEV_IDS.
  """
  dev_ids = {tuple(row) for row in _read_rows(folder, DEV_IDS)}
  rows = _read_rows(folder, TRAIN_TEXT)[1:]
  is_dev = [tuple(row[1:3]) in dev_ids for row in rows]
  train = [row for row, dev in zip(rows, is_dev) if not dev]
  dev = [row for row, dev in zip(rows, is_dev) if dev]
  rows = _read_rows(folder, TEST_TEXT)[1:]
  test = [[str(index), *row[1:]] for index, row in enumerate(rows)]
  _write_rows(folder, "train.tsv", [list(_COLUMNS), *train])
  _write_rows(folder, "dev.tsv", [list(_COLUMNS), *dev])
  _write_rows(folder, "test.tsv", [["index", *_COLUMNS[1:]], *test])


def _read_rows(folder: str, name: str) -> list[list[str]]:
  """Returns the tab-separated cells of each line; MRPC uses no quoting."""
  # Microsoft's files begin with a byte order mark.
  with open(os.path.join(folder, name), encoding="utf-8-sig") as lines:
    return [line.strip().split("\t") for line in lines if line.strip()]


def _write_rows(folder: str, name: str, rows: list[list[str]]) -> None:
  lines = ["\t".join(row) for row in rows]
  atomic.write_lines(os.path.join(folder, name), lines)
