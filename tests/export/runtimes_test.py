"""Tests that ONNX and LiteRT files compute the same as the SavedModel."""

import dataclasses
import importlib.util
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.export import config as configs
from bert_tf.export import export
from bert_tf.export.runtimes import config as runtime_config
from bert_tf.export.runtimes import conversion
from bert_tf.model import heads
from bert_tf.tasks.classification import glue
from tests.support import tiny_models

# Exporting and converting a model takes longer than the tests.
pytestmark = pytest.mark.slow

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
CONFIG = modeling.BertConfig(
  vocab_size=50,
  hidden_size=16,
  num_hidden_layers=1,
  num_attention_heads=2,
  intermediate_size=32,
  max_position_embeddings=24,
  type_vocab_size=2,
  initializer_range=0.3,
)
# So wide that matrices are most of the file.
ENCODER_CONFIG = dataclasses.replace(CONFIG, vocab_size=3000, hidden_size=32)
MODELS = {
  "pretraining": heads.PretrainingModel,
  "swag": heads.MultipleChoiceModel,
  "squad": heads.SpanModel,
  "encoder": modeling.BertModel,
}
PACKAGES = {
  ".onnx": ("tf2onnx", "onnx", "onnxruntime"),
  ".tflite": ("ai_edge_litert",),
}
ENDINGS = [
  pytest.param(
    ending,
    marks=pytest.mark.skipif(
      not all(map(importlib.util.find_spec, packages)),
      reason=f"needs {', '.join(packages)}: pip install '.[onnx,litert]'",
    ),
  )
  for ending, packages in PACKAGES.items()
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
  """Returns a function from a task to the folder of a small SavedModel."""
  folder = tmp_path_factory.mktemp("exported")

  def exported(task):
    export_dir = folder / task
    if not export_dir.exists():
      make_saved_model(task, folder / f"{task}_run", export_dir)
    return str(export_dir)

  return exported


def make_saved_model(task, run, export_dir):
  settings = {"with_text": False}
  if task == "classification":
    shutil.copytree(GOLDEN / "tiny_classifier", run)
    labels = [*glue.get_task("MNLI").labels]
    label_map = {"task_name": "MNLI", "problem_type": task, "labels": labels}
    (run / "label_map.json").write_text(json.dumps(label_map))
    # It also has text functions, which are not converted.
    settings = {"vocab_file": str(tiny_models.TINY / "vocab.txt")}
  else:
    tf.keras.utils.set_random_seed(3)
    config = ENCODER_CONFIG if task == "encoder" else CONFIG
    model = tiny_models.widen(MODELS[task](config))
    tiny_models.write_run(run, model)
    (run / "bert_config.json").write_text(config.to_json_string())
    (run / "vocab.txt").unlink()  # Larger than the model.
  if task == "squad":
    settings |= {"max_query_length": 8, "doc_stride": 8}
  export.run(
    configs.ExportConfig(
      export_dir=str(export_dir),
      init_checkpoint=str(run),
      max_seq_length=24,
      **settings,
    )
  )


def convert(folder, path, is_int8=False):
  config = runtime_config.ConversionConfig(
    saved_model=str(folder),
    output_file=str(path),
    quantize="int8" if is_int8 else "none",
  )
  return conversion.convert(config)


def load(path):
  return conversion.FORMATS[path.suffix].load(str(path))


def rows(batch_size, length, num_masks=None):
  """Returns random ids; all rows except the first have padding."""
  rng = np.random.default_rng(5)
  lengths = np.array([length, *rng.integers(1, length, batch_size - 1)])
  values = {
    "input_ids": rng.integers(50, size=(batch_size, length)),
    "input_mask": np.arange(length) < lengths[:, None],
    "segment_ids": rng.integers(2, size=(batch_size, length)),
  }
  if num_masks:
    shape = (batch_size, num_masks)
    values["masked_lm_positions"] = rng.integers(length, size=shape)
  return {name: value.astype(np.int32) for name, value in values.items()}


def saved_model_outputs(folder, inputs):
  function = tf.saved_model.load(folder).signatures["ids"]
  outputs = function(**{n: tf.constant(v) for n, v in inputs.items()})
  return {name: value.numpy() for name, value in outputs.items()}


@pytest.fixture(scope="module")
def converted(exported, tmp_path_factory):
  """Returns a function to the converted encoder and its differences."""
  folder = tmp_path_factory.mktemp("converted")
  result = {}

  def converted(ending, is_int8=False):
    path = folder / "deep" / f"{'int8' if is_int8 else 'float32'}{ending}"
    if path not in result:
      result[path] = convert(exported("encoder"), path, is_int8)
    return path, result[path]

  return converted


@pytest.mark.parametrize("ending", ENDINGS)
def test_float32_computes_what_the_saved_model_does(
  exported, converted, ending
):
  path, result = converted(ending)
  assert set(result) == {"pooled_output", "sequence_output"}
  assert max(result.values()) < 1e-5
  run = load(path)
  # Other sizes than those of the check, growing and shrinking.
  for sizes in ((2, 7), (5, 24), (1, 3)):
    inputs = rows(*sizes)
    outputs = run(inputs)
    want = saved_model_outputs(exported("encoder"), inputs)
    assert set(outputs) == set(want)
    for name, value in want.items():
      np.testing.assert_allclose(outputs[name], value, atol=1e-5)
  assert not list(path.parent.glob(".*"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_int8_is_smaller_and_reports_its_differences(
  exported, converted, ending
):
  path, result = converted(ending, is_int8=True)
  # More than float32's rounding; tanh of [-1, 1], so no other model's either.
  assert 1e-4 < result["pooled_output"] < 0.2
  assert path.stat().st_size < 0.6 * converted(ending)[0].stat().st_size
  inputs = rows(3, 9)
  outputs = load(path)(inputs)["pooled_output"]
  want = saved_model_outputs(exported("encoder"), inputs)["pooled_output"]
  assert 1e-4 < np.abs(outputs - want).max() < 0.2


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("task", [task for task in MODELS if task != "encoder"])
def test_every_task_is_converted(exported, tmp_path, task, ending):
  path = tmp_path / f"model{ending}"
  result = convert(exported(task), path)
  assert max(result.values()) < 1e-5
  inputs = rows(4, 11, num_masks=3 if task == "pretraining" else None)
  if task == "swag":
    inputs = {name: value.reshape(2, 2, 11) for name, value in inputs.items()}
  outputs = load(path)(inputs)
  for name, value in saved_model_outputs(exported(task), inputs).items():
    np.testing.assert_allclose(outputs[name], value, atol=1e-5)


@pytest.mark.parametrize("ending", ENDINGS)
def test_inputs_longer_than_the_model_are_refused(converted, ending):
  with pytest.raises(Exception, match="(?i)broadcast|failed to reshape"):
    load(converted(ending)[0])(rows(2, 25))


class Altered:
  """A runtime whose files have other outputs."""

  ENDING = ".onnx"

  def __init__(self, alter):
    self.alter = alter

  def check_is_installed(self):
    pass

  def write(self, model, path, is_int8):
    pathlib.Path(path).write_text("altered")
    self.model = model

  def load(self, path):
    return lambda inputs: self.alter(self.model.run(inputs))


def off_by(difference):
  def alter(outputs):
    probabilities = outputs["probabilities"].copy()
    probabilities[-1, -1] += difference
    return {**outputs, "probabilities": probabilities}

  return alter


@pytest.mark.parametrize(
  ("alter", "is_int8", "words"),
  [
    (off_by(2e-4), False, "probabilities by 2.0e-04, more than 1e-04"),
    (off_by(float("nan")), False, "probabilities by nan"),
    (off_by(float("nan")), True, "probabilities by nan"),
    (lambda outputs: {"logits": outputs["logits"]}, False, "returns"),
    (lambda out: {n: v[:1] for n, v in out.items()}, False, "returns"),
  ],
)
def test_a_result_with_other_outputs_is_not_written(
  exported, tmp_path, monkeypatch, alter, is_int8, words
):
  monkeypatch.setitem(conversion.FORMATS, ".onnx", Altered(alter))
  path = tmp_path / "model.onnx"
  path.write_text("old")
  with pytest.raises(ValueError, match=words):
    convert(exported("classification"), path, is_int8)
  assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]
  assert path.read_text() == "old"


def test_mistakes_are_named(exported, tmp_path):
  with pytest.raises(ValueError, match="model.pb .*.onnx or .tflite"):
    convert(exported("encoder"), tmp_path / "model.pb")
