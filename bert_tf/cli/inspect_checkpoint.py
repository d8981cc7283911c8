"""Lists or compares checkpoints, or explains a config.

  bert-tf inspect CHECKPOINT [OTHER]
  bert-tf inspect --config=bert_config.json

If two checkpoints differ, the exit status is 1. With --config, you see what
parameters, operations and memory a model of these sizes has.
"""

import dataclasses
import sys

from bert_tf import settings
from bert_tf.cli import command


@dataclasses.dataclass(frozen=True, kw_only=True)
class InspectConfig:
  """The sizes of a model and of its batches."""

  config: str | None = settings.setting(
    None, "The bert_config.json of the model to explain.", reads="file"
  )
  train_batch_size: int = settings.setting(
    32, "The number of sequences in a batch.", minimum=1
  )
  max_seq_length: int = settings.setting(
    128, "The number of word pieces in a sequence.", minimum=1
  )
  max_predictions_per_seq: int = settings.setting(
    20, "The number of masked word pieces in a sequence.", minimum=1
  )


@command.of(InspectConfig, arguments="[CHECKPOINT] [OTHER]")
def run(
  config: InspectConfig, path: str | None = None, other_path: str | None = None
) -> None:
  """Lists one checkpoint, compares two, or explains a config."""
  if (path is None) == (config.config is None):
    raise ValueError("give either CHECKPOINT [OTHER] or `config`.")
  if path is None:
    from bert_tf import modeling
    from bert_tf.model import model_size

    bert_config = modeling.BertConfig.from_json_file(str(config.config))
    bert_config.check_lengths(config.max_seq_length, str(config.config))
    b, s = config.train_batch_size, config.max_seq_length
    batch = b, s, config.max_predictions_per_seq
    for line in model_size.report(bert_config, batch):
      print(line)
    return
  from bert_tf.checkpoint import checkpoints, inspect

  tensors = checkpoints.CheckpointReader(path, keeps_names=True)
  if other_path is not None:
    other = checkpoints.CheckpointReader(other_path, keeps_names=True)
    differences = list(inspect.differences(tensors, other))
    for line in differences:
      command.show(line)
    if differences:
      num_all = len({*tensors.shapes, *other.shapes})
      print(f"{len(differences)} of {num_all} tensors differ")
      sys.exit(1)
    print(f"{len(tensors.shapes)} tensors, all equal")
    return
  for line in inspect.describe(tensors):
    command.show(line)
