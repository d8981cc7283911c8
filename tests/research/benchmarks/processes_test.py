"""`benchmark.py start`, `predict` and `finetune` time whole processes."""

import json
import subprocess
import sys

import pytest

from research.benchmarks import config, processes, steps
from tests.support import checkout

SIZES = {
  "vocab_size": 100,
  "hidden_size": 16,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 32,
}


def parse_rows(text):
  """Returns the rows of the table, [name, seconds, rounds, CPU, ...]."""
  return {line[:18].strip(): line[18:].split() for line in text.splitlines()}


# The system counts memory of the starting process for the started process, so a
# small process measures.
MEASURE = """import dataclasses, json, sys
from research.benchmarks import processes
usage = processes.run([sys.executable, "-c", sys.argv[1]], "worker", {})
print(json.dumps(dataclasses.asdict(usage)))
"""


def measure_usage(code):
  """Returns the resource usage of a program, by field."""
  command = [sys.executable, "-c", MEASURE, code]
  return json.loads(subprocess.check_output(command, cwd=checkout.ROOT))


def test_a_process_is_timed_with_its_cpu_time_and_memory():
  usage = measure_usage(
    """import time
x = bytearray(200_000_000)
time.sleep(0.3)
while time.process_time() < 0.3:
  pass
"""
  )
  assert usage["seconds"] > 0.3 and usage["cpu_seconds"] >= 0.3
  assert usage["peak_mb"] > 200
  assert measure_usage("pass")["peak_mb"] < 150


def test_a_process_that_fails_is_named_with_its_last_line():
  code = "import sys; print('first', flush=True); sys.exit('out of cheese')"
  with pytest.raises(ValueError, match="tester.*1.*out of cheese"):
    processes.run([sys.executable, "-c", code], "tester", {})


def test_the_first_step_of_a_run_is_timed(tmp_path, monkeypatch, capfd):
  script = tmp_path / "peer.py"
  script.write_text(
    "import json, sys\nassert json.loads(sys.argv[1])['task'] == 'start'"
  )
  gone = steps.Program("gone", "x.py", True, ("no_package",), "pip install x")
  fast = steps.Program("fast", str(script), True, ("json",), "")
  monkeypatch.setattr(steps, "PROGRAMS", (steps.PROGRAMS[0], fast, gone))
  sizes = tmp_path / "bert_config.json"
  sizes.write_text(json.dumps(SIZES))
  processes.measure_start(
    config.BenchmarkConfig(
      bert_config_file=str(sizes),
      batch_size=4,
      max_seq_length=16,
      max_predictions_per_seq=4,
      num_rounds=1,
    )
  )
  out = capfd.readouterr().out
  rows = parse_rows(out)
  assert rows["fast"][3] == "1.00"
  assert float(rows["bert_tf"][4].replace(",", "")) > 300
  # Named before the other programs run for minutes.
  assert out.startswith("gone: not installed; pip install x")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_all_programs_start_with_the_same_precision(
  tmp_path, monkeypatch, precision
):
  measured = {}
  monkeypatch.setattr(
    processes, "_measure", lambda config, title, named: measured.update(named)
  )
  path = tmp_path / "bert_config.json"
  path.write_text(json.dumps(SIZES))
  processes.measure_start(
    config.BenchmarkConfig(
      bert_config_file=str(path),
      batch_size=2,
      max_seq_length=16,
      max_predictions_per_seq=4,
      precision=precision,
    )
  )
  ours = measured.pop("bert_tf").arguments
  assert [x for x in ours if "precision" in x] == [f"--precision={precision}"]
  assert measured
  for peer in measured.values():
    assert json.loads(peer.arguments[1])["precision"] == precision


def test_fine_tuning_needs_model_and_data():
  with pytest.raises(ValueError, match="`model`"):
    processes.measure_fine_tuning(config.BenchmarkConfig())
  with pytest.raises(ValueError, match="`data_dir`"):
    processes.measure_fine_tuning(config.BenchmarkConfig(model="folder"))
  with pytest.raises(ValueError, match="`predict_file`"):
    processes.measure_fine_tuning(
      config.BenchmarkConfig(model="folder", train_file="train.json")
    )


@pytest.mark.parametrize(
  ("files", "task"),
  [
    ({"data_dir": "glue"}, "MRPC"),
    ({"train_file": "a.json", "predict_file": "b.json"}, "SQuAD"),
  ],
)
def test_both_programs_fine_tune_with_the_same_settings(
  monkeypatch, files, task
):
  measured = {}
  monkeypatch.setattr(
    processes, "_measure", lambda config, title, named: measured.update(named)
  )
  processes.measure_fine_tuning(
    config.BenchmarkConfig(model="folder", batch_size=8, **files)
  )
  ours, peer = (set(process.arguments) for process in measured.values())
  shared = {f"--{name}={value}" for name, value in files.items()}
  shared |= {"--max_seq_length=128", "--train_batch_size=8"}
  shared |= {"--num_train_epochs=1"}
  assert shared <= ours & peer
  assert f"--task_name={task}" in peer
  assert ("squad" if task == "SQuAD" else "classifier") in ours
  assert "--model=folder" in ours and "--model_dir=folder" in peer
  (our_folder,), (peer_folder,) = (
    [word for word in words if word.startswith("--output_dir=")]
    for words in (ours, peer)
  )
  assert our_folder != peer_folder
