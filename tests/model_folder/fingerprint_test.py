"""Hashes of a model's weights."""

import keras
import pytest

from bert_tf import model_folder, modeling
from bert_tf.convert import convert, pretrained
from bert_tf.export import config as export_config
from bert_tf.export import export
from tests.support import tiny_models


def exported(run, folder):
  config = export_config.ExportConfig(
    init_checkpoint=str(run), export_dir=str(folder), with_text=False
  )
  export.run(config)
  return str(folder)


def converted(run, folder):
  source = pretrained.ModelSource(str(run))
  convert.convert(source, "original", str(folder), "hf")
  return str(folder / "model.safetensors")


FORMATS = {
  "run": lambda run, folder: str(run),
  "hf": converted,
  "saved_model": exported,
}


@pytest.mark.parametrize("kind", FORMATS)
def test_the_hash_of_a_model_depends_on_its_values_in_any_format(
  tmp_path, kind
):
  hashes = []
  for seed in (1, 2):
    keras.utils.set_random_seed(seed)
    model = modeling.BertModel(tiny_models.CONFIG)
    run = tiny_models.write_run(tmp_path / f"run{seed}", model)
    path = FORMATS[kind](run, tmp_path / str(seed))
    hashes += [model_folder.hash_weights(path) for _ in range(2)]
  assert hashes[0] == hashes[1] != hashes[2] == hashes[3]
