"""Advice about vectors of texts."""

import json
import pathlib

from bert_tf import model_folder
from bert_tf.export import config as export_config
from bert_tf.export.signatures import encoders
from bert_tf.server import config as server_config
from bert_tf.server import embeddings, served
from tests.advice.following import Case
from tests.support import fake_model

CONFIG = server_config.ServerConfig(max_text_length=3)


def resolve(world, modules=("Transformer", "Pooling"), mode="mean", **values):
  """Resolves the settings of an encoder with sentence-transformers' files."""
  folder = pathlib.Path(world.copy("encoder"))
  types = [{"type": f"models.{name}", "path": name} for name in modules]
  world.write(str(folder / "modules.json"), json.dumps(types))
  config = json.dumps({"pooling_mode": mode})
  world.write(str(folder / "Pooling" / "config.json"), config)
  config = export_config.ModelConfig(init_checkpoint=str(folder), **values)
  encoders.resolve_settings(model_folder.find(str(folder)), config)


def check(**values):
  config = export_config.ModelConfig(init_checkpoint="", pooling="max")
  config.check_used(with_text=True, **values)


def embed(texts="a", **values):
  models = served.create_models(
    {"model": fake_model.VectorModel(), "other": fake_model.FakeModel()}
  )
  request = {"model": "model", "input": texts, **values}
  return embeddings.parse(request, models, CONFIG)


CASES = (
  Case(
    "export.config check_used",
    ("pooling", "'max'", "squad", "task=encoder"),
    lambda w: check(task="squad"),
    lambda w: check(task="encoder"),
  ),
  Case(
    "formats.sentence_transformers read_settings",
    ("modules.json", "Dense", "pooling"),
    lambda w: resolve(w, ("Transformer", "Pooling", "Dense")),
    lambda w: resolve(w, ("Transformer", "Pooling", "Dense"), pooling="mean"),
  ),
  Case(
    "formats.sentence_transformers _read_pooling",
    ("config.json", "weightedmean", "mean", "cls", "max"),
    lambda w: resolve(w, mode="weightedmean"),
    lambda w: resolve(w, mode="weightedmean", pooling="cls"),
  ),
  Case(
    "server.embeddings parse",
    ("inputs", "input", "encoding_format"),
    lambda w: embed(inputs="a"),
    lambda w: embed(encoding_format="float"),
  ),
  Case(
    "server.embeddings parse",
    ("encoding_format", "'int8'", "base64"),
    lambda w: embed(encoding_format="int8"),
    lambda w: embed(encoding_format="base64"),
  ),
  Case(
    "server.embeddings _find_model",
    ("other", "`task=encoder`"),
    lambda w: embed(model="other"),
    lambda w: embed(),
  ),
  Case(
    "server.embeddings _parse_input",
    ("2049", "2048"),
    lambda w: embed(["a"] * 2049),
    lambda w: (embed(["a"] * 2048), embed(["a"])),
  ),
  Case(
    "server.embeddings _parse_input",
    ("text 1", "4", "3"),
    lambda w: embed(["a", "abcd"]),
    lambda w: embed(["a", "abc"]),
  ),
)
