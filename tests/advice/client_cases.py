"""Advice about vectors of texts and about the protocols of other clients."""

import json
import pathlib

from bert_tf import model_folder
from bert_tf.export import config as export_config
from bert_tf.export.signatures import encoders
from bert_tf.server import config as server_config
from bert_tf.server import embeddings, kserve, served
from tests.advice.following import Case
from tests.support import fake_model

CONFIG = server_config.ServerConfig(max_text_length=3)
TEXT = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}


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


def infer(*inputs, tensors=b"", **values):
  content = json.dumps({"inputs": inputs, **values}).encode()
  functions = fake_model.FakeModel().functions
  length = str(len(content))
  return kserve.parse(content + tensors, length, functions, CONFIG)


def binary(size):
  text = {key: TEXT[key] for key in ("name", "datatype", "shape")}
  return {**text, "parameters": {"binary_data_size": size}}


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
  Case(
    "server.kserve _named",
    ("text", "once"),
    lambda w: infer(TEXT, TEXT),
    lambda w: infer(TEXT),
  ),
  Case(
    "server.kserve _cut",
    ("binary_data_size", "9", "5", kserve.HEADER_LENGTH),
    lambda w: infer(binary(9), tensors=b"\1\0\0\0a"),
    lambda w: (infer(TEXT), infer(binary(5), tensors=b"\1\0\0\0a")),
  ),
  Case(
    "server.kserve _parse_shape",
    ("text", "[-1]"),
    lambda w: infer(TEXT | {"shape": [-1]}),
    lambda w: infer(TEXT),
  ),
)
