import importlib.util
import os
import random
import re
import subprocess
import sys

import pytest

from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import pretraining_shards
from tests.support import checkout

VOCAB = checkout.ROOT / "tests" / "golden" / "pretraining" / "vocab.txt"

needs_beam = pytest.mark.skipif(
  importlib.util.find_spec("apache_beam") is None,
  reason="apache-beam is not there: pip install -e '.[test]'",
)


@pytest.fixture
def text(tmp_path):
  """Twelve documents of words of the hand-made vocabulary."""
  rng = random.Random(5)
  words = "a the on sea fish light boat storm night wind wave old".split()
  path = tmp_path / "text.txt"
  documents = [
    [" ".join(rng.choices(words, k=8)) + "." for _ in range(10)]
    for _ in range(12)
  ]
  path.write_text("\n\n".join(map("\n".join, documents)))
  return str(path)


@pytest.fixture
def config():
  return PretrainingDataConfig(
    vocab_file=str(VOCAB), max_seq_length=32, dupe_factor=2
  )


def contents(folder):
  """Returns the bytes of all files of a folder by name, hidden ones too."""
  return {path.name: path.read_bytes() for path in folder.iterdir()}


def create(config, text, output, num_shards=3, runner="DirectRunner"):
  build = pretraining_shards.beam_builder(output, runner)
  pretraining_shards.create(config, [text], output, num_shards, build=build)


@needs_beam
def test_several_processes_write_the_files_that_num_workers_writes(
  text, config, tmp_path
):
  summary = pretraining_shards.create(
    config, [text], str(tmp_path / "local" / "data"), 3
  )
  result = subprocess.run(
    [
      *(sys.executable, *checkout.program("create-pretraining-data")),
      f"--input_file={text}",
      f"--output_file={tmp_path}/beam/data",
      f"--vocab_file={VOCAB}",
      "--num_shards=3",
      "--max_seq_length=32",
      "--dupe_factor=2",
      "--runner=DirectRunner",
      "--verbosity=1",  # Shows the log of the workers.
      "--pipeline_options=--direct_running_mode=multi_processing "
      "--direct_num_workers=2",
    ],
    capture_output=True,
    text=True,
    # Beam's workers must find bert_tf even if it is not installed.
    env={**os.environ, "PYTHONPATH": str(checkout.ROOT)},
  )
  assert result.returncode == 0, result.stderr
  assert contents(tmp_path / "beam") == contents(tmp_path / "local")
  num_instances = summary.counts.num_instances
  assert re.search(rf"instances +{num_instances}\n", result.stderr)
  # Each worker logs its exit, so the command did not do the work itself.
  exits = result.stderr.count("INFO:__main__:Python sdk harness exiting")
  assert exits == 2


@needs_beam
def test_the_error_of_a_shard_is_one_line(config, tmp_path):
  text = tmp_path / "text.txt"
  text.write_text("\x01\n" * 9 + "\nthe old boat.\n\nthe sea.\n")
  with pytest.raises((ValueError, OSError)) as raised:
    create(config, str(text), str(tmp_path / "out" / "data"), 2)
  message = str(raised.value)
  assert "text.txt" in message and "shard 0" in message
  assert "\n" not in message
  assert "data-00000-of-00002" not in contents(tmp_path / "out")
  # Only files that --resume uses remain, no incomplete file and no counts.
  assert set(contents(tmp_path / "out")) <= {
    ".data.settings.json",
    "data-00001-of-00002",
  }


@needs_beam
def test_an_unknown_runner_is_refused_before_anything_is_written(
  text, config, tmp_path, monkeypatch, capfd
):
  monkeypatch.chdir(tmp_path)
  message = "`runner=Direkt`: Unexpected .*DirectRunner,"
  with pytest.raises(ValueError, match=message) as raised:
    create(config, text, "out/data", runner="Direkt")
  assert "\n" not in str(raised.value)
  assert os.listdir(tmp_path) == ["text.txt"]
  assert "usage:" not in capfd.readouterr().err


def test_without_apache_beam_the_error_names_the_extra(
  text, config, tmp_path, monkeypatch
):
  monkeypatch.setitem(sys.modules, "apache_beam", None)
  output = tmp_path / "out" / "data"
  with pytest.raises(ImportError, match=r"\[beam\]'"):
    create(config, text, str(output))
  assert not output.parent.exists()
