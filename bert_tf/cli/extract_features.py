r"""Writes contextual features of each line of a file.

bert-tf extract-features --input_file=texts.txt \
    --model=uncased_L-12_H-768_A-12 --output_file=features.jsonl
"""

import dataclasses
import functools

from bert_tf import settings
from bert_tf.cli import command
from bert_tf.inference import config as inference_config

_ignored = functools.partial(
  settings.devices,
  help="This flag is ignored: extraction runs on the CPU or on one GPU.",
  original=True,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandConfig:
  """The files, the features to compute, and flags of the original release."""

  input_file: str = settings.data(
    help="The file of texts, or pairs as `a ||| b`, one a line. It may be .gz.",
    original=True,
    reads="file",
  )
  output_file: str = settings.output(
    help="The file to write the features to.",
    original=True,
    writes="file",
  )
  extraction: inference_config.ExtractionConfig
  use_tpu: bool = _ignored(False)
  master: str | None = _ignored(None)
  num_tpu_cores: int = _ignored(8)
  output_format: str = settings.output(
    "jsonl",
    "The format of the output: jsonl writes a JSON object for each line, as "
    "the original does; npz writes arrays for numpy.load.",
    choices=("jsonl", "npz"),
    main=True,
  )


@command.of(CommandConfig, needs_model=True)
def run(config: CommandConfig) -> None:
  """Writes the features of the lines of the input file."""
  from bert_tf.inference import feature_extraction

  num_lines = feature_extraction.extract_file(
    config.extraction,
    config.input_file,
    config.output_file,
    config.output_format,
  )
  noun = "line" if num_lines == 1 else "lines"
  print(f"{config.output_file}: features of {num_lines:,} {noun}")
