"""The settings of the ablations, without TensorFlow."""

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
  """What to run, on which data, and where results go."""

  output_dir: str = settings.setting(
    help="Folder for data and runs, and for the report: report.md, "
    "report.html and plots.",
    writes="folder",
  )
  text: str | None = settings.setting(
    None,
    "Text to pre-train on: files and globs, separated by commas, in any form "
    "that build-corpus reads; and the word pydoc for the documentation of the "
    "running Python. Needed unless --report_only.",
  )
  scale: str = settings.setting(
    "tiny", f"{_SCALES}.", choices=tuple(scales_lib.SCALES)
  )
  experiments: tuple[str, ...] = settings.setting(
    (),
    "Which experiments, separated by commas, in the order to run them: "
    "objectives, steps, masking, feature_layers, sizes, masking_time, "
    "whole_words, batch_size, packing, curves. Default: all, in this order.",
  )
  seeds: tuple[int, ...] = settings.setting(
    (), "Seeds of the runs. Default: by the scale, 1,2,3 for tiny."
  )
  glue_dir: str | None = settings.setting(
    None, "Folder with the folders SST-2, MRPC, QNLI, MNLI, as far as there."
  )
  squad_dir: str | None = settings.setting(
    None, "Folder with train-v1.1.json and dev-v1.1.json."
  )
  conll_dir: str | None = settings.setting(
    None,
    "Folder with CoNLL-2003's eng.train and eng.testa, or train.txt and "
    "dev.txt.",
  )
  rows_dir: str | None = settings.setting(
    None,
    "Folder of the results, a small JSON file a run. A run whose file is there "
    "is not done again. Default: rows in output_dir.",
  )
  num_train_steps: int | None = settings.setting(
    None,
    "Steps of a pre-training in place of the scale's, to try things: a "
    "multiple of 8, since models are fine-tuned after eighths of them.",
    minimum=8,
  )
  report_only: bool = settings.setting(
    False, "Write the report of the rows that there are, and run nothing."
  )
  dry_run: bool = settings.setting(
    False,
    "List the runs, and which of them are done, and do none of them. The text "
    "is read and the vocabulary learned, which are kept: whether a run is done "
    "depends on them.",
  )
  reading: text_config.TextConfig = text_config.TextConfig()
  num_workers: int = settings.setting(
    os.cpu_count() or 1, "Processes that make the records.", minimum=1
  )

  def __post_init__(self) -> None:
    """Raises ValueError for values that are out of bounds."""
    settings.check(self)
    steps = self.num_train_steps or 0
    if steps % scales_lib.NUM_MARKS:
      raise ValueError(
        f"num_train_steps {steps} is no multiple of {scales_lib.NUM_MARKS}, "
        f"after whose parts models are fine-tuned; use "
        f"{steps - steps % scales_lib.NUM_MARKS}."
      )
    if not self.text and not self.report_only:
      raise ValueError(
        "there is nothing to pre-train on: set `text`; or `report_only` for "
        "the report of the rows that are there."
      )

  @property
  def rows(self) -> str:
    """The folder of the rows."""
    return self.rows_dir or os.path.join(self.output_dir, "rows")

  @property
  def chosen_scale(self) -> scales_lib.Scale:
    """The scale, with what was given in place of its own."""
    scale = scales_lib.SCALES[self.scale]
    steps = self.num_train_steps or scale.base.num_train_steps
    base = dataclasses.replace(scale.base, num_train_steps=steps)
    return dataclasses.replace(
      scale, base=base, seeds=self.seeds or scale.seeds
    )
