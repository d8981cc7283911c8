"""Settings of SavedModels. Does not import TensorFlow."""

import dataclasses

from bert_tf import settings
from bert_tf.inference.config import ModelConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig(ModelConfig):
  """A checkpoint, and the settings of the SavedModel to write."""

  export_dir: str = settings.output(
    help="The new or empty folder for the SavedModel. TensorFlow Serving needs "
    "a version number at its end, such as models/NAME/1.",
    writes="folder",
  )
  with_text: bool = settings.output(
    True,
    "Whether a classifier or an encoder takes texts as well as ids, by "
    "operations of tensorflow-text.",
    flag="text",
    main=True,
  )
  with_attention: bool = settings.output(
    False,
    "Whether a model with a head can return its attention.",
    flag="attention",
    main=True,
  )
