"""Pre-training with `use_xla=auto`, which is killed.

The measured step times are replaced, so that each new choice of a run selects
another compilation mode. A process that chose again would end with other
weights.
"""

import dataclasses
import math
import pathlib
import re

from absl import logging

from bert_tf.tasks import pretraining
from bert_tf.training import compilation, tuning
from tests.chaos import bert_run, trainer

# In the order in which they are timed. The third mode would add a compilation
# to each run and no other way to lose the choice.
_MODES = compilation.PLAIN, compilation.WHOLE
# Folders of runs. The number in a name is the index of the first mode that the
# run chooses.
FOLDERS = tuple(f"form{i}" for i in range(len(_MODES)))


def train(output_dir: str, operations: trainer.Operations) -> None:
  """Trains to the end, from the newest checkpoint if there is one."""
  logging.set_verbosity(logging.INFO)
  trainer.count_saves(operations)
  _replace_times(pathlib.Path(output_dir))
  config = bert_run.make_config(output_dir)
  settings = dataclasses.replace(config.train, use_xla=None)
  pretraining.run(dataclasses.replace(config, train=settings))


def _replace_times(run: pathlib.Path) -> None:
  """Replaces step times, so that each new choice selects the next mode."""
  tuning._MIN_STEPS = 1
  tuning._MIN_SECONDS = 0.0
  tuning._MIN_SECONDS_FOR_CLUSTERED = math.inf
  measured = tuning._time_step
  log = run.with_name(run.name + ".log").read_text()
  number = int(re.sub(r"\D", "", run.name)) + log.count("Chose by")
  timed = iter(_MODES)

  def replaced(take_step) -> float:
    measured(take_step)  # These steps train; the run must undo them.
    return float(next(timed) is not _MODES[number % len(_MODES)])

  tuning._time_step = replaced


def operations(names: list[str]) -> list[int]:
  """Returns the indices of operations from the choice to the fifth save."""
  choice = [i for i, name in enumerate(names) if tuning.FILE in name]
  saves = [i for i, name in enumerate(names) if "SaveV2" in name]
  return list(range(choice[0], saves[4]))
