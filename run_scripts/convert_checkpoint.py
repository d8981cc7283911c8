"""Makes a checkpoint slim, averages several, or reads another library's."""

import common_flags
from absl import flags

from bert_tf import checkpoints, interop

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "input_checkpoint",
  None,
  "Prefix of a checkpoint, or the folder of a run: its newest; with --from=hf "
  "the folder of the model.",
)
flags.DEFINE_string(
  "output_checkpoint",
  None,
  "Prefix of the checkpoint to write; with --from=hf bert_config.json and "
  "vocab.txt go beside it.",
)
flags.DEFINE_integer(
  "average_last",
  1,
  "How many of the newest checkpoints of the folder are averaged.",
  lower_bound=1,
)
flags.DEFINE_enum(
  "from",
  "original",
  ("original", "hf"),
  "Whose form the input has: the original's, as this project's runs write it; "
  "or Hugging Face's: config.json, model.safetensors and vocab.txt.",
)


def _convert_from_hf() -> None:
  """Writes a Hugging Face model in the original's form."""
  if FLAGS["average_last"].present:
    raise ValueError("--average_last means nothing to --from=hf; leave it out.")
  converted = interop.convert_from_hf(
    FLAGS.input_checkpoint, FLAGS.output_checkpoint
  )
  heads = ", ".join(converted.heads) or "none"
  print(
    f"{FLAGS.output_checkpoint} from {FLAGS.input_checkpoint}; heads: {heads}"
  )
  if converted.pooler_is_random:
    print("The model has no pooler: the one that was written is untrained.")
  if converted.do_lower_case is not None:
    print(f"Use it with --do_lower_case={str(converted.do_lower_case).lower()}")
  if converted.differing_settings:
    print(
      "Its tokenizer differs from the original's, so ids will, in: "
      f"{', '.join(converted.differing_settings)}"
    )


def main() -> None:
  """Strips one checkpoint, averages several, or converts a model."""
  if FLAGS["from"].value == "hf":
    _convert_from_hf()
    return
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
