"""Settings of the ablations. Imports no TensorFlow."""

import dataclasses
import os

from bert_tf import settings
from bert_tf.text import text_config
from research.ablations import scales as scales_lib

_SCALES = "; ".join(
  f"{s.name}: {s.explanation}" for s in scales_lib.SCALES.values()
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AblationsConfig:
  """Settings of all experiments."""

  output_dir: str = settings.setting(
    help="The folder for data, runs, report.md and plots.",
    writes="folder",
  )
  text: str | None = settings.setting(
    None,
    "The text to pre-train on: comma-separated files and globs, in any format "
    "that build-corpus reads. pydoc stands for Python's documentation. "
    "Required without --report_only.",
    main=True,
  )
  scale: str = settings.setting(
    "tiny", f"{_SCALES}.", choices=tuple(scales_lib.SCALES), main=True
  )
  experiments: tuple[str, ...] = settings.setting(
    (),
    "The experiments, comma-separated, in the order to run them: objectives, "
    "steps, masking, feature_layers, sizes, masking_time, whole_words, "
    "batch_size, packing, curves, initial_values. Default: all, in this order.",
    main=True,
  )
  seeds: tuple[int, ...] = settings.setting(
    (),
    "The seeds of the runs. Default: by scale, such as 1,2,3 for tiny.",
    main=True,
  )
  glue_dir: str | None = settings.setting(
    None,
    "The folder with SST-2, MRPC, QNLI and MNLI, each of which may be missing.",
    main=True,
  )
  squad_dir: str | None = settings.setting(
    None, "The folder with train-v1.1.json and dev-v1.1.json.", main=True
  )
  conll_dir: str | None = settings.setting(
    None,
    "The folder with CoNLL-2003: eng.train and eng.testa, or train.txt and "
    "dev.txt.",
    main=True,
  )
  rows_dir: str | None = settings.setting(
    None,
    "The folder of the results, with a small JSON file for each run. A run "
    "that has its file is skipped. Default: rows in output_dir.",
  )
  report_only: bool = settings.setting(
    False, "Whether only to write the report from existing rows.", main=True
  )
  dry_run: bool = settings.setting(
    False,
    "Whether only to list finished and pending runs. The corpus and the "
    "vocabulary are still created, because they identify finished runs.",
    main=True,
  )
  reading: text_config.TextConfig = text_config.TextConfig()
  num_workers: int = settings.setting(
    os.cpu_count() or 1, "The processes that create records.", minimum=1
  )

  def __post_init__(self) -> None:
    """Raises ValueError for invalid settings."""
    settings.check(self)
    if not self.text and not self.report_only:
      raise ValueError(
        "set `text` to the text to pre-train on, or `report_only` for a report "
        "from existing rows."
      )

  @property
  def rows(self) -> str:
    """The folder of the rows; by default, `rows` in output_dir."""
    return self.rows_dir or os.path.join(self.output_dir, "rows")

  @property
  def chosen_scale(self) -> scales_lib.Scale:
    """The scale, with `seeds` if they are set."""
    scale = scales_lib.SCALES[self.scale]
    return dataclasses.replace(scale, seeds=self.seeds or scale.seeds)
