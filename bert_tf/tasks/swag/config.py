"""The settings of multiple choice, without TensorFlow."""

import dataclasses
from typing import ClassVar

from bert_tf import settings
from bert_tf.tasks import config

# The formats of one's own files.
FILE_FORMATS = ("tsv", "csv", "jsonl")

# What a label is: the choice's number, from 0 or from 1, its letter from A, or
# its text.
LABEL_TYPES = ("number", "number_from_1", "letter", "text")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SwagConfig(config.FineTuningConfig):
  """Settings of `run_swag.py`."""

  task: ClassVar[str] = "swag"

  data_dir: str = settings.setting(
    help="Folder with SWAG's train.csv, val.csv and test.csv; for one's own "
    "data, with train, dev and test files that end in --task_name.",
    original=True,
  )
  task_name: str = settings.setting(
    "swag", f"swag, or the format of one's own data: {', '.join(FILE_FORMATS)}."
  )
  context_column: str = settings.setting(
    "context",
    "Own data: the column of the text that comes first, sentence A, by its "
    "name in the header (the key in jsonl), or by its number from 0 in files "
    "without header.",
  )
  question_column: str | None = settings.setting(
    None,
    "Own data: the column of a text that is put before every choice, with a "
    "space between them. Default: none.",
  )
  choice_columns: tuple[str, ...] | None = settings.setting(
    None,
    "Own data: the columns of the choices, with commas between them; in jsonl "
    "also one key that holds a list of texts.",
  )
  label_column: str = settings.setting(
    "label",
    "Own data: the column of the right choice, which the test file need not "
    "have.",
  )
  label_type: str = settings.setting(
    "number",
    "Own data: what is in label_column, and what is predicted: number, the "
    "choice's number from 0; number_from_1; letter, A for the first; text, "
    "that of the choice.",
    choices=LABEL_TYPES,
  )
  skip_bad_rows: bool = settings.setting(
    False,
    "Whether to count the bad rows of the train and dev files instead of "
    "stopping at the first.",
  )


# The settings that mean nothing to SWAG's own files.
OWN_DATA = (
  "context_column",
  "question_column",
  "choice_columns",
  "label_column",
  "label_type",
)
