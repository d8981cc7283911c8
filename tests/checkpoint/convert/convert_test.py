"""A model converted to another format and back is the same to the bit."""

import dataclasses
import json

import numpy as np
import pytest

from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.checkpoint.convert import convert, keras_weights
from bert_tf.checkpoint.model_folder import ModelFolder
from tests.support import interop_models, run_infos

TARGETS = {
  "original": "out/bert_model.ckpt",
  "hf": "out",
  "model_garden": "out/bert_model.ckpt",
  "keras": "out/bert.weights.h5",
}


def there_and_back(tmp_path, kind, model_format):
  """Returns the original's tensors, and the prefix after a round trip."""
  prefix, model = interop_models.write_original(tmp_path / "in", kind)
  target = str(tmp_path / TARGETS[model_format])
  back = str(tmp_path / "back" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(prefix), "original", target, model_format)
  convert.convert(ModelFolder.open(target), model_format, back, "original")
  return {v.path: v.numpy() for v in model.weights}, back


@pytest.mark.parametrize("kind", interop_models.KINDS)
@pytest.mark.parametrize("model_format", ["hf", "model_garden", "keras"])
def test_a_round_trip_changes_no_bit(tmp_path, kind, model_format):
  if (kind, model_format) == ("choice", "model_garden"):
    with pytest.raises(ValueError, match="multiple choice"):
      there_and_back(tmp_path, kind, model_format)
    return
  expected, back = there_and_back(tmp_path, kind, model_format)
  reader = checkpoints.CheckpointReader(back)
  # The result has neither slots nor a step.
  assert set(reader.shapes) == set(expected)
  for name, value in expected.items():
    result = reader.get(name)
    assert result.dtype == np.float32
    assert result.tobytes() == value.tobytes(), name
  files = {"bert_config.json", "vocab.txt", "run.json"}
  if kind in interop_models.LABEL_MAPS:
    files.add("label_map.json")
  for name in files - {"run.json"}:
    content = (tmp_path / "back" / name).read_bytes()
    assert content == (tmp_path / "in" / name).read_bytes(), name
  written = {path.name for path in (tmp_path / "back").iterdir()}
  assert {n for n in written if not n.startswith("bert_model.")} == files


@pytest.mark.parametrize("kind", interop_models.KINDS)
def test_keras_weights_are_those_that_the_models_load_and_save(tmp_path, kind):
  prefix, model = interop_models.write_original(tmp_path / "in", kind)
  target = str(tmp_path / "out" / "bert.weights.h5")
  convert.convert(ModelFolder.open(prefix), "original", target, "keras")
  loaded = interop_models.KINDS[kind](interop_models.CONFIG)
  loaded.load_weights(target)
  for variable, expected in zip(loaded.weights, model.weights, strict=True):
    np.testing.assert_array_equal(variable.numpy(), expected.numpy())

  saved = tmp_path / "in" / "saved.weights.h5"
  model.save_weights(saved)
  back = str(tmp_path / "back" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(str(saved)), "keras", back, "original")
  interop_models.assert_close(
    interop_models.outputs(interop_models.loaded(kind, back), kind),
    interop_models.outputs(model, kind),
    atol=0,
  )


@pytest.mark.parametrize("source_format", TARGETS)
def test_weights_that_are_not_finite_are_not_converted(
  tmp_path, monkeypatch, source_format
):
  prefix, model = interop_models.write_original(tmp_path / "in", "encoder")
  tensors = {v.path: v.numpy() for v in model.weights}
  tensors["bert/embeddings/LayerNorm/beta"][2] = np.nan
  checkpoints.write(prefix, tensors)
  target = str(tmp_path / TARGETS[source_format])
  with monkeypatch.context() as patch:
    patch.setattr(checkpoints, "check_finite", lambda path, tensors: None)
    convert.convert(ModelFolder.open(prefix), "original", target, source_format)
  with pytest.raises(ValueError, match="not finite, in .*beta"):
    convert.convert(
      ModelFolder.open(target),
      source_format,
      str(tmp_path / "c"),
      "original",
    )


RUN = run_infos.make(
  task="classification",
  do_lower_case=True,
  strip_accents=False,
  max_seq_length=9,
  task_name="mine",
  problem_type="multilabel",
  labels=("good", "bad", "schön"),
  is_pair=True,
)


