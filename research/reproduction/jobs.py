"""Runs that reproduce the paper: their settings, and their commands.

Sources of the settings:
- GLUE, models of BERT-Base's size or larger: batch 32, 3 epochs, the learning
  rate that is best on dev of 5e-5, 4e-5, 3e-5 and 2e-5 (Devlin et al. 2019,
  4.1). The length is that of the README's commands.
- GLUE, smaller models: batches, learning rates and 4 epochs of the README of
  google-research/bert, March 11th, 2020.
- SQuAD 1.1: batch 32, 5e-5, 3 epochs (4.2). SQuAD-1.1-README: batch 12 for
  BERT-Base and 24 for BERT-Large, 3e-5, 2 epochs (README). Length, stride and
  the threshold of SQuAD 2.0 follow the README.
- SQuAD-1.1-TriviaQA: an epoch of TriviaQA first (4.2; README).
- SQuAD 2.0: batch 48, 5e-5, 2 epochs (4.3).
- SWAG: batch 16, 2e-5, 3 epochs (4.4).
- XNLI: multilingual.md of google-research/bert.
- CoNLL-2003: document context (5.3) and the learning rates of appendix A.3.
  The paper names neither batch nor epochs; 32 and 3 are ours. Features: batch
  16, 6 epochs and 1e-3, also ours.
"""

import dataclasses
import decimal
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from research import rows
from research.reproduction import config as config_lib
from research.reproduction import tasks as tasks_lib

# Layers and width of BERT-Base and BERT-Large.
BASE, LARGE = (12, 768), (24, 1024)

_EVAL_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True)
class Grid:
  """The settings of a task that are compared on dev."""

  batch_sizes: Sequence[int]
  learning_rates: Sequence[str]
  num_train_epochs: float
  max_seq_length: int = 128


_PAPER = Grid((32,), ("5e-5", "4e-5", "3e-5", "2e-5"), 3)
_SMALL = Grid((8, 16, 32, 64, 128), ("3e-4", "1e-4", "5e-5", "3e-5"), 4)
_README = "SQuAD-1.1-README"
_XNLI = Grid((32,), ("5e-5",), 2)
_GRIDS = {
  "SQuAD-1.1": Grid((32,), ("5e-5",), 3, 384),
  "SQuAD-1.1-TriviaQA": Grid((32,), ("5e-5",), 3, 384),
  _README: Grid((12,), ("3e-5",), 2, 384),
  "SQuAD-2.0": Grid((48,), ("5e-5",), 2, 384),
  "SWAG": Grid((16,), ("2e-5",), 3),
  "CoNLL-2003": Grid((32,), ("5e-5", "3e-5", "2e-5"), 3),
  **{f"XNLI-{language}": _XNLI for language in tasks_lib.LANGUAGES},
}
_FEATURES = Grid((16,), ("1e-3",), 6)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
  """A fine-tuning of a model with one seed."""

  model: str  # The model's name.
  task: str  # A name in tasks.TASKS.
  train_batch_size: int
  learning_rate: str
  num_train_epochs: float
  max_seq_length: int
  # Other flags that change the results, such as precision.
  flags: tuple[tuple[str, str], ...]
  seed: int

  @property
  def config(self) -> dict[str, Any]:
    """All settings but the seed, as in the row."""
    values = dataclasses.asdict(self)
    del values["seed"]
    return {**values, "flags": dict(self.flags)}

  @property
  def name(self) -> str:
    """A file name that is unique to the config and the seed."""
    return "-".join(
      (
        *(self.model, self.task, f"batch{self.train_batch_size}"),
        *(f"rate{self.learning_rate}", f"seed{self.seed}"),
        rows.digest(self.config),
      )
    )


def find_grid(task: tasks_lib.Task, size: tuple[int, int]) -> Grid:
  """Returns the settings to compare for a model of (layers, width)."""
  if tasks_lib.has_features(task):
    return _FEATURES
  if not tasks_lib.is_glue(task):
    grid = _GRIDS[task.name]
    if task.name == _README and size >= LARGE:
      return dataclasses.replace(grid, batch_sizes=(24,))
    return grid
  is_small = size[0] < BASE[0] or size[1] < BASE[1]
  return _SMALL if is_small else _PAPER


def is_usual(task: tasks_lib.Task, size: tuple[int, int]) -> bool:
  """Returns whether a model has a task by default.

  The README's settings of SQuAD 1.1 are for two sizes, XNLI is for
  multilingual models.
  """
  if task.data_set == "XNLI":
    return False
  return task.name != _README or size in (BASE, LARGE)


