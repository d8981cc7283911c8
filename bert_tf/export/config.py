"""Settings of exports. Does not import TensorFlow."""

import dataclasses

from bert_tf import settings
from bert_tf.inference.config import ModelConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig(ModelConfig):
  """A checkpoint, and the settings of the model to write."""

  export_dir: str = settings.output(
    help="The new or empty folder for the model. TensorFlow Serving needs a "
    "version number at its end, such as models/NAME/1.",
    writes="folder",
  )
  runtime: str = settings.output(
    "tensorflow",
    "What computes the model: tensorflow writes a SavedModel, onnx a "
    "model.onnx, and litert a model.tflite.",
    choices=("tensorflow", "onnx", "litert"),
    main=True,
  )
  quantize: str = settings.output(
    "none",
    "Whether onnx and litert store matrices as int8, in a quarter of the size.",
    choices=("none", "int8"),
    main=True,
  )
  with_text: bool = settings.output(
    True,
    "Whether the SavedModel of a classifier or an encoder takes texts as well "
    "as ids, by operations of tensorflow-text.",
    flag="text",
    main=True,
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.runtime == "tensorflow" and self.quantize != "none":
      raise ValueError(
        f"`quantize={self.quantize}` needs `runtime=onnx` or `runtime=litert`."
      )