@pytest.mark.parametrize("model_format", TARGETS)
def test_run_json_comes_along(tmp_path, model_format):
  prefix, _ = interop_models.write_original(tmp_path / "in", "classifier")
  vocab_file = str(tmp_path / "in" / "vocab.txt")
  run_infos.write(str(tmp_path / "in"), RUN, interop_models.CONFIG, vocab_file)
  target = str(tmp_path / TARGETS[model_format])
  source = ModelFolder.open(prefix)
  convert.convert(source, "original", target, model_format)
  assert run_info.read_run(run_info.get_folder(target)) == RUN
  saved = run_info.read_labels(str(tmp_path / "out"))
  assert saved == RUN.labels
  back = str(tmp_path / "back" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(target), model_format, back, "original")
  assert run_info.read_run(run_info.get_folder(back)) == RUN


@pytest.mark.parametrize("average_last", [1, 2])
def test_run_json_stays_beside_an_original_checkpoint(
  tmp_path, run_script, average_last
):
  interop_models.write_beside(tmp_path / "run", "encoder")
  vocab_file = str(tmp_path / "run" / "vocab.txt")
  run = run_infos.make(
    task="encoder", do_lower_case=False, scores={"loss": 0.5}
  )
  run_infos.write(str(tmp_path / "run"), run, interop_models.CONFIG, vocab_file)
  model = interop_models.random_model("encoder")
  for step in range(3):
    tensors = {v.path: v.numpy() for v in model.weights}
    tensors["global_step"] = np.int64(step)
    checkpoints.save(str(tmp_path / "run"), tensors, keep_checkpoint_max=5)
  # Step 0 is not trained.
  with pytest.raises(ValueError, match="average_last=3.*run has 2"):
    convert.slim(str(tmp_path / "run"), str(tmp_path / "m"), average_last=3)
  config = (tmp_path / "run" / "bert_config.json").read_text()
  (tmp_path / "out").mkdir()
  (tmp_path / "out" / "bert_config.json").write_text(f"{config}\n")
  flags = (f"--average_last={average_last}", "--model=run")
  command = ("convert", *flags)
  result = run_script(*command, "--output_checkpoint=out/m", cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  if average_last > 1:  # The scores belong to weights that were not averaged.
    run = dataclasses.replace(run, scores={})
  assert run_info.read_run(str(tmp_path / "out")) == run
  vocab = (tmp_path / "out" / "vocab.txt").read_text()
  assert vocab == interop_models.VOCAB
  # The folder of another model does not change.
  (tmp_path / "other").mkdir()
  (tmp_path / "other" / "vocab.txt").write_text("other\n")
  result = run_script(*command, "--output_checkpoint=other/m", cwd=tmp_path)
  assert result.returncode == 1
  assert "vocab.txt" in result.stderr and "output_checkpoint" in result.stderr
  assert [p.name for p in (tmp_path / "other").iterdir()] == ["vocab.txt"]


def test_tensors_that_do_not_fit_the_config_are_all_named(tmp_path):
  prefix, model = interop_models.write_original(tmp_path / "in", "span")
  tensors = {v.path: v.numpy() for v in model.weights}
  del tensors["bert/encoder/layer_1/output/dense/bias"]
  tensors["cls/squad/output_bias"] = np.zeros(3, np.float32)
  tensors["bert/pooler/dense/bias"] = np.zeros(8, np.int32)
  tensors["lstm/kernel"] = np.zeros(1, np.float32)
  checkpoints.write(prefix, tensors)
  with pytest.raises(ValueError) as error:
    convert.convert(
      ModelFolder.open(prefix), "original", str(tmp_path / "out"), "hf"
    )
  for expected in (
    "bert/encoder/layer_1/output/dense/bias is missing",
    "cls/squad/output_bias is float32 of (3,), not a float of (2,)",
    "bert/pooler/dense/bias is int32 of (8,), not a float of (8,)",
    "lstm/kernel",
  ):
    assert expected in str(error.value)
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
  ("num_layers", "expected"),
  [
    (3, "no weights of a ClassifierModel"),
    (1, "a ClassifierModel with this config has"),
  ],
)
def test_keras_weights_of_another_config_are_refused(
  tmp_path, num_layers, expected
):
  interop_models.write_beside(tmp_path, "classifier")
  path = tmp_path / "m.weights.h5"
  interop_models.random_model("classifier").save_weights(path)
  config = tmp_path / "bert_config.json"
  sizes = json.loads(config.read_text())
  config.write_text(json.dumps({**sizes, "num_hidden_layers": num_layers}))
  with pytest.raises(ValueError, match=expected):
    keras_weights.read(ModelFolder.open(str(path)))
