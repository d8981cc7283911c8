"""Builds GLUE's MRPC from Microsoft's texts and the dev ids of GLUE."""

import os

from bert_tf.files import atomic

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

  def read(name: str) -> list[list[str]]:
    # Microsoft's files begin with a byte order mark; none has quotation.
    with open(os.path.join(folder, name), encoding="utf-8-sig") as lines:
      return [line.strip().split("\t") for line in lines if line.strip()]

  # The columns are the label, both ids and both sentences.
  columns = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
  dev_ids = {tuple(row) for row in read(DEV_IDS)}
  tables = {"train.tsv": [columns], "dev.tsv": [columns]}
  for row in read(TRAIN_TEXT)[1:]:
    is_dev = tuple(row[1:3]) in dev_ids
    tables["dev.tsv" if is_dev else "train.tsv"].append(row)
  tables["test.tsv"] = [["index", *columns[1:]]] + [
    [str(index), *row[1:]] for index, row in enumerate(read(TEST_TEXT)[1:])
  ]
  for name, rows in tables.items():
    lines = ["\t".join(row) for row in rows]
    atomic.write_lines(os.path.join(folder, name), lines)
