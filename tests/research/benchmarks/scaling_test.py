"""The table of `benchmark.py scaling`, for a small model."""

import json
import re

import pytest

from tests.support import scale_run, short_products


@short_products.needed
@pytest.mark.slow
def test_the_table_compares_all_settings_with_the_baseline(
  tmp_path, run_script
):
  sizes = {**scale_run.CONFIG, "num_hidden_layers": 1}
  (tmp_path / "config.json").write_text(json.dumps(sizes))
  result = run_script(
    "benchmark.py",
    "scaling",
    "--bert_config_file=config.json",
    "--batch_size=8",
    "--max_seq_length=16",
    "--num_steps=4",
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  rows = [re.split(r"  +", line) for line in result.stdout.splitlines()]
  assert rows[0][0] == "4 x 8 x 16"
  names = [row[0] for row in rows[1:]]
  assert names[:3] == ["1 device", "2 logical devices", "2 micro-batches"]
  differences = {row[0]: float(row[-1].split(", ")[0]) for row in rows[1:]}
  assert differences["1 device"] == 0.0
  for name in ("2 logical devices", "4 micro-batches", "recompute"):
    assert differences[name] < 1e-5
  assert 0.0 < differences["bfloat16"] < 1e-2
