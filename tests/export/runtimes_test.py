"""Tests that ONNX and LiteRT files compute the same as the SavedModel."""

import dataclasses
import importlib.util
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.export import export, runtimes
from bert_tf.export.config import ExportConfig
from bert_tf.inference import ids_functions
from bert_tf.model import heads
from tests.support import near_ties, tiny_models

# Exporting and converting a model takes longer than the tests.
pytestmark = pytest.mark.slow

# So wide that matrices are most of the file.
ENCODER_CONFIG = dataclasses.replace(
  tiny_models.CONFIG, vocab_size=20000, hidden_size=32
)
MODELS = {
  "pretraining": heads.PretrainingModel,
  "swag": heads.MultipleChoiceModel,
  "squad": heads.SpanModel,
  "encoder": modeling.BertModel,
}
PACKAGES = {
  "onnx": ("tf2onnx", "onnx", "onnxruntime"),
  "litert": ("ai_edge_litert",),
}
RUNTIMES = [
  pytest.param(
    runtime,
    marks=pytest.mark.skipif(
      not all(map(importlib.util.find_spec, packages)),
      reason=f"needs {', '.join(packages)}: pip install '.[onnx,litert]'",
    ),
  )
  for runtime, packages in PACKAGES.items()
]
TEXTS = ["the of and", "", "a in to, was?", "of the in and"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  """Returns a folder of checkpoints by task."""
  folder = tmp_path_factory.mktemp("runs")
  tiny_models.write_classifier(folder / "classification")
  tf.keras.utils.set_random_seed(3)
  for task, model_class in MODELS.items():
    sizes = ENCODER_CONFIG if task == "encoder" else tiny_models.CONFIG
    model = tiny_models.widen(model_class(sizes))
    tiny_models.write_run(folder / task, model)
    (folder / task / "bert_config.json").write_text(sizes.to_json_string())
  return folder


@pytest.fixture(scope="module")
def exported(runs, tmp_path_factory):
  """Returns a function to the folder of an exported task."""
  folder = tmp_path_factory.mktemp("exported")

  def exported(task, runtime="tensorflow", quantize="none"):
    export_dir = folder / f"{task}_{runtime}_{quantize}"
    if not export_dir.exists():
      write(runs / task, export_dir, runtime=runtime, quantize=quantize)
    return export_dir

  return exported


def write(run, export_dir, **settings):
  if "squad" in str(run):
    settings |= {"max_query_length": 8, "doc_stride": 8}
  config = ExportConfig(
    init_checkpoint=str(run),
    export_dir=str(export_dir),
    max_seq_length=24,
    with_text=settings.get("runtime") != "tensorflow",  # It is ignored.
    **settings,
  )
  return export.run(config)


def load(folder):
  return bert_tf.Predictor(str(folder)).functions["ids"]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("task", MODELS)
def test_float32_computes_what_the_saved_model_does(exported, task, runtime):
  function, expected = load(exported(task, runtime)), load(exported(task))
  assert function.inputs.keys() == expected.inputs.keys()
  # Other sizes than those of the check, growing and shrinking.
  for sizes in ((4, 11), (6, 24), (2, 3)):
    inputs = runtimes.sample(function, tiny_models.CONFIG, *sizes)
    outputs, want = function(inputs), expected(inputs)
    assert outputs.keys() == want.keys() == function.outputs.keys()
    for name, value in want.items():
      np.testing.assert_allclose(outputs[name], value, atol=3e-5)
      shape = zip(function.outputs[name].shape, value.shape, strict=True)
      assert all(size in (None, actual) for size, actual in shape)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_int8_is_smaller_and_differs_a_little(exported, runtime, caplog):
  caplog.set_level("INFO")
  folder = exported("encoder", runtime, "int8")
  assert "MatMul" not in caplog.text  # The quantizer's own lines.
  file = runtimes.FILES[runtime]
  size = os.path.getsize(exported("encoder", runtime) / file)
  assert os.path.getsize(folder / file) < 0.6 * size
  function = load(folder)
  inputs = runtimes.sample(function, ENCODER_CONFIG, 3, 9)
  outputs = function(inputs)["pooled_output"]
  want = load(exported("encoder"))(inputs)["pooled_output"]
  # More than float32's rounding; tanh of [-1, 1], so no other model's either.
  assert 1e-4 < np.abs(outputs - want).mean() < 0.1


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_folder_answers_texts_as_its_checkpoint_does(runs, exported, runtime):
  checkpoint = bert_tf.Predictor(str(runs / "classification"))
  model = bert_tf.load(exported("classification", runtime))
  assert model.info.labels == checkpoint.info.labels
  for ours, theirs in zip(model.predict(TEXTS), checkpoint.predict(TEXTS)):
    assert ours["label"] in near_ties.best(theirs["probabilities"])
    for label, probability in theirs["probabilities"].items():
      assert abs(ours["probabilities"][label] - probability) < 1e-5
  [inputs] = model.ids_reader.preprocess(
    [{n: [1] for n in model.ids_reader.fields}]
  )
  [outputs] = model.compute(inputs.sequences, model.ids_reader)
  assert outputs["logits"].shape == (3,)
  with pytest.raises(ValueError, match="no attention"):
    model.attention("the")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_an_encoder_gives_the_vectors_of_its_checkpoint(
  runs, exported, runtime
):
  folder = exported("encoder", runtime)
  model = bert_tf.load(folder)
  expected = bert_tf.load(runs / "encoder")
  np.testing.assert_allclose(
    model.encode(TEXTS), expected.encode(TEXTS), atol=1e-5
  )
  for ours, theirs in zip(model.extract(TEXTS), expected.extract(TEXTS)):
    np.testing.assert_allclose(ours.vectors, theirs.vectors, atol=1e-5)
  with pytest.raises(ValueError, match="only the last layer"):
    bert_tf.FeatureExtractor(str(folder), layers=(0,))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_only_predictions_of_its_task_are_possible(exported, runtime, tmp_path):
  folder = exported("squad", runtime)
  with pytest.raises(ValueError, match="no head for ner.* squad"):
    bert_tf.Predictor(str(folder), task="ner")
  for open_model in (
    modeling.BertModel.from_pretrained,
    checkpoints.CheckpointReader,
    bert_tf.SentenceScorer,
    lambda path: write(path, tmp_path / "new"),
  ):
    with pytest.raises(ValueError, match="can only predict"):
      open_model(str(folder))
  damaged = tmp_path / "damaged"
  shutil.copytree(folder, damaged)
  path = damaged / runtimes.FILES[runtime]
  path.write_bytes(path.read_bytes()[:1000])
  with pytest.raises(ValueError, match=path.name):
    bert_tf.load(damaged)


def off_by(difference):
  def alter(outputs):
    probabilities = outputs["probabilities"].copy()
    probabilities[-1, -1] += difference
    return {**outputs, "probabilities": probabilities}

  return alter


@pytest.mark.parametrize(
  ("alter", "quantize", "words"),
  [
    (off_by(2e-4), "none", "probabilities by 2.0e-04, more than 1e-04"),
    (off_by(float("nan")), "none", "probabilities by nan"),
    (off_by(float("nan")), "int8", "probabilities by nan"),
    (lambda outputs: {"logits": outputs["logits"]}, "none", "returns"),
    (lambda out: {n: v[:1] for n, v in out.items()}, "none", "returns"),
  ],
)
def test_a_result_with_other_outputs_is_not_written(
  runs, exported, tmp_path, monkeypatch, alter, quantize, words
):
  function = load(exported("classification"))
  monkeypatch.setattr(
    ids_functions,
    "load_runtime_file",
    lambda *_: lambda inputs: alter(function(inputs)),
  )
  with pytest.raises(ValueError, match=words):
    write(
      runs / "classification",
      tmp_path / "new",
      runtime="litert",
      quantize=quantize,
    )
  assert not list(tmp_path.iterdir())
