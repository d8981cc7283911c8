"""Makes a checkpoint slim: without optimizer slots, averaged if asked."""

import common_flags
from absl import flags

from bert_tf import checkpoints

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "input_checkpoint",
  None,
  "Prefix of a checkpoint, or the folder of a run: its newest.",
)
flags.DEFINE_string(
  "output_checkpoint", None, "Prefix of the checkpoint to write."
)
flags.DEFINE_integer(
  "average_last",
  1,
  "How many of the newest checkpoints of the folder are averaged.",
  lower_bound=1,
)


def main() -> None:
  """Strips one checkpoint, or averages several."""
  listed = checkpoints.listed(FLAGS.input_checkpoint)
  paths = listed[: FLAGS.average_last] or [FLAGS.input_checkpoint]
  if len(paths) < FLAGS.average_last:
    raise ValueError(
      f"--average_last={FLAGS.average_last}, but {FLAGS.input_checkpoint} "
      f"has {len(listed)} checkpoints; lower it or give the folder of a run."
    )
  if FLAGS.average_last == 1:
    checkpoints.strip_slots(paths[0], FLAGS.output_checkpoint)
  else:
    checkpoints.average(paths, FLAGS.output_checkpoint)
  print(f"{FLAGS.output_checkpoint} from {', '.join(paths)}")


if __name__ == "__main__":
  for name in ("input_checkpoint", "output_checkpoint"):
    flags.mark_flag_as_required(name)
  common_flags.run(main)
