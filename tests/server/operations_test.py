"""Tests for the server's routes, metrics, log and readiness."""

import json
import pathlib
import re
import threading
import time

import pytest

import bert_tf
from tests.support import fake_model, serving_client, tiny_models
from tests.support.serving_client import ask

PREDICT = "/v1/models/model:predict"
ROOT = pathlib.Path(__file__).resolve().parents[2]


def wait_until_ready(url):
  while ask(url, "/readyz")[0] != 200:
    time.sleep(0.01)


def test_models_are_described(tmp_path):
  folder = tiny_models.write_classifier(tmp_path)
  shown = [{"inputs": {"text": "the of"}, "answer": "good"}]
  run = {
    "task": "classification",
    "settings": {"is_pair": False, "do_lower_case": True, "max_seq_length": 32},
    "labels": json.loads((folder / "label_map.json").read_text()),
    "scores": {"eval_accuracy": 0.5},
    "examples": {"num_train": 9, "num_dev": 3, "shown": shown},
  }
  (folder / "run.json").write_text(json.dumps(run))
  models = {
    "a_run": bert_tf.Predictor(str(folder)),
    "fake": fake_model.FakeModel(),
  }
  with serving_client.running(models) as running:
    served, fake = ask(running.url, "/v1/models")[1]["models"]
  assert (fake["name"], fake["version"]) == ("fake", "7")
  for name in ("labels", "scores", "examples"):
    assert served[name] == run[name]
  assert served["size"]["hidden_size"] == 16
  # Computed by hand: embeddings, two layers, pooler and head of tiny_models.
  layer = 4 * (16 * 16 + 16) + 2 * 16 * 32 + 32 + 16 + 4 * 16
  total = 632 * 16 + 2 * layer + (16 * 16 + 16) + 3 * (16 + 1)
  assert served["size"]["num_parameters"] == total


def test_the_documentation_lists_the_routes():
  table = (ROOT / "docs" / "serving.md").read_text()
  table = table.replace("[/versions/N]", "")
  with serving_client.running(fake_model.FakeModel()) as running:
    routes = running.server.application.routes
  for route in routes:
    path = route.path_format.replace("{name}", "NAME")
    if "version" not in path and path != "/docs/oauth2-redirect":
      method = "POST" if "POST" in route.methods else "GET"
      assert f"| `{method} {path}` |" in table


def test_metrics_count_requests_rows_and_batches():
  model = fake_model.FakeModel()
  with serving_client.running(model, max_wait_ms=0) as running:
    wait_until_ready(running.url)
    ask(running.url, PREDICT, {"instances": ["ab", "ä"]})
    ask(running.url, PREDICT, {"instances": ["bad"]})
    ask(running.url, "/v1/models/other:predict", {"instances": ["a"]})
    ask(running.url, "/nothing/of/the/kind")
    text = serving_client.metrics(running.url)
  lines = [line for line in text.splitlines() if not line.startswith("#")]
  result = {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines)}
  path = 'path="/v1/models/{name}:predict"'
  requests = "bert_tf_requests_total"
  for status, count in ((200, 1), (400, 1), (404, 1)):
    labels = f'{{method="POST",{path},status="{status}"}}'
    assert result[requests + labels] == count
  other = '{method="GET",path="other",status="404"}'
  assert result[requests + other] == 1
  assert result[f"bert_tf_request_seconds_count{{{path}}}"] == 3
  signature = '{model="model",signature="text"}'
  assert result[f"bert_tf_rows_total{signature}"] == 2
  assert result[f"bert_tf_windows_total{signature}"] == 2
  assert result["bert_tf_batch_rows_sum"] == 2  # The other request failed.
  assert result["bert_tf_batch_seconds_count"] == 1
  assert result["bert_tf_waiting_requests"] == 0
  assert result["process_resident_memory_bytes"] > 0


def test_a_server_is_alive_before_it_is_ready():
  model = fake_model.FakeModel()
  gate = threading.Event()
  compute = model.compute

  def slow(*arguments):
    gate.wait(timeout=600)
    return compute(*arguments)

  model.compute = slow
  with serving_client.running(model) as running:
    assert ask(running.url, "/healthz")[0] == 200
    code, response = ask(running.url, "/readyz")
    assert (code, "not warm" in response["error"]) == (503, True)
    gate.set()
    wait_until_ready(running.url)
    code, response = ask(running.url, "/readyz")
    assert response == {"status": "ok", "model": "model", "version": "7"}


@pytest.mark.parametrize("log_format", ["none", "text", "json"])
def test_each_request_is_a_line_without_its_text(log_format, capsys):
  model = fake_model.FakeModel()
  with serving_client.running(model, log_format=log_format) as running:
    ask(running.url, PREDICT, {"instances": ["secret", "b"]})
    ask(running.url, "/a%0Ab?text=hidden")
  printed = capsys.readouterr().out
  assert "secret" not in printed and "hidden" not in printed
  lines = printed.splitlines()
  if log_format == "text":
    lines = [
      json.dumps(dict(part.split("=") for part in line.split()))
      for line in lines
    ]
  rows = [*map(json.loads, lines)]
  names = ("remote", "method", "path", "status", "rows")
  assert [[str(row.get(name)) for name in names] for row in rows] == [
    ["127.0.0.1", "POST", PREDICT, "200", "2"],
    ["127.0.0.1", "GET", "/a%0Ab", "404", "None"],
  ][: len(lines)]
  assert len(lines) == (0 if log_format == "none" else 2)
  for row in rows:
    assert float(row["milliseconds"]) >= 0 and int(row["bytes"]) > 0
    assert re.fullmatch(r"[-\d]{10}T[:\d]{8}\.\d{3}\+00:00", row["time"])
