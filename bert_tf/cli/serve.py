"""Serves models over HTTP, with a web page.

bert-tf serve --model=models/mrpc --model_name=mrpc
bert-tf serve --model=mrpc=models/mrpc --model=squad=out/squad
"""

import dataclasses
import json

from bert_tf import settings
from bert_tf.checkpoint import download
from bert_tf.cli import command
from bert_tf.inference.config import ModelConfig
from bert_tf.server import config as server_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointConfig(ModelConfig):
  """Settings for serving checkpoints."""

  init_checkpoint: str = ""  # Set for each model.


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandConfig:
  """The models and the server."""

  model: tuple[str, ...] = settings.model(
    help="The model to serve: the output_dir of a run, a released, downloaded "
    "or Hugging Face model, a SavedModel or the folder of its versions, of "
    "which the newest is served, or a checkpoint's prefix. To serve several, "
    "repeat --model=NAME=FOLDER.",
    repeated=True,
  )
  model_name: str = settings.model(
    "model", "The name of the model in URLs.", main=True
  )
  server: server_config.ServerConfig
  checkpoint: CheckpointConfig

  def folders(self) -> dict[str, str]:
    """Returns the folder of each model, by model name.

    Raises:
      ValueError: if a name occurs twice, one of several has no name, or a name
        cannot be part of a path.
    """
    folders: dict[str, str] = {}
    for text in self.model:
      name, sign, folder = text.partition("=")
      if not sign or "/" in name:  # A folder may have this sign in its name.
        if len(self.model) > 1:
          raise ValueError(
            f"one of several models needs a name: --model=NAME={text}."
          )
        name, folder = self.model_name, text
      if not name or set(name) & set("/: "):
        raise ValueError(
          f"model_name {name!r} cannot be part of a path; remove slashes, "
          "colons and spaces."
        )
      if name in folders:
        raise ValueError(
          f"--model={text}: {folders[name]} already has the name {name!r}."
        )
      folders[name] = folder
    return folders


@command.of(CommandConfig)
def run(config: CommandConfig) -> None:
  """Loads the models and serves them until the server is stopped."""
  folders = config.folders()
  # A port in use and a missing model are reported before TensorFlow is loaded.
  url, sockets = config.server.listen()
  for folder in folders.values():
    download.resolve_model(folder)
  from bert_tf.inference import predictor
  from bert_tf.server import application, metrics

  models = {
    name: predictor.Predictor(
      dataclasses.replace(config.checkpoint, init_checkpoint=folder).open()
    )
    for name, folder in folders.items()
  }

  if config.server.log_format == "json":
    line = {"event": "started", "url": url, "models": folders}
    print(metrics.log_line("json", line), flush=True)
  else:
    for name, folder in folders.items():
      path = f"{url}/v1/models/{name}:predict"
      print(f"{folder}: {url}/ and {path}", flush=True)
      if task := models[name].tasks.get("text"):
        word = "[MASK]" if "masked_lm_logits" in task.outputs else "text"
        needed = task.fields[: task.num_required]
        row: dict[str, object] = dict.fromkeys(needed, f"a {word}")
        if "choices" in row:
          row["choices"] = ["this", "that"]
        body = json.dumps({"instances": [row]})
        kind = "Content-Type: application/json"
        print(f"  curl -H '{kind}' -d '{body}' {path}", flush=True)
  application.run(models, config.server, sockets)
