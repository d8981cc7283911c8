"""The table of `benchmark.py records`, for a small model."""

import json
import re

import pytest

from research.benchmarks import config as benchmark_config
from research.benchmarks import records
from tests.support import scale_run


def measure(tmp_path, **changes):
  words = [chr(97 + i) for i in range(26)]
  vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
  (tmp_path / "vocab.txt").write_text("".join(f"{w}\n" for w in vocab))
  sizes = {
    **scale_run.CONFIG,
    "vocab_size": len(vocab),
    "num_hidden_layers": 1,
    "max_position_embeddings": 32,
  }
  (tmp_path / "config.json").write_text(json.dumps(sizes))
  # Documents of two sentences of three words: 11 pieces of 32.
  document = "a b c\nd e f\n\n"
  (tmp_path / "text.txt").write_text(document * 200)
  settings = {
    "input_file": f"{tmp_path}/text.txt",
    "vocab_file": f"{tmp_path}/vocab.txt",
    "bert_config_file": f"{tmp_path}/config.json",
    "batch_size": 4,
    "max_seq_length": 32,
    "max_predictions_per_seq": 5,
    "num_steps": 2,
    "num_rounds": 1,
    **changes,
  }
  records.measure(benchmark_config.BenchmarkConfig(**settings))


def test_the_table_compares_all_forms_with_static_records(tmp_path, capsys):
  measure(tmp_path)
  lines = capsys.readouterr().out.splitlines()
  assert lines[0].endswith("text.txt, 4 x 32, CPU time")
  table = {row[0]: row[1:] for row in map(str.split, lines[2:])}
  assert list(table) == ["static", "dynamic", "grouped", "packed"]
  numbers = {
    name: [float(re.sub("%", "", cell)) for cell in cells]
    for name, cells in table.items()
  }
  # An instance has at most 9 of 32 positions: [CLS] a b c [SEP] d e f [SEP].
  # Three fit in a packed row.
  padding = {name: row[1] for name, row in numbers.items()}
  assert padding["static"] == pytest.approx(padding["dynamic"], abs=3)
  assert padding["dynamic"] == padding["grouped"] > 60
  assert padding["packed"] < 35
  disk = {name: row[0] for name, row in numbers.items()}
  assert disk["dynamic"] == disk["grouped"] < disk["static"] / 9
  assert disk["packed"] < disk["dynamic"]
  for name, row in numbers.items():
    speed, factor = row[3:]
    expected = speed / numbers["static"][3]
    assert speed > 0 and factor == pytest.approx(expected, abs=0.02), name


def test_a_vocabulary_of_another_size_is_named(tmp_path):
  (tmp_path / "small.txt").write_text("[PAD]\n[UNK]\n")
  with pytest.raises(ValueError, match="small.txt"):
    measure(tmp_path, vocab_file=f"{tmp_path}/small.txt")
  with pytest.raises(ValueError, match="needs `vocab_file`"):
    measure(tmp_path, vocab_file=None)