def plan(
  config: config_lib.ReproductionConfig,
  model: str,
  size: tuple[int, int],
  tasks: Sequence[tasks_lib.Task],
) -> list[Run]:
  """Returns all runs, task by task, without duplicates.

  Args:
    config: may replace the settings of the tasks.
    model: the model's name.
    size: its layers and width.
    tasks: the tasks that have data.
  """
  runs = []
  for task in tasks:
    grid = find_grid(task, size)
    compute = rows.non_defaults(config.compute)
    flags = {name: str(value).lower() for name, value in compute.items()}
    if config.cut_padding and task.command == "squad":
      flags["cut_padding"] = "true"
    rates = config.learning_rates or grid.learning_rates
    if tasks_lib.has_features(task):  # Not a rate for fine-tuning.
      rates = grid.learning_rates
    epochs = config.num_train_epochs
    if epochs is None:
      epochs = grid.num_train_epochs
    for batch_size, rate, seed in itertools.product(
      config.batch_sizes or grid.batch_sizes, rates, config.seeds
    ):
      run = Run(
        model=model,
        task=task.name,
        train_batch_size=batch_size,
        # As the paper writes it: each rate needs a single spelling, since it is
        # part of a run's name.
        learning_rate=f"{decimal.Decimal(str(float(rate))).normalize():e}",
        num_train_epochs=float(epochs),
        max_seq_length=config.max_seq_length or grid.max_seq_length,
        flags=tuple(sorted(flags.items())),
        seed=seed,
      )
      runs.append(run)
  return list(dict.fromkeys(runs))


def commands(
  run: Run,
  model: str,
  data: tasks_lib.Data,
  folder: str,
  diagnostics: str | None = None,
  extra_flags: Sequence[str] = (),
) -> list[list[str]]:
  """Returns the words after `bert-tf` of each command of a run, in order.

  A word may contain {NAME}, a result of the commands before.

  Args:
    run: the run.
    model: the value of --model.
    data: the files of the task.
    folder: the run's output_dir.
    diagnostics: the folder of AX, which MNLI's model predicts; None without it.
    extra_flags: flags that do not change the results, such as those of devices.
  """
  task = tasks_lib.TASKS[run.task]
  shared = [f"--predict_batch_size={_EVAL_BATCH_SIZE}"]
  if task.command != "squad":  # It evaluates its predictions.
    shared.append(f"--eval_batch_size={_EVAL_BATCH_SIZE}")
  shared += [f"--{name}={value}" for name, value in run.flags]
  shared += extra_flags
  settings = [
    f"--max_seq_length={run.max_seq_length}",
    f"--train_batch_size={run.train_batch_size}",
    f"--learning_rate={run.learning_rate}",
    f"--seed={run.seed}",
    "--keep_checkpoint_max=1",
    *shared,
  ]
  data_flags = [f"--data_dir={data.folder}"]
  if task.command == "squad":
    # The README's 128, or half of the room beside a question in short windows.
    stride = min(128, (run.max_seq_length - 67) // 2)
    settings.append(f"--doc_stride={stride}")
    data_flags = [f"--train_file={data.path(0)}"]
    data_flags.append(f"--predict_file={data.path(1)}")
  elif task.command == "ner":
    splits = zip(("train", "dev", "test"), data.files)
    data_flags += [f"--{split}_file={file}" for split, file in splits]
  earlier = []
  if task.data_set == "TriviaQA":  # An epoch, as the README proposes.
    trained = os.path.join(folder, "triviaqa")
    earlier.append(
      [
        *("squad", "--do_train", f"--train_file={data.path(2)}"),
        *(f"--model={model}", "--num_train_epochs=1"),
        *(f"--output_dir={trained}", *settings),
      ]
    )
    model = trained
  main = [
    *(task.command, *task.flags, *data_flags, f"--model={model}"),
    f"--num_train_epochs={run.num_train_epochs:g}",
    *(f"--output_dir={folder}", *settings),
  ]
  later = _later_commands(task, data, folder, diagnostics, shared)
  return [*earlier, main, *later]


def _later_commands(
  task: tasks_lib.Task,
  data: tasks_lib.Data,
  folder: str,
  diagnostics: str | None,
  shared: Sequence[str],
) -> list[list[str]]:
  """Returns the commands that use the model in `folder`."""
  if task.name == "SQuAD-2.0":
    # The README chooses the threshold of "no answer" in the same way.
    return [
      [
        *("squad", "--do_predict", "--version_2_with_negative"),
        f"--predict_file={data.path(1)}",
        "--null_score_diff_threshold={best_f1_thresh}",
        *(f"--output_dir={folder}", *shared),
      ]
    ]
  source = f"--data_dir={data.folder}"
  flags = {}  # By the part of the folder that gets the results.
  if task.name == "MNLI":
    flags["mm"] = ["--task_name=MNLI-mm", "--do_eval", source]
    if diagnostics:
      ax = f"--data_dir={diagnostics}"
      flags["ax"] = ["--task_name=AX", "--do_predict", ax]
  if task.name == "XNLI-en":  # Zero-shot: other languages than in training.
    for language in tasks_lib.LANGUAGES[1:]:
      name = f"--xnli_language={language}"
      flags[language] = ["--task_name=XNLI", name, "--do_eval", source]
  return [
    [
      *("classifier", *words, f"--model={folder}"),
      *(f"--output_dir={os.path.join(folder, part)}", *shared),
    ]
    for part, words in flags.items()
  ]


def fill(words: Sequence[str], results: Mapping[str, float]) -> list[str]:
  """Returns the words of a command with {NAME} replaced by earlier results."""
  filled = list(words)
  for name, value in results.items():
    filled = [word.replace(f"{{{name}}}", str(value)) for word in filled]
  return filled
