"""Damaged weights of every format end in one line that names them."""

import pathlib
import shutil

import pytest

import bert_tf
from bert_tf.checkpoint.convert import convert, inspect
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import config as export_config
from bert_tf.export import export
from tests.support import tiny_models

# For each folder: the path of the model and the weights files.
FILES = {
  "saved_model": (
    "",
    (
      "saved_model.pb",
      "variables/variables.index",
      "variables/variables.data-00000-of-00001",
    ),
  ),
  "model_garden": ("/m", ("m.index", "m.data-00000-of-00001")),
  "hf": ("", ("model.safetensors",)),
  "keras": ("/m.weights.h5", ("m.weights.h5",)),
  "original": ("/m", ("m.index", "m.data-00000-of-00001")),
}
CASES = [
  (folder, name) for folder, (_, names) in FILES.items() for name in names
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  """The same model in every format, each in a folder of the format's name."""
  root = tmp_path_factory.mktemp("models")
  run = tiny_models.write_classifier(root / "run")
  for kind in convert.FORMATS:
    target = str(root / kind) + FILES[kind][0]
    convert.convert(ModelFolder.open(str(run)), "original", target, kind)
  export.run(
    export_config.ExportConfig(
      init_checkpoint=str(run), export_dir=str(root / "saved_model")
    )
  )
  return root


def read_all(path, tmp_path):
  """Reads every value of a model as the commands do."""
  if not pathlib.Path(path, "saved_model.pb").exists():
    source = ModelFolder.open(path)
    target = str(tmp_path / "again" / "m")
    convert.convert(source, convert.find_format(path), target, "original")
  else:
    bert_tf.load(path)


@pytest.mark.parametrize(("folder", "name"), CASES)
@pytest.mark.parametrize("damage", ["empty", "short", "noise"])
def test_damage_ends_in_one_line_that_names_the_model(
  folders, tmp_path, folder, name, damage
):
  model = tmp_path / folder
  shutil.copytree(folders / folder, model)
  content = (model / name).read_bytes()
  size = len(content)
  changed = {
    "empty": b"",
    "short": content[:-1],
    "noise": bytes(i * 37 % 251 for i in range(size)),
  }
  (model / name).write_bytes(changed[damage])
  path = f"{model}{FILES[folder][0]}"
  readers = [lambda: read_all(path, tmp_path)]
  if name != "saved_model.pb":  # Not read by `inspect`.
    readers.append(lambda: list(inspect.rows(inspect.open_tensors(path))))
  for reader in readers:
    with pytest.raises(ValueError, match=str(model)) as caught:
      reader()
    assert "\n" not in str(caught.value)
