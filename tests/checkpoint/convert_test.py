"""A model converted to another format and back is the same to the bit."""

import dataclasses
import pathlib
import shutil

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoint import checkpoints, convert, inspect, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import config as export_config
from bert_tf.export import export
from tests.support import interop_models, run_infos, tiny_models

TARGETS = {
  "original": "out/bert_model.ckpt",
  "hf": "out",
}


def there_and_back(tmp_path, kind, model_format):
  """Returns the original's tensors, and the prefix after a round trip."""
  prefix, model = interop_models.write_original(tmp_path / "in", kind)
  target = str(tmp_path / TARGETS[model_format])
  back = str(tmp_path / "back" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(prefix), target, model_format)
  convert.convert(ModelFolder.open(target), back)
  return {v.path: v.numpy() for v in model.weights}, back


@pytest.mark.parametrize("kind", interop_models.KINDS)
@pytest.mark.parametrize("model_format", TARGETS)
def test_a_round_trip_changes_no_bit(tmp_path, kind, model_format):
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
    convert.convert(
      ModelFolder.open(target),
      str(tmp_path / "c"),
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
  convert.convert(source, target, model_format)
  assert run_info.read_run(run_info.get_folder(target)) == RUN
  saved = run_info.read_labels(str(tmp_path / "out"))
  assert saved == RUN.labels
  back = str(tmp_path / "back" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(target), back)
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


def electra(tensors):
  return {n.replace("bert/", "electra/"): v for n, v in tensors.items()}


def two_models(tensors):
  return {f"{s}/{n}": v for n, v in tensors.items() for s in ("old", "new")}


def other_shapes(tensors):
  changed = {**tensors, "cls/squad/output_bias": np.zeros(3, np.float32)}
  del changed["bert/encoder/layer_1/output/dense/bias"]
  return changed


REFUSED = {
  "ELECTRA": (electra, ["model.ckpt-7", "electra/embeddings"]),
  "two models": (two_models, ["new/bert, new/cls, old/bert"]),
  "other shapes": (
    other_shapes,
    [
      "lacks bert/encoder/layer_1/output/dense/bias",
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
    lambda: checkpoints.init_from_checkpoint(model, prefix),
  ):
    with pytest.raises(ValueError) as error:
      use()
    for part in expected:
      assert part in str(error.value)
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("model_format", TARGETS)
def test_variables_outside_the_model_are_left_out_and_named(
  tmp_path, caplog, model_format
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
  target = str(tmp_path / TARGETS[model_format])
  convert.convert(ModelFolder.open(prefix), target, model_format)
  text = "".join(r.getMessage() for r in caplog.records if r.levelno > 20)
  assert all(name in text for name in extra) and "Adam" not in text
  back = str(tmp_path / "back" / "bert_model.ckpt")
  convert.convert(ModelFolder.open(target), back)
  assert set(checkpoints.CheckpointReader(back).shapes) == set(tensors)


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
  for kind in TARGETS:
    target = str(root / kind) + FILES[kind][0]
    convert.convert(ModelFolder.open(str(run)), target, kind)
  interop_models.write_beside(root / "model_garden", "encoder")
  for path in (tiny_models.TINY.parent / "model_garden").glob("encoder.[di]*"):
    name = path.name.replace("encoder", "m")
    shutil.copy(path, root / "model_garden" / name)
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
    convert.convert(source, target)
  else:
    bert_tf.load(path)


@pytest.mark.parametrize(("folder", "name"), CASES)
@pytest.mark.parametrize("damage", ["missing", "empty", "short", "noise"])
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
  if damage == "missing":
    (model / name).unlink()
  else:
    (model / name).write_bytes(changed[damage])
  path = f"{model}{FILES[folder][0]}"
  readers = [lambda: read_all(path, tmp_path)]
  if name != "saved_model.pb" or damage == "missing":
    readers.append(lambda: list(inspect.rows(inspect.open_tensors(path))))
  for reader in readers:
    with pytest.raises(ValueError, match=str(model)) as caught:
      reader()
    assert "\n" not in str(caught.value)
