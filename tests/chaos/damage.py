"""Damages files of models and records, and reads them again.

Reading must return the original content or raise one clear error. Checkpoints
and records have checksums. Configs, vocabularies and labels do not: a damaged
file that is still valid may be read, but the weights must be the same. The
numbers in safetensors have no checksum either, so only the header and the size
of these files are damaged.
"""

import pathlib
import random
import shutil
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import bert_tf
from bert_tf import modeling, tokenization
from bert_tf.checkpoint.convert import convert, pretrained
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.data import input_pipeline
from bert_tf.data.pretraining import pretraining_records
from tests.chaos import bert_run, outcomes
from tests.support import tiny_models

_TEXTS = ["the of and", "in [MASK] was"]
# Predicts once in this many tries, since each prediction takes a second.
_PREDICT_INTERVAL = 100
_RIGHT = "right"
_OTHER = "another valid text file, the same weights"
_REFUSED = "one clear error"

# The bytes of weights or records by name, and the other content of a folder.
_Content = tuple[dict[str, bytes], object]


def damaged(data: bytes, rng: random.Random) -> bytes:
  """Returns a copy of the bytes with some changed, removed or inserted."""
  start = rng.randrange(len(data) + 1)
  size = rng.choice([1, 1, 4, 64, 4096])
  head, cut = data[:start], data[start : start + size]
  tail = data[start + size :]
  flipped = bytes([cut[0] ^ 1 << rng.randrange(8)]) if cut else b""
  return rng.choice(
    [
      lambda: head,  # Cut short.
      lambda: head + flipped + data[start + 1 :],
      lambda: head + flipped + data[start + 1 :],
      lambda: head + rng.randbytes(len(cut)) + tail,
      lambda: head + bytes(len(cut)) + tail,
      lambda: head + tail,
      lambda: head + rng.randbytes(size) + cut + tail,
      lambda: head + cut + cut + tail,
      lambda: b"",
    ]
  )()


def attack(num_tries: int, seed: int, folder: pathlib.Path) -> outcomes.Outcome:
  """In each try, damages one file of a folder and reads the folder."""
  outcome = outcomes.Outcome(
    "damaged files: checkpoints, records, configs, others"
  )
  rng = random.Random(seed)
  run = tiny_models.write_classifier(folder / "run")
  source = ModelFolder.open(str(run), do_lower_case=True)
  convert.convert(source, str(folder / "hf"), "hf")
  (folder / "records").mkdir()
  bert_run.prepare(folder / "records")
  targets = [
    *((run, p.name, _read_run) for p in run.iterdir()),
    *((folder / "hf", p.name, _read_hf) for p in (folder / "hf").iterdir()),
    *[(folder / "records", "data.tfrecord", _read_records)] * 4,
  ]
  originals = {read: read(original) for original, _, read in targets}
  answers = bert_tf.Predictor(str(run)).predict(_TEXTS)
  for index in range(num_tries):
    original, name, read = targets[index % len(targets)]
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)
    _damage(copy / name, rng)
    result, fault = _read_damaged(read, copy, originals[read])
    if read is _read_run and not fault and index % _PREDICT_INTERVAL == 0:
      fault = _find_wrong_answer(copy, answers, result)
    outcome.add(result, fault and f"try {index}, {name}: {fault}")
  return outcome


def _damage(path: pathlib.Path, rng: random.Random) -> None:
  data = path.read_bytes()
  changed = damaged(data, rng)
  if path.name == "model.safetensors" and len(changed) == len(data):
    header = 8 + int.from_bytes(data[:8], "little")
    changed = damaged(data[:header], rng) + data[header:]
  path.write_bytes(changed)


def _read_damaged(
  read: Callable[[pathlib.Path], _Content],
  folder: pathlib.Path,
  original: _Content,
) -> tuple[str, str]:
  """Reads a damaged folder; returns the result and the fault, if any."""
  try:
    weights, others = read(folder)
  except (ValueError, OSError) as error:
    message = str(error)
    is_clear = message and len(message.splitlines()) == 1
    return _REFUSED, "" if is_clear else f"unclear: {message!r}"
  except Exception as error:  # noqa: BLE001  An unexpected error.
    return "", f"{type(error).__name__}: {error}"
  if weights != original[0]:
    return "", "other weights or records"
  return _RIGHT if others == original[1] else _OTHER, ""


def _read_run(folder: pathlib.Path) -> _Content:
  """Reads a run's folder as the Predictor does."""
  files = ModelFolder.open(str(folder))
  names = sorted(files.reader.shapes)
  weights = {name: files.reader.get(name).tobytes() for name in names}
  vocab, config = files.vocab, files.config
  return weights, (vocab, vars(config), files.saved and files.saved.labels)


def _read_hf(folder: pathlib.Path) -> _Content:
  """Reads a folder in Hugging Face's format."""
  model = pretrained.read(ModelFolder.open(str(folder)))
  weights = {name: value.tobytes() for name, value in model.tensors.items()}
  vocab = tokenization.load_vocab(model.vocab_file)
  return weights, (vocab, vars(model.config), model.run)


def _read_records(folder: pathlib.Path) -> _Content:
  """Reads records as training does; accepts a file cut between records."""
  config = bert_run.make_config(str(folder / "out"))
  files = input_pipeline.open_records(config.input_file)
  spec = pretraining_records.RecordFormat(
    config.max_seq_length, config.max_predictions_per_seq
  ).spec()
  bert_config = modeling.BertConfig.from_json_file(config.bert_config_file)
  vocab_size = bert_config.vocab_size
  input_pipeline.check_first_records(files, spec, vocab_size)
  records = list(tf.data.TFRecordDataset(files.paths).as_numpy_iterator())
  original = bert_run.records()
  # A file that was cut between two records is a valid shorter file.
  if records == original[: len(records)]:
    records = original
  return dict(enumerate(records)), None


def _find_wrong_answer(folder: pathlib.Path, answers: list, result: str) -> str:
  """Returns the fault in a damaged run's predictions, or an empty string."""
  try:
    predictions = bert_tf.Predictor(str(folder)).predict(_TEXTS)
  except (ValueError, OSError) as error:
    return f"{result}, but then: {error}" if result == _RIGHT else ""
  if result != _RIGHT:
    return ""
  for prediction, expected in zip(predictions, answers):
    values = [list(a["probabilities"].values()) for a in (prediction, expected)]
    if not np.allclose(*values, atol=1e-5):
      return f"other answers: {predictions}"
  return ""
