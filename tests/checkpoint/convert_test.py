"""A model converted to another format and back is the same to the bit."""

import dataclasses
import shutil

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import bert_tf
from bert_tf.checkpoint import checkpoint_names, checkpoints, convert, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import config as export_config
from bert_tf.export import export
from tests.support import interop_models, run_infos, tiny_models

TARGETS = {"original": "out/bert_model.ckpt", "hf": "out"}


@pytest.mark.parametrize("kind", interop_models.KINDS)
@pytest.mark.parametrize("model_format", TARGETS)
def test_a_round_trip_changes_no_bit(tmp_path, kind, model_format):
  prefix, model = interop_models.write_original(tmp_path / "in", kind)
  target = str(tmp_path / TARGETS[model_format])
  back = str(tmp_path / "back" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(prefix), target, model_format)
  convert.convert(ModelFolder.open(target), back)
  expected = {v.path: v.numpy() for v in model.weights}
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
    convert.convert(ModelFolder.open(prefix), target, source_format)
  with pytest.raises(ValueError, match="not finite, in .*beta"):
    convert.convert(ModelFolder.open(target), str(tmp_path / "c"))


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
  convert.convert(source, target, model_format)
  out = str(tmp_path / "out")
  assert run_info.read_run(out) == RUN
  assert run_info.read_labels(out) == RUN.labels
  back = str(tmp_path / "back" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(target), back)
  assert run_info.read_run(str(tmp_path / "back")) == RUN


