"""Settings of multiple choice, without TensorFlow."""

import dataclasses
from typing import ClassVar

from bert_tf import settings
from bert_tf.tasks import config


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
    "swag, or the format of your own files.",
    choices=("swag", "tsv", "csv", "jsonl"),
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
    "The column of the right choice, counted from 0, which the test file may "
    "lack.",
  )

  def idle_settings(self) -> dict[str, str]:
    """Settings without effect, and what they do not apply to."""
    if self.task_name != "swag":
      return {}
    names = ("context_column", "question_column", "choice_columns")
    return dict.fromkeys((*names, "label_column"), "`task_name=swag`")
