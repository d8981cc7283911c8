"""docs/gpu.md and docs/models.md have the numbers of bert-tf inspect."""

import pathlib
import re

import pytest

from bert_tf import model_size
from tests.support import released_sizes

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
SIZES = {"BERT-Base": (12, 768), "BERT-Large": (24, 1024)}
MEMORY_GIB = (8, 12, 16, 24, 40, 80)
SHARE_USED = 0.9
GIB = 2**30


def largest_batches(model, length):
  """Returns the largest batch for each of MEMORY_GIB, by the memory model."""
  batch = model_size.BatchSizes(train_batch_size=1, max_seq_length=length)
  *fixed, activations = model_size.training_memory(model, batch)
  free = [
    SHARE_USED * GIB * memory - model_size.total(fixed) for memory in MEMORY_GIB
  ]
  return [int(value // activations.value) for value in free]


def test_the_batches_that_fit_are_computed():
  _, text = (DOCS / "gpu.md").read_text().split("\n## What fits\n")
  rows = re.findall(
    r"^\| (BERT-\w+)? ?\| (\d+) \| (.*) \|$", text.split("\n## ")[0], re.M
  )
  name = ""
  table = {}
  for new_name, length, cells in rows:
    name = new_name or name
    batches = [int(cell.replace(",", "")) for cell in cells.split(" | ")]
    table[name, int(length)] = batches
  assert table == {
    (name, length): largest_batches(released_sizes.make_config(*size), length)
    for name, size in SIZES.items()
    for length in (64, 128, 256, 384, 512)
  }


def test_the_parameters_of_released_models_are_computed():
  text = (DOCS / "models.md").read_text()
  rows = re.findall(
    r"\| (\d+) x ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", text, re.M
  )
  numbers = [[int(cell.replace(",", "")) for cell in row] for row in rows]
  assert len(numbers) == 9
  for num_layers, width, vocab_size, parameters in numbers:
    terms = model_size.encoder_parameters(
      released_sizes.make_config(num_layers, width, vocab_size)
    )
    assert model_size.total(terms) == parameters


def test_the_parameters_of_the_smaller_models_are_computed():
  text = (DOCS / "models.md").read_text()
  cells = re.findall(r"\[([\d.]+)\]\(\S+_L-(\d+)_H-(\d+)_A-(\d+)\.zip\)", text)
  assert len({tuple(cell[1:3]) for cell in cells}) == 24
  for millions, num_layers, width, num_heads in cells:
    assert int(num_heads) == int(width) // 64
    model = released_sizes.make_config(int(num_layers), int(width))
    parameters = model_size.total(model_size.encoder_parameters(model))
    assert float(millions) == pytest.approx(parameters / 1e6, abs=0.051)
