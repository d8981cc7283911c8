"""Replaces `python` and `bert-tf` when commands of the documentation run.

Appends flags with small sizes to the command, so that it takes seconds. If a
flag is repeated, the last value counts.
"""

import os
import re
import sys

from tests.support import forks

FINE_TUNING = ("--train_batch_size=4", "--num_train_epochs=1", "--nouse_xla")
SMALLER = {
  "build-vocab": ("--vocab_size=500",),
  # The models have one layer.
  "extract-features": ("--layers=-1",),
  "pretrain": (
    *("--train_batch_size=4", "--num_train_steps=6", "--num_warmup_steps=1"),
    *("--save_checkpoints_steps=1", "--max_eval_steps=1", "--nouse_xla"),
  ),
  "classifier": (*FINE_TUNING, "--max_seq_length=16"),
  "vectors": (*FINE_TUNING, "--max_seq_length=16"),
  "ner": (*FINE_TUNING, "--max_seq_length=16"),
  "swag": (*FINE_TUNING, "--max_seq_length=16"),
  "squad": (
    *(*FINE_TUNING, "--max_seq_length=48", "--max_query_length=8"),
    "--doc_stride=8",
  ),
}
# Appended to pre-training from text; the second only to that of a new model.
FROM_TEXT = (
  *("--train_hours=0", "--max_seq_length=32", "--train_batch_size=4"),
  "--eval_fraction=0.3",
)
NEW_MODEL = ("--size=tiny", "--vocab_size=500")
# Appended only if the command has the flag. Each worker imports TensorFlow.
SMALLER_IF_PRESENT = ("--num_shards=2", "--num_workers=1")
# Training times to try. A slow machine refuses a short time before it writes a
# file.
MINUTES = (0.15, 0.3, 1, 10)

# The commands of the scripts of 2018.
SCRIPTS = {
  "create_pretraining_data.py": "create-pretraining-data",
  "extract_features.py": "extract-features",
  "run_classifier.py": "classifier",
  "run_pretraining.py": "pretrain",
  "run_squad.py": "squad",
}


def is_from_text(arguments: list[str]) -> bool:
  """Returns whether a command pre-trains from text."""
  has_text = any(a.startswith("--text=") for a in arguments)
  return has_text and "pretrain" in arguments


def smaller(arguments: list[str]) -> list[str]:
  """Returns the arguments of a command, with smaller sizes appended."""
  smaller_arguments = list(arguments)
  command = os.path.basename(arguments[0])
  command = SCRIPTS.get(command, command)
  if command == "-m":
    command = arguments[2]
  is_training = any(re.match(r"--do_train\b", a) for a in arguments)
  if is_training or command in ("build-vocab", "extract-features"):
    smaller_arguments += SMALLER.get(command, ())
  if is_from_text(arguments):
    smaller_arguments += FROM_TEXT
    if not any(a.startswith("--model=") for a in arguments):
      smaller_arguments += NEW_MODEL
  elif any(a.startswith("--train_hours=") for a in arguments):
    smaller_arguments = [
      a for a in smaller_arguments if not re.match("--num_.*_steps=", a)
    ]
    smaller_arguments.append("--train_hours=0.002")
  for flag in SMALLER_IF_PRESENT:
    if any(a.startswith(flag.split("=")[0] + "=") for a in arguments):
      smaller_arguments.append(flag)
  return smaller_arguments


def run(arguments: list[str]) -> int:
  """Runs a command with small sizes; returns its status."""
  server = os.environ[forks.VARIABLE]
  small = smaller(arguments)
  if not is_from_text(arguments):
    return forks.run_here(server, small)
  status = 1
  for minutes in MINUTES:
    status = forks.run_here(server, [*small, f"--train_minutes={minutes}"])
    if not status:
      break
  return status


if __name__ == "__main__":
  sys.exit(run(sys.argv[1:]))
