"""Numbers in docs/guides.md follow from the settings and operation counts."""

import pathlib
import re

import pytest

from bert_tf import model_size
from bert_tf.pipeline import config as pipeline_config
from tests.support import released_sizes

TEXT = (
  pathlib.Path(__file__).resolve().parents[1] / "docs" / "guides.md"
).read_text()
SIZES = pipeline_config.SIZES
# Assumptions of the estimates. The page states them too.
SHARE_OF_PEAK = 0.3
PEAKS = {"A100": 312e12, "v5e-8": 8 * 197e12}


def count_operations(name, length):
  """Returns the operations of a training step with one instance."""
  size = SIZES[name]
  config = released_sizes.make_config(
    size.num_hidden_layers, size.hidden_size, size.vocab_size
  )
  batch = model_size.BatchSizes(
    train_batch_size=1,
    max_seq_length=length,
    max_predictions_per_seq={128: 20, 512: 77}[length],
  )
  return 3 * model_size.total(model_size.forward_operations(config, batch))


def read_rows(num_cells):
  """Returns the cells of rows by size, from the table with so many cells."""
  rows = re.findall(rf"^\| ({'|'.join(SIZES)}) \| (.*) \|$", TEXT, re.M)
  cells = [(name, text.split(" | ")) for name, text in rows]
  return {name: row for name, row in cells if len(row) == num_cells}


@pytest.mark.parametrize("name", SIZES)
def test_costs_follow_from_operation_counts(name):
  size = SIZES[name]
  model, short, long, _, *estimates = read_rows(6)[name]
  numbers = re.findall(r"\d+", model.replace(",", ""))
  assert list(map(int, numbers)) == [
    size.num_hidden_layers,
    size.hidden_size,
    size.vocab_size,
  ]
  operations = count_operations(name, 128)
  assert float(short) == pytest.approx(operations / 1e9, rel=5e-3)
  long_operations = count_operations(name, 512)
  assert float(long) == pytest.approx(long_operations / 1e9, rel=5e-3)
  for seconds, peak in zip(estimates, PEAKS.values(), strict=True):
    expected = 1e6 * operations / (peak * SHARE_OF_PEAK)
    assert float(seconds) == pytest.approx(expected, rel=5e-3)


def test_learning_rates_are_those_of_the_sizes():
  rows = read_rows(2)
  assert list(rows) == list(SIZES)
  for name, (rate, batch) in rows.items():
    assert float(rate) == SIZES[name].learning_rate
    assert int(batch) == SIZES[name].train_batch_size
