"""Settings of multiple choice, without TensorFlow."""

import dataclasses
from typing import ClassVar

from bert_tf import settings
from bert_tf.tasks import config

# The formats of a user's own files.
FILE_FORMATS = ("tsv", "csv", "jsonl")

# A label is the choice's number, from 0 or from 1, its letter, or its text.
LABEL_TYPES = ("number", "number_from_1", "letter", "text")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SwagConfig(config.FineTuningConfig):
  """Settings of `bert-tf swag`."""

  task: ClassVar[str] = "swag"

  data_dir: str = settings.data(
    help="The folder with SWAG's train.csv, val.csv and test.csv, or with your "
    "own train, dev and test files, whose suffix is --task_name.",
    original=True,
    reads="folder",
  )
  task_name: str = settings.data(
    "swag",
    f"swag, or the format of your own files: {', '.join(FILE_FORMATS)}.",
    main=True,
  )
  context_column: str = settings.data(
    "context",
    "The column of the first text in your own files, by name or number.",
  )
  question_column: str | None = settings.data(
    None,
    "The column of a text before every choice in your own files.",
  )
  choice_columns: tuple[str, ...] | None = settings.data(
    None,
    "The columns of the choices, comma-separated. In jsonl, a single key may "
    "hold a list of texts.",
  )
  label_column: str = settings.data(
    "label",
    "The column of the right choice, which the test file may lack.",
  )
  label_type: str = settings.data(
    "number",
    "What label_column and the predictions contain: number, counted from 0; "
    "number_from_1; letter, with A for the first; text, the choice itself.",
    choices=LABEL_TYPES,
  )
  skip_bad_rows: bool = settings.data(
    False,
    "Whether to skip and count faulty rows of the train and dev files.",
  )

  def idle_settings(self) -> dict[str, str]:
    """Settings without effect, and what they do not apply to."""
    if self.task_name.lower() != "swag":
      return {}
    choices = ("choice_columns", "label_column", "label_type")
    names = ("context_column", "question_column", *choices)
    return dict.fromkeys(names, "`task_name=swag`")
