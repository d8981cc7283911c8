"""Numbers in docs/guides.md follow from the settings and operation counts."""

import pathlib
import re

from bert_tf.pipeline import config as pipeline_config

TEXT = (
  pathlib.Path(__file__).resolve().parents[1] / "docs" / "guides.md"
).read_text()
SIZES = pipeline_config.SIZES


def read_rows(num_cells):
  """Returns the cells of rows by size, from the table with so many cells."""
  rows = re.findall(rf"^\| ({'|'.join(SIZES)}) \| (.*) \|$", TEXT, re.M)
  cells = [(name, text.split(" | ")) for name, text in rows]
  return {name: row for name, row in cells if len(row) == num_cells}


def test_learning_rates_are_those_of_the_sizes():
  rows = read_rows(2)
  assert list(rows) == list(SIZES)
  for name, (rate, batch) in rows.items():
    assert float(rate) == SIZES[name].learning_rate
    assert int(batch) == SIZES[name].train_batch_size
