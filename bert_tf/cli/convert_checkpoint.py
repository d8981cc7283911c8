r"""Converts, averages or strips checkpoints.

bert-tf convert --model=out --to=hf \
    --output_checkpoint=out_hf
"""

import dataclasses

from bert_tf import settings
from bert_tf.cli import command
from bert_tf.inference.config import ModelFiles


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionConfig(ModelFiles):
  """The input and output, and their formats."""

  output_checkpoint: str = settings.setting(
    help="The prefix of the checkpoint to write, or with --to=hf a folder. The "
    "model's other files are written next to it.",
    writes="prefix",
  )
  average_last: int = settings.setting(
    1, "How many of the folder's newest checkpoints to average.", minimum=1
  )
  target_format: str = settings.setting(
    "original",
    "The format of the output.",
    choices=("original", "hf"),
    flag="to",
  )
  do_lower_case: bool | None = settings.setting(
    None, "Whether the model is uncased. Default: what the input says."
  )


@command.of(ConversionConfig, needs_model=True)
def run(config: ConversionConfig) -> None:
  """Strips one checkpoint, averages several, or converts a model."""
  from bert_tf.checkpoint import convert

  model = convert.convert(
    config.open(do_lower_case=config.do_lower_case),
    config.output_checkpoint,
    config.target_format,
    config.average_last,
  )
  heads = ", ".join(head.name for head in model.own_heads) or "none"
  print(
    f"{config.output_checkpoint} from {config.init_checkpoint}; heads: {heads}"
  )
