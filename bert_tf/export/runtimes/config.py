"""Settings of conversions to other runtimes. Does not import TensorFlow."""

import dataclasses

from bert_tf import settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionConfig:
  """Settings of `convert_savedmodel.py`."""

  saved_model: str = settings.setting(
    help="Folder that export_savedmodel.py wrote."
  )
  output_file: str = settings.setting(
    help="File to write: NAME.onnx for ONNX, NAME.tflite for LiteRT.",
    writes="file",
  )
  quantize: str = settings.setting(
    "none",
    "int8: store matrices as int8, a quarter of the size.",
    choices=("none", "int8"),
  )
