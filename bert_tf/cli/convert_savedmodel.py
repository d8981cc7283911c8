"""Converts a SavedModel for ONNX or LiteRT and checks the result there."""

import tensorflow as tf
from absl import flags

from bert_tf.cli import command
from bert_tf.export.runtimes import conversion as other_runtimes

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "saved_model",
  None,
  "The folder that export_savedmodel.py wrote; what takes word-piece ids is "
  "converted.",
)
flags.DEFINE_string(
  "output_file",
  None,
  "The file to write: NAME.onnx for ONNX, NAME.tflite for LiteRT.",
)
flags.DEFINE_enum(
  "quantize",
  "none",
  ("none", "int8"),
  "Whether matrices become int8, a quarter of the size, and so do their inputs "
  "as they come.",
)


def main() -> None:
  """Converts and says how close the result is."""
  differences = other_runtimes.convert(
    other_runtimes.ConversionConfig(
      FLAGS.saved_model, FLAGS.output_file, FLAGS.quantize == "int8"
    )
  )
  megabytes = tf.io.gfile.stat(FLAGS.output_file).length / 1e6
  print(
    f"{FLAGS.output_file}: {megabytes:.1f} MB, "
    f"{'int8' if FLAGS.quantize == 'int8' else 'float32'}; largest difference "
    f"from {FLAGS.saved_model}:"
  )
  for name, difference in differences.items():
    print(f"  {name}: {difference:.1e}")


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  for name in ("saved_model", "output_file"):
    flags.mark_flag_as_required(name)
  command.run(main, __doc__)
