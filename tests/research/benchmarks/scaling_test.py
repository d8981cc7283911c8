"""The table of `benchmark.py scaling`, for a small model."""

import json
import re

import pytest

from bert_tf.training import config as training_config
from research.benchmarks import config, scaling
from tests.support import scale_run, short_products

# distribution_test compares the weights of all other settings.
MEASURED = ("1 device", "2 logical devices", "bfloat16")


@short_products.needed
def test_the_table_compares_settings_with_the_baseline(
  tmp_path, monkeypatch, capsys
):
  sizes = {**scale_run.CONFIG, "num_hidden_layers": 1}
  (tmp_path / "config.json").write_text(json.dumps(sizes))
  measured = {name: scaling.SETTINGS[name] for name in MEASURED}
  monkeypatch.setattr(scaling, "SETTINGS", measured)
  scaling.measure(
    config.BenchmarkConfig(
      bert_config_file=str(tmp_path / "config.json"),
      batch_size=8,
      max_seq_length=16,
      num_steps=4,
    )
  )
  rows = [
    re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()
  ]
  assert rows[0][0] == "4 x 8 x 16"
  differences = {row[0]: float(row[-1].split(", ")[0]) for row in rows[1:]}
  assert tuple(differences) == MEASURED
  assert differences["1 device"] == 0.0
  assert differences["2 logical devices"] < 1e-5
  assert 0.0 < differences["bfloat16"] < 1e-2


@pytest.mark.parametrize("name", scaling.SETTINGS)
def test_settings_are_those_of_a_training(name):
  settings = dict(scaling.SETTINGS[name])
  settings.pop("num_devices", None)
  train_config = training_config.TrainConfig(output_dir="out", **settings)
  assert settings.items() <= vars(train_config).items()
