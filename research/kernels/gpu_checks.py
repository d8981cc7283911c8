r"""Trains on a GPU with the fused attention and without, whole and resumed.

    python -m research.kernels.gpu_checks OUT --input_file=data.tfrecord \
        --bert_config_file=bert_config.json --precision=bfloat16 \
        --num_train_steps=200 --save_checkpoints_steps=100

All flags after OUT are those of run_pretraining.py. Five runs train at the same
time, so the GPU needs memory for all of them, and their times say nothing:

    fused, plain          the two forms of attention
    resumed               fused, stopped at half of the steps and started again
    exact, exact_resumed  the same two with --deterministic

Prints the losses of the two forms at each logged step, and whether resumed runs
equal uninterrupted ones to the bit. Exits with status 1 if the losses of the
last step differ by more than 0.02, or if a deterministic run changed.
"""

import concurrent.futures
import os
import subprocess
import sys

import numpy as np

from bert_tf.checkpoint import checkpoints
from bert_tf.training import curves

_PLAIN = (
  "from bert_tf.model.kernels import fused_attention as f; "
  "f.can_compute = lambda *_: False; "
  "from bert_tf.cli import run_pretraining; run_pretraining.run()"
)
_FUSED = "from bert_tf.cli import run_pretraining; run_pretraining.run()"

# Fused and plain round differently; 200 steps of one seed stay this close.
_MAX_DIFFERENCE = 0.02


def _train(out: str, name: str, code: str, flags: list[str]) -> None:
  """Runs training processes for one folder, one after another."""
  memory = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
  steps = int(next(f for f in flags if "num_train_steps" in f).split("=")[1])
  stops = [steps // 2, steps] if "resumed" in name else [steps]
  for stop in stops:
    path = os.path.join(out, f"{name}_{stop}.log")
    command = [
      *(sys.executable, "-c", code, *flags, "--do_train"),
      *(f"--output_dir={out}/{name}", f"--stop_at_step={stop}"),
      *(["--deterministic"] if "exact" in name else []),
    ]
    with open(path, "w") as log:
      done = subprocess.run(
        command, stdout=log, stderr=log, env={**os.environ, **memory}
      )
    if done.returncode:
      sys.exit(f"A run failed; {path} tells why.")


def _largest_difference(out: str, name: str, other: str) -> float:
  """Returns the largest difference of two runs' last checkpoints."""
  one, two = (
    checkpoints.CheckpointReader(os.path.join(out, folder))
    for folder in (name, other)
  )
  return max(
    float(np.max(np.abs(np.subtract(one.get(key), two.get(key), dtype=float))))
    for key in one.shapes
  )


def main() -> None:
  """Trains, compares and prints."""
  out, *flags = sys.argv[1:]
  os.makedirs(out)
  codes = dict.fromkeys(("fused", "resumed", "exact", "exact_resumed"), _FUSED)
  codes["plain"] = _PLAIN
  with concurrent.futures.ThreadPoolExecutor(len(codes)) as pool:
    for run in [
      pool.submit(_train, out, name, code, flags)
      for name, code in codes.items()
    ]:
      run.result()
  fused, plain = (
    curves.read(os.path.join(out, name))["loss"] for name in ("fused", "plain")
  )
  print(f"{'step':>8}{'fused':>10}{'plain':>10}")
  for step, loss in fused.items():
    print(f"{step:8}{loss:10.4f}{plain[step]:10.4f}")
  resumed = _largest_difference(out, "fused", "resumed")
  exact = _largest_difference(out, "exact", "exact_resumed")
  print(f"Resumed: {resumed:.1e}; with --deterministic: {exact:.1e}.")
  last = max(fused)
  sys.exit(exact > 0 or abs(fused[last] - plain[last]) > _MAX_DIFFERENCE)


if __name__ == "__main__":
  main()
