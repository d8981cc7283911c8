"""Settings of the ablations. Imports no TensorFlow."""

import dataclasses
import os

from bert_tf import settings
from bert_tf.corpora import text_config
from research.ablations import scales as scales_lib

_SCALES = "; ".join(
  f"{s.name}: {s.explanation}" for s in scales_lib.SCALES.values()
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AblationsConfig:
  """Settings of all experiments."""

  output_dir: str = settings.setting(
    help="Folder for data, runs, report.md and plots.",
    writes="folder",
  )
  text: str | None = settings.setting(
    None,
    "Text to pre-train on: files and globs, separated by commas, in any format "
    "that build-corpus reads. pydoc means the documentation of the running "
    "Python. Required without --report_only.",
    main=True,
  )
  scale: str = settings.setting(
    "tiny", f"{_SCALES}.", choices=tuple(scales_lib.SCALES), main=True
  )
  experiments: tuple[str, ...] = settings.setting(
    (),
    "Experiments, separated by commas, in the order to run them: objectives, "
    "steps, masking, feature_layers, sizes, masking_time, whole_words, "
    "batch_size, packing, curves, initial_values. Default: all, in this order.",
    main=True,
  )
  seeds: tuple[int, ...] = settings.setting(
    (),
    "Seeds of the runs. Default: those of the scale, such as 1,2,3 for tiny.",
    main=True,
  )
  glue_dir: str | None = settings.setting(
    None,
    "Folder with the folders SST-2, MRPC, QNLI, MNLI. All are optional.",
    main=True,
  )
  squad_dir: str | None = settings.setting(
    None, "Folder with train-v1.1.json and dev-v1.1.json.", main=True
  )
  conll_dir: str | None = settings.setting(
    None,
    "Folder with CoNLL-2003's eng.train and eng.testa, or train.txt and "
    "dev.txt.",
    main=True,
  )
  rows_dir: str | None = settings.setting(
    None,
    "Folder of the results, one small JSON file per run. A run that has its "
    "file is skipped. Default: rows in output_dir.",
  )
  num_train_steps: int | None = settings.setting(
    None,
    "Steps of each pre-training, a multiple of 8. Default: those of the scale.",
    minimum=8,
  )
  report_only: bool = settings.setting(
    False, "Write the report from existing rows, without any run.", main=True
  )
  dry_run: bool = settings.setting(
    False,
    "List finished and pending runs, without executing any. Still creates the "
    "corpus and the vocabulary, because finished runs are identified by them.",
    main=True,
  )
  reading: text_config.TextConfig = text_config.TextConfig()
  num_workers: int = settings.setting(
    os.cpu_count() or 1, "Processes that create records.", minimum=1
  )

  def __post_init__(self) -> None:
    """Raises ValueError for invalid settings."""
    settings.check(self)
    steps = self.num_train_steps or 0
    if steps % scales_lib.NUM_MARKS:
      raise ValueError(
        f"num_train_steps {steps} is not a multiple of {scales_lib.NUM_MARKS}; "
        f"use {steps - steps % scales_lib.NUM_MARKS}."
      )
    if not self.text and not self.report_only:
      raise ValueError(
        "no text to pre-train on: set `text`, or `report_only` for a report "
        "from existing rows."
      )

  @property
  def rows(self) -> str:
    """The folder of the rows; by default, `rows` in output_dir."""
    return self.rows_dir or os.path.join(self.output_dir, "rows")

  @property
  def chosen_scale(self) -> scales_lib.Scale:
    """The scale, with `seeds` and `num_train_steps` if they are set."""
    scale = scales_lib.SCALES[self.scale]
    steps = self.num_train_steps or scale.base.num_train_steps
    base = dataclasses.replace(scale.base, num_train_steps=steps)
    return dataclasses.replace(
      scale, base=base, seeds=self.seeds or scale.seeds
    )
