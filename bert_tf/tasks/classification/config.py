"""The settings of classification, without TensorFlow."""

import dataclasses
from typing import ClassVar

from bert_tf import settings
from bert_tf.model_folder import run_info
from bert_tf.tasks import config
from bert_tf.training import config as training_config

# The official tasks, and the formats of one's own files.
TASK_NAMES = (
  "CoLA",
  "SST-2",
  "MRPC",
  "STS-B",
  "QQP",
  "MNLI",
  "MNLI-mm",
  "QNLI",
  "RTE",
  "WNLI",
  "AX",
  "XNLI",
)
FILE_FORMATS = ("tsv", "csv", "jsonl")

# Between the labels of one multilabel cell.
LABEL_SEPARATOR = "|"

# Cut at the end, as the original does; keep both ends; read all of it.
LONG_TEXT_MODES = ("truncate", "head_tail", "windows")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationConfig(config.FineTuningConfig):
  """Settings of `run_classifier.py`."""

  task: ClassVar[str] = "classification"

  train: training_config.FreezingTrainConfig
  data_dir: str = settings.setting(
    help="Folder with the task's files, such as train.tsv.", original=True
  )
  task_name: str | None = settings.setting(
    None,
    f"The task: {', '.join(TASK_NAMES)}, in any case; or, for one's own "
    f"train, dev and test files, {', '.join(FILE_FORMATS)}.",
    original=True,
  )
  processor: str | None = settings.setting(
    None,
    "MODULE:CLASS, a class of one's own with the methods of the original's "
    "DataProcessor: it has the examples and labels, and task_name is only its "
    "name. The module may be a file of the current folder.",
  )
  xnli_language: str = settings.setting("zh", "The language of XNLI's texts.")
  problem_type: str = settings.setting(
    "classification",
    "Own data: what the labels are: a class, a number, or several labels, "
    f"{LABEL_SEPARATOR} between them (a list in jsonl).",
    choices=run_info.PROBLEM_TYPES,
  )
  text_a_column: str = settings.setting(
    "text",
    "Own data: the column of the text, by its name in the header (the key in "
    "jsonl), or by its number from 0 in files without header.",
  )
  text_b_column: str | None = settings.setting(
    None, "Own data: the column of the second text of a pair."
  )
  label_column: str = settings.setting(
    "label", "Own data: the column of the label."
  )
  skip_bad_rows: bool = settings.setting(
    False,
    "Whether to count the bad rows of the train and dev files instead of "
    "stopping at the first.",
  )
  group_by_length: bool = settings.setting(
    True,
    "Whether training batches hold examples of like length, sorted among those "
    "of 8 batches at a time, which leaves little padding to compute; false "
    "draws every batch from all lengths.",
  )
  long_text: str | None = settings.setting(
    None,
    "How single texts of more than max_seq_length word pieces are read. "
    "truncate cuts the end; head_tail keeps the first quarter (128 of 510) and "
    "the last three (382) and leaves out the middle; windows reads the whole "
    "text in windows of max_seq_length that overlap by half, trains on each "
    "with the text's label, and decides by the mean of their logits. A pair is "
    "always cut, and another value refused.",
    choices=LONG_TEXT_MODES,
    otherwise="truncate",
  )

  def __post_init__(self) -> None:
    """Raises ValueError for values that a setting does not allow."""
    super().__post_init__()
    if not (self.task_name or self.processor):
      raise ValueError(
        "the task is not known: set `task_name`, or `processor` for a "
        "class of your own."
      )


# The settings that mean nothing to an official task.
OWN_DATA = ("problem_type", "text_a_column", "text_b_column", "label_column")

# Those that mean nothing to a processor.
FILES = (*OWN_DATA, "xnli_language", "skip_bad_rows")
