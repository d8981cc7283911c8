"""Strips a checkpoint for release, averages several, or changes its format.

bert-tf convert --model=FOLDER --output_checkpoint=OUT/bert_model.ckpt
"""

import dataclasses

from bert_tf import names, settings
from bert_tf.cli import command, config_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionConfig:
  """What is read and written, and in which format."""

  model: str | None = settings.setting(
    None, "Folder of the model to read, or its .weights.h5."
  )
  input_checkpoint: str | None = settings.setting(
    None, "The same, or the prefix of a checkpoint."
  )
  output_checkpoint: str = settings.setting(
    help="Prefix of the checkpoint to write; with --to=hf a folder, with "
    "--to=keras a .weights.h5. run.json, bert_config.json and vocab.txt are "
    "written beside it.",
    writes="prefix",
  )
  average_last: int = settings.setting(
    1,
    "How many of the newest checkpoints of the folder are averaged.",
    minimum=1,
  )
  source_format: str | None = settings.setting(
    None,
    "Format of the input: the original's, as this project's runs write it; "
    "Hugging Face's, as save_pretrained writes it; that of TF Model Garden's "
    "BertEncoderV2; or Keras', as save_weights of this project's models writes "
    "it. Default: what the input shows.",
    choices=names.CHECKPOINT_FORMATS,
    flag="from",
  )
  target_format: str = settings.setting(
    "original",
    "Format of the output. From original to original takes away the "
    "optimizer's slots and the step.",
    choices=names.CHECKPOINT_FORMATS,
    flag="to",
  )
  bert_config_file: str | None = settings.setting(
    None,
    "The model's sizes. Default: the bert_config.json beside the input.",
  )
  vocab_file: str | None = settings.setting(
    None, "The model's vocabulary. Default: the vocab.txt beside the input."
  )
  do_lower_case: bool | None = settings.setting(
    None,
    "Whether the vocabulary is lower-cased. Default: what the files of the "
    "input say, or the vocabulary.",
  )


def _convert(config: ConversionConfig) -> None:
  """Writes a model in another format."""
  from bert_tf.convert import convert, pretrained

  config_flags.refuse_given(
    ["average_last"],
    f"means nothing to --from={config.source_format} "
    f"--to={config.target_format}",
  )
  assert config.input_checkpoint and config.source_format
  source = pretrained.Source(
    config.input_checkpoint,
    config.bert_config_file,
    config.vocab_file,
    config.do_lower_case,
  )
  model = convert.convert(
    source,
    config.source_format,
    config.output_checkpoint,
    config.target_format,
  )
  names = pretrained.join_head_names(model.own_heads) or "none"
  print(
    f"{config.output_checkpoint} from {config.input_checkpoint}; heads: {names}"
  )
  for note in model.notes:
    print(note)


def _slim(config: ConversionConfig) -> None:
  """Writes a checkpoint without the optimizer's slots, or a mean of several."""
  from bert_tf.convert import convert

  config_flags.refuse_given(
    ["bert_config_file", "vocab_file", "do_lower_case"],
    "means nothing to an original checkpoint that stays one",
  )
  assert config.input_checkpoint
  paths = convert.slim(
    config.input_checkpoint, config.output_checkpoint, config.average_last
  )
  print(f"{config.output_checkpoint} from {', '.join(paths)}")


def main() -> None:
  """Strips one checkpoint, averages several, or converts a model."""
  from bert_tf.convert import convert

  config = config_flags.build(ConversionConfig)
  path = config.model or config.input_checkpoint
  if not path or (config.model and config.input_checkpoint):
    raise ValueError("set --model, or --input_checkpoint instead.")
  source_format = config.source_format or convert.format_of(path)
  config = dataclasses.replace(
    config, input_checkpoint=path, source_format=source_format
  )
  if (config.source_format, config.target_format) == ("original", "original"):
    _slim(config)
  else:
    _convert(config)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(ConversionConfig)
  command.run(main, __doc__)
