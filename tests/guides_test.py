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
PARAGRAPHS = [
  " ".join(part.split()) for part in re.split(r"\n\n|\n(?=[-*|] )", TEXT)
]
SIZES = pipeline_config.SIZES
BASE, LARGE = (12, 768, 30522), (24, 1024, 30522)
# Assumptions of the estimates. The page states them too.
SHARE_OF_PEAK = 0.3
PEAKS = {"A100": 312e12, "v5e-8": 8 * 197e12}


def count_operations(num_layers, width, vocab_size, length):
  """Returns the operations of a training step with one instance."""
  config = released_sizes.make_config(num_layers, width, vocab_size)
  batch = model_size.BatchSizes(
    train_batch_size=1,
    max_seq_length=length,
    max_predictions_per_seq={128: 20, 512: 77}[length],
  )
  return 3 * model_size.total(model_size.forward_operations(config, batch))


def count_operations_of_size(name, length):
  size = SIZES[name]
  return count_operations(
    size.num_hidden_layers, size.hidden_size, size.vocab_size, length
  )


def read_rows(num_cells):
  """Returns the cells of rows by size, from the table with so many cells."""
  rows = re.findall(rf"^\| ({'|'.join(SIZES)}) \| (.*) \|$", TEXT, re.M)
  cells = [(name, text.split(" | ")) for name, text in rows]
  return {name: row for name, row in cells if len(row) == num_cells}


def is_stated(*parts):
  """Returns whether a paragraph of the page contains all these parts."""
  patterns = [rf"(?<![\d.,]){re.escape(part)}(?!\d)" for part in parts]
  return any(all(re.search(p, text) for p in patterns) for text in PARAGRAPHS)


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
  operations = count_operations_of_size(name, 128)
  assert float(short) == pytest.approx(operations / 1e9, rel=5e-3)
  long_operations = count_operations_of_size(name, 512)
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


def test_training_times_of_the_paper_follow_from_operation_counts():
  hours = {}
  for name, model in (("base", BASE), ("large", LARGE)):
    short, long = (count_operations(*model, length) for length in (128, 512))
    # 1,000,000 steps of 256, the first 90% at length 128.
    operations = 256e6 * (0.9 * short + 0.1 * long)
    hours[name] = [
      operations / (peak * SHARE_OF_PEAK) / 3600 for peak in PEAKS.values()
    ]
  base = [f"{value:.0f}" for value in hours["base"]]
  large = [f"{value / 24:.0f}" for value in hours["large"]]
  assert is_stated("base", f"{base[0]} hours", base[1], *PEAKS)
  assert is_stated("large", f"{large[0]} days", large[1])
  assert is_stated(f"{SHARE_OF_PEAK}", "312 TFLOP/s", "197")


def count_operations_of_all_positions(num_layers, width, vocab_size, length):
  """Like count_operations, with the last layer computed at all positions."""
  config = released_sizes.make_config(num_layers, width, vocab_size)
  masked, whole = (
    model_size.forward_operations(
      config,
      model_size.BatchSizes(
        train_batch_size=1,
        max_seq_length=length,
        max_predictions_per_seq=num_predictions,
      ),
    )
    for num_predictions in ({128: 20, 512: 77}[length], length - 1)
  )
  return 3 * model_size.total([*whole[:-1], masked[-1]])


@pytest.mark.parametrize(
  "count", [count_operations, count_operations_of_all_positions]
)
def test_shares_of_peak_follow_from_published_speeds(count):
  speeds = {128: 485.6, 512: 96.5}  # BERT-Large on an A100, NVIDIA.
  shares = [
    speed * count(*LARGE, length) / PEAKS["A100"]
    for length, speed in speeds.items()
  ]
  assert is_stated("485.6", "96.5", *(f"{share:.2f}" for share in shares))


def test_costs_of_length_and_vocabulary_follow_from_operation_counts():
  ratios = [
    count_operations_of_size(name, 512) / count_operations_of_size(name, 128)
    for name in ("base", "tiny")
  ]
  assert is_stated("base", "tiny", *(f"{ratio:.1f} times" for ratio in ratios))
  assert is_stated(f"{0.9 + 0.1 * ratios[0]:.2f} times")
  shares = [
    1 - count_operations(*model, 1, 128) / count_operations(*model, 30522, 128)
    for model in ((2, 128), (12, 768))
  ]
  assert is_stated("tiny", "base", *(f"{share:.0%}" for share in shares))
