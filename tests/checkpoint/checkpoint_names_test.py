"""Checkpoints of other programs are read, or refused with their names."""

import json
import shutil

import numpy as np
import pytest

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.checkpoint.convert import convert
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.model import heads
from tests.support import tiny_models

SCOPE = "bert/embeddings/"


def tensors():
  model = heads.PretrainingModel(tiny_models.CONFIG)
  return {
    v.path: np.array(v.numpy()) for v in model.weights if "seed" not in v.path
  }


def write(folder, values, num_layers=2):
  """Writes a model folder with these variables; returns its name."""
  folder.mkdir()
  checkpoints.write(str(folder / "bert_model.ckpt"), values)
  config = {**vars(tiny_models.CONFIG), "num_hidden_layers": num_layers}
  (folder / "bert_config.json").write_text(json.dumps(config))
  shutil.copy(tiny_models.TINY / "vocab.txt", folder / "vocab.txt")
  return str(folder)


def numbered_layer_norms(name, scopes):
  """Returns the name in Keras, which numbers all layer norms of a program."""
  if "LayerNorm" not in name:
    return name
  scope = name.partition("LayerNorm")[0]
  scopes.setdefault(scope, f"_{len(scopes)}" if scopes else "")
  return name.replace("LayerNorm", f"layer_normalization{scopes[scope]}")


def renamed(values, program):
  if program == "keras":
    scopes = {}
    return {numbered_layer_norms(n, scopes): v for n, v in values.items()}
  if program == "layer_norm":
    return {n.replace("LayerNorm", "layer_norm"): v for n, v in values.items()}
  return {f"module/{n}": v for n, v in values.items()}


@pytest.mark.parametrize("program", ["keras", "layer_norm", "module"])
def test_a_bert_with_other_names_is_read(tmp_path, program):
  values = tensors()
  values |= {f"{n}/adam_m": v for n, v in values.items() if "LayerNorm" in n}
  folder = write(tmp_path / "m", renamed(values, program))
  model = heads.PretrainingModel.from_pretrained(folder)
  for variable in model.weights:
    if "seed" not in variable.path:
      np.testing.assert_array_equal(variable.numpy(), values[variable.path])
  target = str(tmp_path / "out" / "m.ckpt")
  assert convert.find_format(folder) == "original"
  convert.slim(folder, target)
  assert set(checkpoints.CheckpointReader(target).shapes) == set(tensors())


def test_an_ambiguous_layer_norm_is_refused(tmp_path):
  values = renamed(tensors(), "layer_norm")
  gamma = f"{SCOPE}layer_norm/gamma"
  values[f"{SCOPE}layer_norm_1/gamma"] = values[gamma]
  folder = write(tmp_path / "m", values)
  with pytest.raises(ValueError) as error:
    modeling.BertModel.from_pretrained(folder)
  assert "bert/embeddings/LayerNorm/gamma" in str(error.value)
  assert gamma in str(error.value)


def electra(values):
  values = {
    n.replace("bert/", "electra/"): v
    for n, v in values.items()
    if n.startswith("bert/")
  }
  return {**values, "discriminator_predictions/dense/bias": np.zeros(2, "f4")}


def two_berts(values):
  return {
    f"{scope}/{n}": v for n, v in values.items() for scope in ("old", "new")
  }


OTHERS = {
  "ELECTRA": (electra, "bert_model.ckpt .*electra/embeddings"),
  "two": (two_berts, "new/bert, new/cls, old/bert"),
}


def fine_tune(folder):
  model = heads.ClassifierModel(tiny_models.CONFIG, 2)
  checkpoints.init_from_checkpoint(model, f"{folder}/bert_model.ckpt")


def to_hf(folder):
  source = ModelFolder.open(folder)
  convert.convert(source, f"{folder}/out", "hf")


USES = {
  "fine-tuning": fine_tune,
  "convert": to_hf,
}


@pytest.mark.parametrize(
  ("kind", "use"),
  [*((kind, "convert") for kind in OTHERS), *(("ELECTRA", u) for u in USES)],
)
def test_a_checkpoint_of_another_model_is_refused(tmp_path, kind, use):
  rename, expected = OTHERS[kind]
  folder = write(tmp_path / "m", rename(tensors()))
  with pytest.raises(ValueError, match=expected):
    USES[use](folder)


def test_a_layer_that_is_not_in_the_config_is_named(tmp_path, caplog):
  values = tensors()
  # Slots of another optimizer are not weights.
  values |= {f"{n}/Adam": v for n, v in values.items()}
  USES["convert"](write(tmp_path / "m", values, num_layers=1))
  warnings = [r.getMessage() for r in caplog.records if r.levelname != "INFO"]
  [warning] = [w for w in warnings if "bert/encoder/layer_1" in w]
  assert "Adam" not in warning


@pytest.mark.parametrize(
  ("target", "name"),
  [
    ("original", "out/m.ckpt"),
    ("hf", "out"),
  ],
)
def test_unknown_variables_are_left_out_and_named(
  tmp_path, caplog, target, name
):
  extra = {
    "beta1_power": np.float32(0.9),
    "crf/transitions": np.zeros((3, 3), "f4"),
    "bert/embeddings/relation_embedding": np.zeros((3, 16), "f4"),
  }
  folder = write(tmp_path / "m", {**tensors(), **extra})
  path = str(tmp_path / name)
  convert.convert(ModelFolder.open(folder), path, target)
  text = "".join(r.getMessage() for r in caplog.records if r.levelno > 20)
  for extra_name in extra:
    assert extra_name in text
  back = str(tmp_path / "back" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(path), back)
  assert set(checkpoints.CheckpointReader(back).shapes) == set(tensors())
