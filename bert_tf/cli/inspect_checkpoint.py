"""Lists a checkpoint's tensors, or the differences between two checkpoints.

  bert-tf inspect CHECKPOINT [OTHER]

Exit status 0 if two are equal, 1 if they differ.
"""

import collections
import sys

from bert_tf.cli import command


def _list(path: str) -> None:
  """Prints names, shapes, dtypes and norms, then totals."""
  from bert_tf.convert import inspect

  tensors = inspect.open_tensors(path)
  num_tensors: dict[bool, int] = collections.Counter()
  num_values: dict[bool, int] = collections.Counter()
  for row in inspect.rows(tensors):
    shape = "x".join(map(str, row.shape)) or "scalar"
    print(f"{row.name}  {shape}  {row.dtype}  norm {row.norm:.6g}")
    num_tensors[row.is_state] += 1
    num_values[row.is_state] += row.num_values
  print(
    f"{tensors.path}: {num_values[False]:,} parameters in "
    f"{num_tensors[False]} tensors"
  )
  if num_tensors[True]:
    print(
      f"and {num_values[True]:,} numbers of the training in {num_tensors[True]}"
    )


def _compare(path: str, other_path: str) -> None:
  """Prints the differences; exits with 1 if there are any."""
  from bert_tf.convert import inspect

  first = inspect.open_tensors(path)
  second = inspect.open_tensors(other_path)
  num_differing = 0
  for line in inspect.differences(first, second):
    print(line)
    num_differing += 1
  if num_differing:
    num_tensors = len({*first.shapes, *second.shapes})
    print(f"{num_differing} of {num_tensors} tensors differ")
    sys.exit(1)
  print(f"{len(first.shapes)} tensors, all the same")


def main(path: str, other_path: str | None = None) -> None:
  """Lists one checkpoint or compares two."""
  if other_path is None:
    _list(path)
  else:
    _compare(path, other_path)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  command.run(main, __doc__, ["CHECKPOINT", "[OTHER]"], num_optional=1)
