"""A run that records its operations on files, and may be killed at one.

python -m tests.chaos.killed KIND OUTPUT_DIR [INDEX SECONDS]

KIND is "training" (a small pre-training with dropout, which saves every third
step) or "saves" (checkpoints without training). The process is killed SECONDS
after it reaches the operation with this index. It writes the names of its
operations to OUTPUT_DIR.operations when it ends.
"""

import json
import os
import pathlib
import signal
import sys

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import checkpoints, run_folder
from bert_tf.data import records
from bert_tf.tasks.pretraining import pretraining
from tests.support import pretrainings, runs

_LENGTH, _NUM_MASKS = 16, 3
# Python's audit events for operations that may change files.
_EVENTS = (
  *("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link"),
  "os.truncate",
)


def count_operations(output_dir, kill_at, seconds):
  """Returns the growing list of operations on files of a folder."""
  names = []
  process = os.getpid()  # Helper processes are not counted.

  def add(name):
    if len(names) == kill_at:
      if not seconds:
        os.kill(process, signal.SIGKILL)
      # The default action of SIGALRM ends a process, as SIGKILL does.
      signal.setitimer(signal.ITIMER_REAL, seconds)
    names.append(name)

  def audit(event, arguments):
    if event in _EVENTS and arguments and isinstance(arguments[0], str):
      if arguments[0].startswith(output_dir) and os.getpid() == process:
        add(f"{event} {arguments[0].removeprefix(output_dir)}")

  # TensorFlow's writing of checkpoints raises no audit event.
  save = tf.raw_ops.SaveV2

  def counted_save(**arguments):
    add("SaveV2 model.ckpt")
    save(**arguments)

  tf.raw_ops.SaveV2 = counted_save
  sys.addaudithook(audit)
  return names


def train(output_dir):
  """Trains 30 steps, on from the newest checkpoint, on records beside."""
  logging.set_verbosity(logging.INFO)
  plan = {
    "output_dir": output_dir,
    "learning_rate": 1e-3,
    "num_train_steps": 30,
    "num_warmup_steps": 5,
    "save_checkpoints_steps": 3,
    "keep_checkpoint_max": 2,
  }
  folder = pathlib.Path(output_dir).parent
  config = pretrainings.make(folder, plan, max_predictions_per_seq=_NUM_MASKS)
  pretraining.run(config)


def prepare(folder):
  """Writes records and config.json for the trainings in a folder."""
  (folder / "config.json").write_text(json.dumps(runs.CONFIG))
  rng = np.random.default_rng(1)
  with records.open_writer([str(folder / "records")]) as writer:
    for index in range(40):
      ints = {
        "input_ids": rng.integers(5, 500, _LENGTH),
        "input_mask": np.ones(_LENGTH, int),
        "segment_ids": np.repeat([0, 1], _LENGTH // 2),
        "masked_lm_positions": np.sort(rng.permutation(_LENGTH)[:_NUM_MASKS]),
        "masked_lm_ids": rng.integers(5, 500, _NUM_MASKS),
        "next_sentence_labels": np.array([index % 2]),
      }
      floats = {"masked_lm_weights": np.ones(_NUM_MASKS, np.float32)}
      writer.write(records.encode_example(ints, floats))


def save(output_dir):
  """Saves checkpoints 1 to 8, or those after the newest, which it compares."""

  def tensors(step):
    rng = np.random.default_rng(step)
    values = {f"layer_{i}/kernel": rng.random((8, 8)) for i in range(3)}
    return {**values, checkpoints.GLOBAL_STEP: np.int64(step)}

  newest = 0
  if path := checkpoints.find_latest(output_dir):
    reader = checkpoints.CheckpointReader(path)
    newest = int(reader.get(checkpoints.GLOBAL_STEP))
    for name, value in tensors(newest).items():
      np.testing.assert_array_equal(reader.get(name), value)
  with run_folder.RunFolder(output_dir, "pretraining").exclusive(True):
    for step in range(newest + 1, 9):
      checkpoints.save(output_dir, tensors(step), keep_checkpoint_max=2)
      print(f"Saved {output_dir}/model.ckpt-{step}.", flush=True)


def main(kind, output_dir, kill_at="-1", seconds="0"):
  names = count_operations(output_dir, int(kill_at), float(seconds))
  {"training": train, "saves": save}[kind](output_dir)
  pathlib.Path(f"{output_dir}.operations").write_text(json.dumps(names))


if __name__ == "__main__":
  main(*sys.argv[1:])
