"""Makes a checkpoint slim, averages several, or changes a model's form."""

from absl import flags

from bert_tf.cli import command
from bert_tf.convert import convert, model_files, pretrained

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "input_checkpoint",
  None,
  "Prefix of a checkpoint, or the folder of a run: its newest; with --from=hf "
  "the folder of the model, with --from=keras its .weights.h5.",
)
flags.DEFINE_string(
  "output_checkpoint",
  None,
  "Prefix of the checkpoint to write; with --to=hf a folder, with --to=keras "
  "a .weights.h5. Of another form's model bert_config.json and vocab.txt go "
  "beside it.",
)
flags.DEFINE_integer(
  "average_last",
  1,
  "How many of the newest checkpoints of the folder are averaged.",
  lower_bound=1,
)
for name, help_text in {
  "from": "Whose form the input has: the original's, as this project's runs "
  "write it; Hugging Face's, as save_pretrained writes it; that of TF Model "
  "Garden's BertEncoderV2; or Keras', as save_weights of this project's models "
  "writes it.",
  "to": "Whose form the output has. From original to original takes away the "
  "optimizer's slots and the step.",
}.items():
  flags.DEFINE_enum(name, "original", list(convert.FORMATS), help_text)
flags.DEFINE_string(
  "bert_config_file",
  None,
  "The model's sizes; not given, the bert_config.json beside the input.",
)
flags.DEFINE_string(
  "vocab_file",
  None,
  "The model's vocabulary; not given, the vocab.txt beside the input.",
)
flags.DEFINE_boolean(
  "do_lower_case",
  None,
  "Whether the vocabulary is lower-cased, for --to=hf; not given, what the "
  "input says, or that it is if no word piece has a capital letter.",
)


def _refuse_unused(names: list[str], use: str) -> None:
  """Raises ValueError if a flag is given that means nothing."""
  for name in names:
    if FLAGS[name].present:
      raise ValueError(f"--{name} means nothing to {use}; leave it out.")


def _convert(source_format: str, target_format: str) -> None:
  """Writes a model in another form."""
  _refuse_unused(
    ["average_last"], f"--from={source_format} --to={target_format}"
  )
  source = model_files.Source(
    FLAGS.input_checkpoint,
    FLAGS.bert_config_file,
    FLAGS.vocab_file,
    FLAGS.do_lower_case,
  )
  model = convert.convert(
    source, source_format, FLAGS.output_checkpoint, target_format
  )
  names = pretrained.names_of(model.own_heads) or "none"
  print(
    f"{FLAGS.output_checkpoint} from {FLAGS.input_checkpoint}; heads: {names}"
  )
  for note in model.notes:
    print(note)


def main() -> None:
  """Strips one checkpoint, averages several, or converts a model."""
  forms = FLAGS["from"].value, FLAGS["to"].value
  if forms != ("original", "original"):
    _convert(*forms)
    return
  _refuse_unused(
    ["bert_config_file", "vocab_file", "do_lower_case"],
    "an original checkpoint that stays one",
  )
  paths = convert.slim(
    FLAGS.input_checkpoint, FLAGS.output_checkpoint, FLAGS.average_last
  )
  print(f"{FLAGS.output_checkpoint} from {', '.join(paths)}")


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  for name in ("input_checkpoint", "output_checkpoint"):
    flags.mark_flag_as_required(name)
  command.run(main, __doc__)
