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
    help="The folder with train.csv, val.csv and test.csv of SWAG, or with "
    "files of your own that have the same columns.",
    original=True,
    reads="folder",
  )
