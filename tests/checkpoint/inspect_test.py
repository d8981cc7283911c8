"""The contents of checkpoints and the differences between them."""

import ml_dtypes
import numpy as np
from safetensors import numpy as safetensors_numpy

from bert_tf.checkpoint import checkpoints
from bert_tf.checkpoint import inspect as checkpoint_inspection

TENSORS = {
  "bert/a": np.array([[3.0, 4.0]], np.float32),
  "bert/b": np.array([1, 2, 2], np.float32),
}
TRAINING = {
  **TENSORS,
  "bert/a/adam_m": np.zeros((1, 2), np.float32),
  "global_step": np.int64(7),
}


def write(path, tensors):
  checkpoints.write(str(path), tensors)
  return str(path)


def differences(first, second):
  readers = map(checkpoints.CheckpointReader, (first, second))
  return list(checkpoint_inspection.differences(*readers))


def test_safetensors_and_their_folders_are_read(tmp_path):
  tensors = {"a": TENSORS["bert/a"].astype(ml_dtypes.bfloat16)}
  path = tmp_path / "model.safetensors"
  safetensors_numpy.save_file(tensors, path)
  for opened in (path, tmp_path):
    reader = checkpoints.CheckpointReader(str(opened), keeps_names=True)
    assert list(checkpoint_inspection.describe(reader)) == [
      "a  1x2  bfloat16  norm 5",
      f"{path}: 2 parameters in 1 tensors",
    ]


def test_every_difference_is_named(tmp_path):
  first = write(
    tmp_path / "a.ckpt",
    {**TENSORS, "mine": np.float32(0), "kind": np.float32(1)},
  )
  second = write(
    tmp_path / "b.ckpt",
    {
      "bert/a": np.array([[3.0, 4.5]], np.float32),
      "bert/b": np.zeros((3, 1), np.float32),
      "kind": np.float16(1),
      "theirs": np.float32(0),
    },
  )
  assert differences(first, second) == [
    "bert/a: max abs difference 0.5",
    "bert/b: shape (3,) and (3, 1)",
    "kind: dtype float32 and float16",
    f"mine: only in {first}",
    f"theirs: only in {second}",
  ]


def test_the_script_lists_and_compares(tmp_path, run_script):
  first = write(tmp_path / "a.ckpt", TRAINING)
  second = write(tmp_path / "b.ckpt", {**TRAINING, "bert/b": np.ones(3, "f4")})
  listing = run_script("inspect", "a.ckpt", cwd=tmp_path)
  assert listing.returncode == 0, listing.stderr
  assert listing.stdout.splitlines() == [
    "bert/a  1x2  float32  norm 5",
    "bert/a/adam_m  1x2  float32  norm 0",
    "bert/b  3  float32  norm 3",
    "global_step  scalar  int64  norm 7",
    "a.ckpt: 5 parameters in 2 tensors",
    "and 3 values of the optimizer and step in 2",
  ]
  same = run_script("inspect", first, first, cwd=tmp_path)
  assert same.returncode == 0
  assert same.stdout == "4 tensors, all equal\n"
  other = run_script("inspect", first, second, cwd=tmp_path)
  assert other.returncode == 1
  assert other.stdout.splitlines() == [
    "bert/b: max abs difference 1",
    "1 of 4 tensors differ",
  ]
