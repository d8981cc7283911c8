"""The tables and commands of docs/guides.md, against code and paper."""

import pathlib
import re

from bert_tf import optimization
from bert_tf.data.pretraining import masking
from bert_tf.model import model_config
from bert_tf.pipeline.config import SIZES

TEXT = (
  pathlib.Path(__file__).resolve().parents[1] / "docs" / "guides.md"
).read_text()


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


# Devlin et al. 2019, 3.1 and A.2.
RECIPE = {
  "train_batch_size": "256",
  "num_train_steps": "1000000",
  "learning_rate": "1e-4",
  "num_warmup_steps": "10000",
}
# The first nine tenths of the steps; then longer sequences, of whose 512 pieces
# 15% are masked, as in the README of google-research/bert.
PHASES = (
  {"stop_at_step": "900000"},
  {"max_seq_length": "512", "max_predictions_per_seq": "77"},
)


def test_the_recipe_is_the_papers():
  section = TEXT.split("## The paper's recipe")[1]
  _, block, _ = section.split("```")
  common, *calls = block.split("\npaper")[1:]
  for call, phase in zip(calls, PHASES, strict=True):
    flags = dict(re.findall(r"--(\w+)=(\S+)", common + call))
    assert (RECIPE | phase).items() <= flags.items()
    assert flags["output_dir"] == "paper"


def test_the_defaults_of_the_recipe_are_the_papers():
  masked = masking.MaskingConfig()
  shares = masked.mask_prob, masked.random_prob, masked.keep_prob
  assert (masked.masked_lm_prob, *shares) == (0.15, 0.8, 0.1, 0.1)
  optimizer = optimization.create_optimizer(1e-4, 1_000_000, 10_000)
  assert (optimizer.beta_1, optimizer.beta_2) == (0.9, 0.999)
  assert optimizer.weight_decay_rate == 0.01
  config = model_config.BertConfig(vocab_size=30522)
  dropout = config.hidden_dropout_prob, config.attention_probs_dropout_prob
  assert (*dropout, config.hidden_act) == (0.1, 0.1, "gelu")
