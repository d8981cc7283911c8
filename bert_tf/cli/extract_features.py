r"""Writes contextual features of each line of a file, per token or pooled.

bert-tf extract-features --input_file=texts.txt --output_file=features.jsonl \
    --model=uncased_L-12_H-768_A-12
"""

import dataclasses

from bert_tf import settings
from bert_tf.cli import command, config_flags, model_flags
from bert_tf.inference import config as inference_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandConfig:
  """The files, the features to compute, and flags of the original release."""

  input_file: str = settings.setting(
    help="A text a line; `a ||| b` is a pair. .gz too.", original=True
  )
  output_file: str = settings.setting(
    help="The features to write.", original=True, writes="file"
  )
  extraction: inference_config.ExtractionConfig
  use_tpu: bool = settings.setting(
    False, "Whether to run on a TPU: refused.", original=True
  )
  master: str | None = settings.setting(
    None, "The address of a TensorFlow master: refused.", original=True
  )
  num_tpu_cores: int = settings.setting(
    8, "Cores of the TPU; without one it means nothing.", original=True
  )
  output_format: str = settings.setting(
    "jsonl",
    "jsonl: an object a line, numbers rounded to 6 places, as the original. "
    "npz, for numpy.load, smaller and faster: tokens_0, features_0 (float32 "
    "[layers, tokens, hidden size]) and so on for each line; with pooling one "
    "array, features (float32 [lines, layers, hidden size]).",
    choices=inference_config.OUTPUT_FORMATS,
  )


def main() -> None:
  """Builds the config from the flags and extracts."""
  from bert_tf.inference import feature_extraction

  config = config_flags.build(CommandConfig, **model_flags.required())
  devices = [
    f"--{name}" for name in ("use_tpu", "master") if getattr(config, name)
  ]
  if devices:
    raise ValueError(
      f"{', '.join(devices)} cannot be honoured: this version runs on the CPU "
      "or on one GPU, which it finds by itself; leave the flag out."
    )
  num_lines = feature_extraction.extract_file(
    config.extraction,
    config.input_file,
    config.output_file,
    config.output_format,
  )
  print(f"{config.output_file}: the features of {num_lines:,} lines")


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(CommandConfig)
  config_flags.define(model_flags.ModelFlags)
  command.run(main, __doc__)
