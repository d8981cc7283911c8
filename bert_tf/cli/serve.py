"""Serves a model over HTTP, with TensorFlow Serving's paths and a page.

python run_scripts/serve.py --model=models/mrpc --model_name=mrpc
"""

import dataclasses
from typing import TYPE_CHECKING

from bert_tf import settings
from bert_tf.cli import command, config_flags
from bert_tf.server import config as server_config

if TYPE_CHECKING:
  from bert_tf.inference import predictor


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
  """What a checkpoint needs, and a SavedModel brings."""

  bert_config_file: str | None = settings.setting(
    None,
    "Of a checkpoint: JSON file with the sizes of the model. Default: "
    "bert_config.json beside it.",
  )
  vocab_file: str | None = settings.setting(
    None,
    "Of a checkpoint: its vocabulary. Default: vocab.txt beside it.",
  )
  do_lower_case: bool = settings.setting(
    True, "Of a checkpoint: whether the model is for lower-cased text."
  )
  max_seq_length: int | None = settings.setting(
    None,
    "Of a checkpoint: word pieces of a text. Default: 384 for squad, else 128.",
    minimum=5,
  )
  version_2_with_negative: bool = settings.setting(
    False, "Of a checkpoint of squad: whether there may be no answer."
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandConfig:
  """A model and how it is served."""

  model: str = settings.setting(
    help="Folder of a SavedModel, or of its versions, whose newest is served; "
    "or a checkpoint: its prefix, or the output_dir of a run."
  )
  server: server_config.ServerConfig
  checkpoint: CheckpointConfig


def _predictor(config: CommandConfig) -> "predictor.Predictor":
  """Returns the model that the flags name."""
  from bert_tf.export import export
  from bert_tf.inference import loaded_model, predictor
  from bert_tf.tasks.squad import decoding

  folder = loaded_model.find_saved_model(config.model)
  if folder:
    config_flags.refuse_given(
      [field.name for field in dataclasses.fields(CheckpointConfig)],
      f"is for checkpoints; {folder} is a SavedModel, which brings its own",
    )
    return predictor.Predictor(folder)
  checkpoint = dataclasses.asdict(config.checkpoint)
  predictions = decoding.PredictionConfig(
    version_2_with_negative=checkpoint.pop("version_2_with_negative")
  )
  return predictor.Predictor(
    export.ExportConfig(
      export_dir="",
      init_checkpoint=config.model,
      predictions=predictions,
      with_attention=True,
      **checkpoint,
    )
  )


def main() -> None:
  """Loads the model and serves it until it is stopped."""
  from bert_tf.server import application

  config = config_flags.build(CommandConfig)
  model = _predictor(config)

  def started(url: str) -> None:
    path = f"{url}/v1/models/{config.server.model_name}"
    print(f"{config.model}: {url}/ and {path}:predict", flush=True)

  application.run(model, config.server, started)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(CommandConfig)
  command.run(main, __doc__)
