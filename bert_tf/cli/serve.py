"""Serves a model over HTTP, with TensorFlow Serving's paths and a page.

bert-tf serve --model=models/mrpc --model_name=mrpc
"""

import dataclasses

from bert_tf import settings
from bert_tf.cli import command, config_flags
from bert_tf.export import config as export_config
from bert_tf.server import config as server_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandConfig:
  """A model and how it is served."""

  model: str = settings.setting(
    help="Folder of a SavedModel, or of its versions, whose newest is served; "
    "or a checkpoint: its prefix, or the output_dir of a run."
  )
  server: server_config.ServerConfig
  checkpoint: export_config.ModelConfig


def main() -> None:
  """Loads the model and serves it until it is stopped."""
  from bert_tf.inference import predictor
  from bert_tf.server import application

  config = config_flags.build(CommandConfig, init_checkpoint="")
  model = predictor.Predictor(
    dataclasses.replace(config.checkpoint, init_checkpoint=config.model)
  )

  def started(url: str) -> None:
    path = f"{url}/v1/models/{config.server.model_name}"
    print(f"{config.model}: {url}/ and {path}:predict", flush=True)

  application.run(model, config.server, started)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(CommandConfig)
  command.run(main, __doc__)
