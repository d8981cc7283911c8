"""Writes every kind of file to disks that are too small."""

import contextlib
import pathlib
import random
import subprocess
from collections.abc import Callable, Iterator

from bert_tf.checkpoint import checkpoints
from bert_tf.checkpoint.convert import convert
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.inference import config as inference_config
from bert_tf.inference import feature_extraction
from tests.chaos import outcomes
from tests.support import tiny_models

# Files of a converted model that are written before its weights.
_SMALL_FILES = ("bert_config.json", "vocab.txt", "run.json", "label_map.json")
_TEXTS = "the of and\nin the [MASK]\n" * 20


def can_mount(folder: pathlib.Path) -> bool:
  """Returns whether this user can mount a disk in memory (tmpfs)."""
  try:
    with small_disk(folder, 64):
      return True
  except (OSError, subprocess.CalledProcessError):
    return False


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, num_kib: int) -> Iterator[pathlib.Path]:
  """Mounts an empty disk of `num_kib` KiB below a folder; yields its path."""
  disk = folder / "disk"
  disk.mkdir(parents=True, exist_ok=True)
  mount = ["mount", "-t", "tmpfs", "-o", f"size={num_kib}k", "tmpfs", disk]
  subprocess.run(mount, check=True, capture_output=True)
  try:
    yield disk
  finally:
    subprocess.run(["umount", "-l", disk], check=True, capture_output=True)


def writers(
  folder: pathlib.Path,
) -> dict[str, Callable[[str], object]]:
  """Returns functions that write to a path, by name of the file or folder."""
  run = tiny_models.write_classifier(folder / "run")
  (folder / "texts").write_text(_TEXTS)
  source = ModelFolder.open(str(run))
  extraction = inference_config.ExtractionConfig(
    init_checkpoint=str(run), layers=(-1, -2)
  )
  reader = checkpoints.CheckpointReader(str(run))
  tensors = {name: reader.get(name) for name in reader.shapes}

  def extract(path: str, output_format: str) -> None:
    feature_extraction.extract_file(
      extraction, str(folder / "texts"), path, output_format
    )

  return {
    "hf": lambda path: convert.convert(source, path, "hf"),
    "slim.ckpt": lambda path: convert.slim(str(run), path),
    "saved": lambda path: export.run(
      export_config.ExportConfig(export_dir=path, init_checkpoint=str(run))
    ),
    "features.jsonl": lambda path: extract(path, "jsonl"),
    "features.npz": lambda path: extract(path, "npz"),
    "model.ckpt": lambda path: checkpoints.write(path, tensors),
  }


def attack(num_tries: int, seed: int, folder: pathlib.Path) -> outcomes.Outcome:
  """Writes each kind of file to disks of 4 KiB to 1 MiB."""
  rng = random.Random(seed)
  outcome = outcomes.Outcome("files written to a full disk")
  functions = writers(folder)
  names = list(functions)
  for index in range(num_tries):
    name = names[index % len(names)]
    with small_disk(folder, int(4 * 2 ** rng.uniform(0, 8))) as disk:
      outcome.add(*_try_to_write(functions[name], disk / "out" / name))
  return outcome


def _try_to_write(
  write: Callable[[str], object], target: pathlib.Path
) -> tuple[str, str]:
  """Writes a file; returns the result and the fault, if any."""
  try:
    write(str(target))
  except Exception as error:  # noqa: BLE001  Any other error is a fault.
    message = str(error)
    is_named = target.parent.name in message and "space" in message
    if not is_named or "\n" in message:
      return "", f"{target.name}: {type(error).__name__}: {message}"
    left = [path.name for path in _files(target) if _is_weights(path)]
    return "errors that name file and reason", ", ".join(left)
  if not any(_is_weights(path) for path in _files(target)):
    return "", f"{target.name} was not written, without an error"
  return "written", ""


def _files(target: pathlib.Path) -> list[pathlib.Path]:
  return [path for path in target.parent.rglob("*") if path.is_file()]


def _is_weights(path: pathlib.Path) -> bool:
  """Returns whether a reader would take the file for weights or a result."""
  is_text = path.name in ("config.json", "tokenizer_config.json")
  return path.name not in _SMALL_FILES and not is_text
