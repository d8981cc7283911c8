"""The table of `benchmark.py train` and `forward`, with fake peers."""

import json
import struct

import pytest

from research.benchmarks import config, steps

SIZES = {
  "vocab_size": 100,
  "hidden_size": 16,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 32,
}

FAKE = """
import json, os, sys
settings = json.loads(sys.argv[1])
with open(os.path.join(os.path.dirname(__file__), "calls"), "a") as file:
  file.write(f"{settings['task']} {settings['compiled']}\\n")
ms = [4.0, 2.0, 3.0] if settings["compiled"] else [6.0] * 3
print("a note")
print(json.dumps({"version": "Fake 1.0", "ms": ms, "cpu_ms": 5.0,
                  "peak_mb": 1234.0, "product_gflops": 1e-3}))
"""


@pytest.fixture
def fake(tmp_path):
  """Returns a peer's script that reports 3 ms if compiled, else 6 ms."""
  path = tmp_path / "fake.py"
  path.write_text(FAKE)
  return str(path)


def make_config(tmp_path, **settings):
  path = tmp_path / "bert_config.json"
  path.write_text(json.dumps({**SIZES, "hidden_act": "gelu"}))
  return config.BenchmarkConfig(
    bert_config_file=str(path),
    batch_size=4,
    max_seq_length=16,
    max_predictions_per_seq=4,
    **settings,
  )


def parse_rows(text):
  """Returns the rows of the table, [name, ms, rounds, CPU, ratio, ...]."""
  return {line[:18].strip(): line[18:].split() for line in text.splitlines()}


def test_our_step_is_compared_with_the_fastest_peer(fake, tmp_path, capfd):
  ours = steps.PROGRAMS[0]
  assert not ours.is_peer and not ours.compiled
  plot = tmp_path / "plot.png"
  steps.measure(
    make_config(tmp_path, num_steps=2, num_rounds=1, plot_file=str(plot)),
    "train",
    (
      ours,
      steps.Program("slow", fake, False, ("json",), "pip install slow"),
      steps.Program("fast", fake, True, ("json",), "pip install fast"),
    ),
  )
  rows = parse_rows(capfd.readouterr().out)
  own = rows[ours.name]
  assert float(own[3]) == pytest.approx(3 / float(own[0]), abs=0.1)
  assert "TensorFlow" in own[6]
  assert rows["slow"][:4] == ["6.0", "6.0-6.0", "5.0", "0.50"]
  assert rows["fast"][:4] == ["3.0", "3.0-3.0", "5.0", "1.00"]
  assert rows["fast"][5:] == ["1,234", "Fake", "1.0"]
  assert struct.unpack(">II", plot.read_bytes()[16:24]) == (900, 400)


def test_every_second_round_is_reversed(fake, tmp_path, capfd):
  steps.measure(
    make_config(tmp_path, num_rounds=3),
    "forward",
    [steps.Program(str(c), fake, c, ("json",)) for c in (False, True)],
  )
  assert (tmp_path / "calls").read_text().split() == [
    *("forward", "False", "forward", "True"),
    *("forward", "True", "forward", "False"),
    *("forward", "False", "forward", "True"),
  ]
  # By hand: 2 * (4 * 16^2 + 2 * 16 * 32 + 2 * 16 * 16) operations per layer and
  # word piece, 64 word pieces, and 2 * 4 * 16^2 in the pooler. 329,728 in 3 ms
  # are 0.1099 GFLOP/s, relative to 0.001.
  used = parse_rows(capfd.readouterr().out)["True"][4]
  assert float(used.rstrip("%")) == pytest.approx(10991, rel=1e-3)
