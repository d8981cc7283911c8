"""A small sample of the kills of kills.py; damaged files and full disks."""

import pathlib
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bert_tf.checkpoint import checkpoints, convert
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.inference import config as inference_config
from bert_tf.inference import feature_extraction
from tests.chaos import kills
from tests.support import tiny_models


def test_a_save_is_killed_at_its_operations_and_loses_nothing(
  tmp_path, fork_server
):
  attacks = kills.Attacks(fork_server, "saves", tmp_path)
  operations = attacks.one_save()
  names = " ".join(attacks.operations[i] for i in operations)
  # A save writes and renames both files, lists them, and removes an old one.
  for part in ("SaveV2", "os.rename", "checkpoint", "os.remove /model.ckpt-"):
    assert part in names
  assert not attacks.kill([[(i, 0.0)] for i in operations[::3]])


def test_a_killed_training_ends_with_the_same_bits(tmp_path, fork_server):
  attacks = kills.Attacks(fork_server, "training", tmp_path)
  at_a_save = [[(i, 0.0)] for i in attacks.one_save()[::16]]
  assert not attacks.kill([*at_a_save, *attacks.random_moments(1, seed=1)])


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """A run, and the same model in Hugging Face's format, with their content."""
  folder = tmp_path_factory.mktemp("models")
  run = tiny_models.write_classifier(folder / "run")
  source = ModelFolder.open(str(run), do_lower_case=True)
  convert.convert(source, str(folder / "hf"), "hf")
  return {path: read(path) for path in (run, folder / "hf")}


def read(path):
  """Returns the bytes of all weights of a model, which it converts."""
  target = path.with_name("again")
  shutil.rmtree(target, ignore_errors=True)
  convert.convert(ModelFolder.open(str(path)), str(target / "m"))
  reader = checkpoints.CheckpointReader(str(target / "m"))
  return {name: reader.get(name).tobytes() for name in reader.shapes}


@settings(
  max_examples=60,
  deadline=None,
  derandomize=True,
  suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_damaged_file_is_read_correctly_or_refused(models, tmp_path, data):
  original = data.draw(st.sampled_from(sorted(models)))
  name = data.draw(st.sampled_from(sorted(p.name for p in original.iterdir())))
  copy = tmp_path / "copy"
  shutil.rmtree(copy, ignore_errors=True)
  shutil.copytree(original, copy)
  content = (copy / name).read_bytes()
  # Numbers of safetensors have no checksum, only a size.
  last = 300 if name.endswith(".safetensors") else len(content)
  start = data.draw(st.integers(0, min(last, len(content))))
  removed = data.draw(st.sampled_from([1, 64, len(content)]))
  added = data.draw(st.binary(max_size=8))
  damaged = content[:start] + added + content[start + removed :]
  if name.endswith(".safetensors") and len(damaged) == len(content):
    return
  (copy / name).write_bytes(damaged)
  try:
    assert read(copy) == models[original]
  except (ValueError, OSError) as error:
    assert len(str(error).splitlines()) == 1, error


@pytest.fixture(params=[8, 128])
def disk(request, tmp_path):
  """Yields an empty disk of some KiB in memory (tmpfs)."""
  disk = tmp_path / "disk"
  disk.mkdir()
  size = f"size={request.param}k"
  mount = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(disk)]
  if subprocess.run(mount, capture_output=True).returncode:
    pytest.skip("needs the right to mount a tmpfs, as root has it")
  yield disk
  subprocess.run(["umount", "-l", disk], check=True, capture_output=True)


def extract(run, path):
  config = inference_config.ExtractionConfig(init_checkpoint=run, layers=(-1,))
  texts = pathlib.Path(run).with_name("texts")
  texts.write_text("the of and\nin the [MASK]\n" * 20)
  feature_extraction.extract_file(config, str(texts), path, "jsonl")


def export_to(run, path):
  export.run(export_config.ExportConfig(export_dir=path, init_checkpoint=run))


def convert_to(kind):
  return lambda run, path: convert.convert(ModelFolder.open(run), path, kind)


@pytest.mark.parametrize(
  ("name", "write"),
  [
    ("hf", convert_to("hf")),
    ("bert_model.ckpt", convert_to("original")),
    ("saved", export_to),
    ("features.jsonl", extract),
  ],
)
def test_a_full_disk_is_named_and_no_partial_weights_are_left(
  name, write, disk, tmp_path
):
  run = tiny_models.write_classifier(tmp_path / "run")
  try:
    write(str(run), str(disk / "out" / name))
  except Exception as error:  # noqa: BLE001  Any other error is a fault.
    assert "space" in str(error) and "out" in str(error), repr(error)
    assert "\n" not in str(error)
    files = [p for p in (disk / "out").rglob("*") if p.is_file()]
    assert not [p for p in files if p.suffix not in (".json", ".txt")]
