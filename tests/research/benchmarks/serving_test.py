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


# Stands in for aiohttp's response.
class Reply:
  def __init__(self, status, **headers):
    self.status, self.headers = status, headers


GOOD = {"predictions": [{"label": "a", "probabilities": [0.25, 0.75]}]}
NEAR = {"predictions": [{"label": "a", "probabilities": [0.25001, 0.74999]}]}
FAR = {"predictions": [{"label": "a", "probabilities": [0.26, 0.74]}]}


@pytest.mark.parametrize(
  ("status", "answer", "expected", "outcome"),
  [
    (200, NEAR, GOOD, "right"),
    (200, FAR, GOOD, "wrong"),
    (200, ["a"], GOOD, "wrong"),
    (400, {"error": "no"}, GOOD, "failed"),
    (500, {"error": "no"}, GOOD, "failed"),
    (400, {"error": "no"}, None, "refused"),
    (500, {"error": "no"}, None, "wrong"),
    (200, GOOD, None, "wrong"),
  ],
)
def test_an_outcome_is_judged_by_status_and_answer(
  status, answer, expected, outcome
):
  body = json.dumps(answer).encode()
  assert open_loop._judge(Reply(status), body, expected) == outcome
