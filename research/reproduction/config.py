"""Settings of the reproduction. Imports no TensorFlow."""

import dataclasses
import os

from bert_tf import settings
from bert_tf.checkpoint import download
from bert_tf.training import config as training_config
from research.reproduction import tasks as tasks_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReproductionConfig:
  """Settings of all runs."""

  output_dir: str = settings.setting(
    help="The folder for runs, logs, rows, report.md and the plot. Checkpoints "
    "of finished runs are deleted.",
    writes="folder",
  )
  model: str | None = settings.setting(
    None,
    "The model to fine-tune: a name that bert-tf download has fetched, or any "
    "folder that the fine-tuning commands take as --model. Required without "
    "--report_only.",
    main=True,
  )
  data: str | None = settings.setting(
    None,
    "The folder of the data sets, in the layout of the original (GLUE/MRPC, "
    "squad, conll2003, swag) or of bert-tf download. What it lacks is taken "
    "from the downloads.",
    main=True,
  )
  tasks: tuple[str, ...] = settings.setting(
    (),
    "The tasks, comma-separated; docs/results.md lists them. Default: all that "
    "have data, except XNLI.",
    main=True,
  )
  seeds: tuple[int, ...] = settings.setting(
    (1, 2, 3), "The seeds of each setting.", main=True
  )
  learning_rates: tuple[str, ...] = settings.setting(
    (),
    "The learning rates to choose from, such as 5e-5,3e-5. Default: what the "
    "paper or the README has for the task and the size of the model. Features "
    "of a frozen BERT always use 1e-3.",
    main=True,
  )
  batch_sizes: tuple[int, ...] = settings.setting(
    (), "The batch sizes to choose from. Default: as for learning_rates."
  )
  num_train_epochs: float | None = settings.setting(
    None, "The training epochs. Default: as for learning_rates.", minimum=0.0
  )
  max_seq_length: int | None = settings.setting(
    None,
    "The maximum length in word pieces. Default: 384 for SQuAD, otherwise 128.",
    minimum=80,
  )
  cut_padding: bool = settings.setting(
    False,
    "Whether to pad batches of SQuAD only to their longest window, as in the "
    "other tasks, which is faster. Scores differ slightly from the original's.",
  )
  predict_test: bool = settings.setting(
    False,
    "Whether to predict GLUE's test sets as well, and keep the files for its "
    "server. Set it from the start, since finished runs are not repeated.",
  )
  rows_dir: str | None = settings.setting(
    None,
    "The folder of the results, with a small JSON file for each run. A run "
    "that has its file is skipped. Default: rows in output_dir.",
    main=True,
  )
  report_only: bool = settings.setting(
    False, "Whether only to write the report from existing rows.", main=True
  )
  dry_run: bool = settings.setting(
    False,
    "Whether only to list the runs, and to estimate the remaining time from "
    "the finished ones.",
    main=True,
  )
  compute: training_config.ComputeConfig = training_config.ComputeConfig()

  def __post_init__(self) -> None:
    """Raises ValueError for invalid settings."""
    settings.check(self)
    if not self.model and not self.report_only:
      raise ValueError(
        "set `model` to the model to fine-tune, or `report_only` for a report "
        "from existing rows."
      )
    names = {name.lower(): name for name in tasks_lib.TASKS}
    unknown = [name for name in self.tasks if name.lower() not in names]
    if unknown:
      raise ValueError(
        f"no task {unknown[0]!r}; use one of {', '.join(names.values())}."
      )

  @property
  def rows(self) -> str:
    """The folder of the rows; by default, `rows` in output_dir."""
    return self.rows_dir or os.path.join(self.output_dir, "rows")

  @property
  def data_folders(self) -> list[str]:
    """The folders that may have the data: `data`, and that of the downloads."""
    downloads = os.path.join(download.find_home(), "data")
    return [self.data, downloads] if self.data else [downloads]
