"""Saves checkpoints without training, to kill a process at each operation."""

import numpy as np

from bert_tf.checkpoint import checkpoints, run_folder
from tests.chaos import trainer

_NUM_SAVES = 8


def _tensors(step: int) -> dict[str, np.ndarray]:
  rng = np.random.default_rng(step)
  values = {f"layer_{i}/kernel": rng.random((8, 8)) for i in range(3)}
  return {**values, checkpoints.GLOBAL_STEP: np.int64(step)}


def train(output_dir: str, operations: trainer.Operations) -> None:
  """Saves checkpoints 1 to 8, or those after the newest one.

  Raises:
    RuntimeError: if the newest checkpoint has other values than were saved.
  """
  trainer.count_saves(operations)
  with run_folder.RunFolder(output_dir, "pretraining").exclusive(True):
    for number in range(_newest(output_dir) + 1, _NUM_SAVES + 1):
      checkpoints.save(output_dir, _tensors(number), keep_checkpoint_max=2)
      print(f"Saved {output_dir}/model.ckpt-{number}.", flush=True)


def _newest(output_dir: str) -> int:
  """Returns the step of the newest checkpoint, 0 without one."""
  path = checkpoints.find_latest(output_dir)
  if not path:
    return 0
  reader = checkpoints.CheckpointReader(path)
  step = int(reader.get(checkpoints.GLOBAL_STEP))
  for name, value in _tensors(step).items():
    if reader.get(name).tobytes() != value.tobytes():
      raise RuntimeError(f"{path}: another {name}")
  return step
