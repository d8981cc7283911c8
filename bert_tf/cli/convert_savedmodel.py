r"""Converts a SavedModel to ONNX or LiteRT.

bert-tf convert-savedmodel --saved_model=models/mrpc/1 \
    --output_file=mrpc.onnx
"""

from bert_tf.cli import command, config_flags
from bert_tf.export.runtimes import config as runtime_config
from bert_tf.files import paths


@command.of(runtime_config.ConversionConfig)
def run() -> None:
  """Converts the model and prints the differences of the outputs."""
  from bert_tf.export.runtimes import conversion

  config = config_flags.build(runtime_config.ConversionConfig)
  differences = conversion.convert(config)
  megabytes = paths.num_bytes(config.output_file) / 1e6
  print(
    f"{config.output_file}: {megabytes:.1f} MB, "
    f"{'float32' if config.quantize == 'none' else config.quantize}; largest "
    f"difference from {config.saved_model}:"
  )
  for name, difference in differences.items():
    print(f"  {name}: {difference:.1e}")
