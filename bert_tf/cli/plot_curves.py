"""Draws the learning curves of a run, from its TensorBoard events."""

from absl import flags

from bert_tf.cli import command
from bert_tf.training import curves

FLAGS = flags.FLAGS

flags.DEFINE_string("output_dir", None, "Folder of the run.")
flags.DEFINE_string("plot_file", None, "PNG file to write.")


def main() -> None:
  """Draws the run."""
  curves.plot(FLAGS.output_dir, FLAGS.plot_file)
  print(FLAGS.plot_file)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  for name in ("output_dir", "plot_file"):
    flags.mark_flag_as_required(name)
  command.run(main, __doc__)