@pytest.mark.parametrize(("average_last", "mean"), [(1, 2.0), (2, 1.5)])
def test_the_newest_checkpoints_of_a_run_are_slimmed_and_averaged(
  tmp_path, run_script, average_last, mean
):
  run = run_infos.make("encoder", do_lower_case=False, scores={"loss": 0.5})
  source, config = str(tmp_path / "run"), interop_models.CONFIG
  interop_models.write_beside(tmp_path / "run", "encoder")
  run_infos.write(source, run, config, f"{source}/vocab.txt")
  model = interop_models.random_model("encoder")
  for step in range(3):
    tensors = {v.path: v.numpy() * step for v in model.weights}
    tensors["global_step"] = np.int64(step)
    tensors["of_my_task"] = np.int64(5)
    checkpoints.save(source, tensors, keep_checkpoint_max=5)
  flags = (f"--average_last={average_last}", "--model=run")
  command = ("convert", *flags)
  result = run_script(*command, "--output_checkpoint=out/m", cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  reader = checkpoints.CheckpointReader(str(tmp_path / "out" / "m"))
  assert {*reader.shapes} == {"of_my_task", *(v.path for v in model.weights)}
  for variable in model.weights:
    expected = variable.numpy() * np.float32(mean)
    np.testing.assert_array_equal(reader.get(variable.path), expected)
  if average_last > 1:  # The scores belong to weights that were not averaged.
    run = dataclasses.replace(run, scores={})
  assert run_info.read_run(str(tmp_path / "out")) == run
  vocab = (tmp_path / "out" / "vocab.txt").read_text()
  assert vocab == interop_models.VOCAB
  # Beside the run, its own files stay.
  opened = ModelFolder.open(source)
  convert.convert(opened, f"{source}/slim", average_last=average_last)
  assert run_info.read_run(source).scores == {"loss": 0.5}
  # Step 0 is not trained, and the folder of another model does not change.
  with pytest.raises(ValueError, match="average_last=3.*run has 2"):
    convert.convert(opened, str(tmp_path / "m"), average_last=3)
  (tmp_path / "other").mkdir()
  (tmp_path / "other" / "vocab.txt").write_text("other\n")
  with pytest.raises(ValueError, match="vocab.txt .*`output_checkpoint`"):
    convert.convert(opened, str(tmp_path / "other" / "m"))
  assert [p.name for p in (tmp_path / "other").iterdir()] == ["vocab.txt"]


def electra(tensors):
  return {n.replace("bert/", "electra/"): v for n, v in tensors.items()}


def two_models(tensors):
  return {f"{s}/{n}": v for n, v in tensors.items() for s in ("old", "new")}


def other_shapes(tensors):
  changed = {**tensors, "cls/squad/output_bias": np.zeros(3, np.float32)}
  for name in ("bert/pooler/dense/bias", "bert/embeddings/LayerNorm/beta"):
    del changed[name]
  return changed


REFUSED = {
  "ELECTRA": (electra, ["model.ckpt-7", "electra/embeddings"]),
  "two models": (two_models, ["new/bert, new/cls, old/bert"]),
  "other shapes": (
    other_shapes,
    [
      "bert/pooler/dense/bias",
      "bert/embeddings/LayerNorm/beta",
      "cls/squad/output_bias is (3,), but the model's is (2,)",
    ],
  ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_does_not_fit_is_named_and_not_used(tmp_path, fault):
  change, expected = REFUSED[fault]
  prefix, model = interop_models.write_original(tmp_path / "in", "span")
  tensors = {v.path: v.numpy() for v in model.weights}
  checkpoints.write(prefix, change(tensors))
  for use in (
    lambda: convert.convert(ModelFolder.open(prefix), str(tmp_path / "out")),
    lambda: checkpoints.load_variables(
      checkpoints.CheckpointReader(prefix), model, "bert/"
    ),
  ):
    with pytest.raises(ValueError) as error:
      use()
    for part in expected:
      assert part in str(error.value)
  assert not (tmp_path / "out").exists()
  for variable in model.weights:
    np.testing.assert_array_equal(variable, tensors[variable.path])


def test_only_the_originals_format_keeps_variables_that_bert_lacks(
  tmp_path, caplog
):
  prefix, model = interop_models.write_original(tmp_path / "in", "span")
  tensors = {v.path: v.numpy() for v in model.weights}
  extra = {
    "beta1_power": np.float32(0.9),
    "crf/transitions": np.zeros((3, 3), "f4"),
    "bert/encoder/layer_2/output/dense/bias": np.zeros(8, "f4"),
  }
  # Slots of another optimizer are not weights.
  slots = {f"{name}/Adam": value for name, value in tensors.items()}
  checkpoints.write(prefix, {**tensors, **extra, **slots})
  back = str(tmp_path / "back" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(prefix), back)
  assert {*checkpoints.CheckpointReader(back).shapes} == {*tensors, *extra}
  convert.convert(ModelFolder.open(back), str(tmp_path / "hf"), "hf")
  text = "".join(r.getMessage() for r in caplog.records if r.levelno > 20)
  assert all(name in text for name in extra) and "Adam" not in text


# For each format: the path of the model and the files of its weights.
FILES = {
  "original": ("m", ("m.index", "m.data-00000-of-00001")),
  "model_garden": ("m", ("m.index", "m.data-00000-of-00001")),
  "hf": ("model.safetensors", ("model.safetensors",)),
  "saved_model": (
    "",
    ("variables/variables.index", "variables/variables.data-00000-of-00001"),
  ),
}
DAMAGED = [(kind, name) for kind in FILES for name in FILES[kind][1]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  """The same model in every format, each in a folder of the format's name."""
  root = tmp_path_factory.mktemp("models")
  run = tiny_models.write_classifier(root / "run")
  source = ModelFolder.open(str(run))
  convert.convert(source, str(root / "original" / "m"))
  convert.convert(source, str(root / "hf"), "hf")
  interop_models.write_beside(root / "model_garden", "encoder")
  for path in (tiny_models.TINY.parent / "model_garden").glob("encoder.[di]*"):
    name = path.name.replace("encoder", "m")
    shutil.copy(path, root / "model_garden" / name)
  folder = str(root / "saved_model")
  export.run(
    export_config.ExportConfig(init_checkpoint=str(run), export_dir=folder)
  )
  return root


def damaged(draw, content, size):
  """Returns a file that is cut, longer, or noisy in its first `size` bytes."""
  start = draw(st.integers(0, size - 1))
  noise = draw(st.binary(max_size=20))
  end = draw(st.sampled_from([start, start + len(noise), len(content)]))
  return content[:start] + noise[: size - start] + content[min(end, size) :]


@pytest.mark.parametrize(("kind", "name"), DAMAGED)
@hypothesis.settings(max_examples=20)
@hypothesis.given(data=st.data())
def test_a_damaged_model_is_refused_in_one_line_or_has_the_right_values(
  folders, kind, name, data
):
  path, weights = str(folders / kind / FILES[kind][0]), folders / kind / name
  content = weights.read_bytes()
  reader = checkpoints.CheckpointReader(path)
  expected = {n: reader.get(n) for n in reader.shapes}
  size = len(content)
  if kind == "hf":  # Its values have no checksums, only the header has checks.
    size = 8 + int.from_bytes(content[:8], "little")
  try:
    weights.write_bytes(damaged(data.draw, content, size))
    reader = checkpoints.CheckpointReader(path)
    missing = [n for n in expected if n not in reader.shapes]
    checkpoint_names.check_fits(path, reader.shapes, expected, missing)
    for n, value in expected.items():
      np.testing.assert_array_equal(reader.get(n), value)
  except ValueError as error:
    assert path in str(error) and "\n" not in str(error)
  finally:
    weights.write_bytes(content)


@pytest.mark.parametrize(
  ("kind", "name"), [*DAMAGED, ("saved_model", "saved_model.pb")]
)
@pytest.mark.parametrize("content", [None, b"", b"noise"])
def test_a_missing_or_other_file_of_a_model_is_refused_in_one_line(
  folders, tmp_path, kind, name, content
):
  shutil.copytree(folders / kind, tmp_path / kind)
  (tmp_path / kind / name).unlink()
  if content is not None:
    (tmp_path / kind / name).write_bytes(content)
  with pytest.raises(ValueError, match=str(tmp_path / kind)) as caught:
    bert_tf.load(tmp_path / kind)
  assert "\n" not in str(caught.value)
