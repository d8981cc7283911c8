"""The tables of docs/guides.md are what the formulas and settings say."""

import pathlib
import re

import pytest

from bert_tf import modeling
from bert_tf.convert import model_size
from bert_tf.pipeline import config as pipeline_config

TEXT = (
  pathlib.Path(__file__).resolve().parents[1] / "docs" / "guides.md"
).read_text()
SIZES = pipeline_config.SIZES
# What the page says of its estimates.
SHARE_OF_PEAK = 0.3
PEAKS = {"A100": 312e12, "v5e-8": 8 * 197e12}


def operations(num_layers, width, vocab_size, length):
  """Returns those of a training step with one instance."""
  config = modeling.BertConfig(
    vocab_size=vocab_size,
    hidden_size=width,
    num_hidden_layers=num_layers,
    num_attention_heads=width // 64,
    intermediate_size=4 * width,
    max_position_embeddings=512,
    type_vocab_size=2,
  )
  batch = model_size.Batch(
    train_batch_size=1,
    max_seq_length=length,
    max_predictions_per_seq={128: 20, 512: 77}[length],
  )
  return 3 * model_size.total(model_size.forward_operations(config, batch))


def of_size(name, length):
  size = SIZES[name]
  return operations(
    size.num_hidden_layers, size.hidden_size, size.vocab_size, length
  )


def rows(heading):
  """Returns the cells of the rows that begin with a size."""
  _, part = TEXT.split(f"\n## {heading}\n")
  part = part.split("\n## ")[0]
  found = re.findall(rf"^\| ({'|'.join(SIZES)}) \| (.*) \|$", part, re.M)
  return {name: cells.split(" | ") for name, cells in found}


@pytest.mark.parametrize("name", SIZES)
def test_costs_are_those_of_the_operation_counts(name):
  size = SIZES[name]
  model, short, long, measured, *estimated = rows("What it costs")[name]
  layers, width, vocab_size = (
    int(number) for number in re.findall(r"\d+", model.replace(",", ""))
  )
  assert (layers, width) == (size.num_hidden_layers, size.hidden_size)
  assert vocab_size == size.vocab_size
  assert float(short) == pytest.approx(of_size(name, 128) / 1e9, rel=5e-3)
  assert float(long) == pytest.approx(of_size(name, 512) / 1e9, rel=5e-3)
  for seconds, peak in zip(estimated, PEAKS.values(), strict=True):
    expected = 1e6 * of_size(name, 128) / (peak * SHARE_OF_PEAK)
    assert float(seconds) == pytest.approx(expected, rel=5e-3)


def test_the_learning_rates_are_those_of_the_sizes():
  found = rows("Learning rate")
  assert list(found) == list(SIZES)
  for name, (rate, batch) in found.items():
    assert float(rate) == SIZES[name].learning_rate
    assert int(batch) == SIZES[name].train_batch_size


def test_what_is_said_of_the_paper_and_of_published_speed_is_computed():
  base, large = (12, 768, 30522), (24, 1024, 30522)
  days = {}
  for name, model in (("base", base), ("large", large)):
    short, long = operations(*model, 128), operations(*model, 512)
    days[name] = [
      256e6 * (0.9 * short + 0.1 * long) / (peak * SHARE_OF_PEAK) / 86400
      for peak in PEAKS.values()
    ]
  assert "67 hours of one A100 or 13 of a v5e-8" in TEXT
  assert [round(24 * value) for value in days["base"]] == [67, 13]
  assert "of large 10 days or 2." in TEXT
  assert [round(value) for value in days["large"]] == [10, 2]
  assert "485.6 instances/s at 128 and 96.5 at 512 are 0.36 and 0.31" in TEXT
  speeds = {128: 485.6, 512: 96.5}
  shares = [
    speed * operations(*large, length) / PEAKS["A100"]
    for length, speed in speeds.items()
  ]
  assert shares == pytest.approx([0.36, 0.31], abs=5e-3)


def test_what_is_said_of_the_schedule_and_the_vocabulary_is_computed():
  ratios = [
    of_size(name, 512) / of_size(name, 128) for name in ("base", "tiny")
  ]
  assert ratios == pytest.approx([4.3, 4.9], abs=0.05)
  assert "costs base 4.3 times the operations, tiny 4.9 times" in TEXT
  assert 0.9 + 0.1 * ratios[0] == pytest.approx(1.33, abs=5e-3)
  assert "67% of tiny's operations and 4% of base's" in TEXT
  shares = [
    1 - operations(*model, 1, 128) / operations(*model, 30522, 128)
    for model in ((2, 128), (12, 768))
  ]
  assert shares == pytest.approx([0.67, 0.04], abs=5e-3)
