"""Settings of conversions to other runtimes. Does not import TensorFlow."""

import dataclasses

from bert_tf import settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionConfig:
  """Settings of `bert-tf convert-savedmodel`."""

  saved_model: str = settings.setting(
    help="The folder that bert-tf export wrote.", reads="folder"
  )
  output_file: str = settings.setting(
    help="The file to write: NAME.onnx for ONNX or NAME.tflite for LiteRT.",
    writes="file",
  )
  quantize: str = settings.setting(
    "none",
    "Whether to store matrices as int8, in a quarter of the size.",
    choices=("none", "int8"),
  )
