"""`benchmark.py serving` finds wrong, failed and missing answers."""

import json
import subprocess
import sys

import pytest

from tests.support import checkout, tiny_models

pytest.importorskip("aiohttp", reason="pip install aiohttp")
pytest.importorskip("fastapi", reason="pip install 'bert_tf[serve]'")

from research.benchmarks import open_loop  # noqa: E402


def test_all_answers_under_load_are_right(tmp_path):
  folder = tiny_models.write_classifier(tmp_path / "model")
  results = tmp_path / "results.jsonl"
  script = checkout.ROOT / "run_scripts" / "benchmark.py"
  flags = ["--num_clients=8", "--duration=6", f"--results_file={results}"]
  ended = subprocess.run(
    [sys.executable, script, "serving", f"--model={folder}", *flags],
    capture_output=True,
    text=True,
    timeout=1200,
  )
  assert ended.returncode == 0, ended.stdout + ended.stderr
  rows = [json.loads(line) for line in results.read_text().splitlines()]
  assert [row["load"] for row in rows] == list(open_loop.LOADS)
  for row in rows:
    assert row["counts"]["right"] > 0
    for outcome in ("wrong", "failed", "timeout"):
      assert row["counts"][outcome] == 0
  assert sum(row["counts"]["refused"] for row in rows) > 0
