"""Models are opened from every kind of folder, and written to one."""

import collections
import json
import shutil
import types

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import modeling
from bert_tf.checkpoint import checkpoints, convert
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.export import config as export_config
from bert_tf.export import export
from bert_tf.files import paths
from bert_tf.model import heads
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import config as classification_config
from bert_tf.training import config as training_config
from tests.support import run_infos, tiny_models

LABELS = ("bad", "good", "so so")
RUN = run_infos.make(
  task="classification",
  do_lower_case=True,
  max_seq_length=24,
  long_text="truncate",
  task_name="jsonl",
  problem_type="classification",
  labels=LABELS,
  is_pair=False,
)
TEXTS = ["the best of all", "a"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  """The same classifier in every kind of folder, by kind."""
  root = tmp_path_factory.mktemp("models")
  run = tiny_models.write_classifier(root / "run")
  run_infos.write(str(run), RUN, tiny_models.CONFIG, str(run / "vocab.txt"))
  source = ModelFolder.open(str(run))
  convert.convert(source, str(root / "hf"), "hf")
  for name in ("run.json", "label_map.json", "bert_config.json"):
    (root / "hf" / name).unlink()
  slim = str(root / "released" / "bert_model.ckpt")
  convert.convert(source, slim)
  (root / "released" / "run.json").unlink()
  config = export_config.ExportConfig(
    init_checkpoint=str(run), export_dir=str(root / "versions" / "3")
  )
  export.run(config)
  (root / "versions" / "2").mkdir()
  return {
    "run": run,
    "released": root / "released",
    "hf": root / "hf",
    "safetensors": root / "hf" / "model.safetensors",
    "prefix": root / "released" / "bert_model.ckpt",
    "saved_model": root / "versions" / "3",
    "versions": root / "versions",
  }


KINDS = (
  *("run", "released", "hf", "safetensors"),
  *("prefix", "saved_model", "versions"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_folder_brings_weights_labels_and_predictions(folders, kind):
  opened = ModelFolder.open(str(folders[kind]))
  assert opened.saved.task == "classification"
  assert opened.saved.labels.labels == LABELS
  assert opened.saved.settings.do_lower_case in (True, None)
  assert opened.vocab_file and paths.exists(opened.vocab_file)
  expected = bert_tf.ClassifierModel.from_pretrained(folders["run"])
  model = bert_tf.ClassifierModel.from_pretrained(folders[kind])
  for variable, other in zip(model.weights, expected.weights, strict=True):
    assert variable.path == other.path
    np.testing.assert_array_equal(variable.numpy(), other.numpy())
  wanted = bert_tf.load(folders["run"]).predict(TEXTS)
  answers = bert_tf.load(folders[kind]).predict(TEXTS)
  for row, other in zip(answers, wanted, strict=True):
    assert row["label"] == other["label"] and row["label"] in LABELS
    # The SavedModel is compiled differently.
    probabilities = pytest.approx(other["probabilities"], abs=1e-6)
    assert row["probabilities"] == probabilities


def test_the_encoder_comes_without_the_head(folders, tmp_path):
  model = bert_tf.BertModel.from_pretrained(folders["hf"])
  expected = bert_tf.ClassifierModel.from_pretrained(folders["run"]).bert
  output, wanted = (m({"input_ids": [[1, 2, 3]]}) for m in (model, expected))
  np.testing.assert_array_equal(output.pooled_output, wanted.pooled_output)
  source = tiny_models.write_run(tmp_path / "bert", model)
  extractor = bert_tf.load(source)
  assert isinstance(extractor, bert_tf.FeatureExtractor)
  assert len(extractor.encode(["the", "of"])) == 2


def test_two_texts_are_no_row_of_a_model_for_single_texts(folders):
  model = bert_tf.load(folders["run"])
  assert len(model.predict(["the", "of"])) == 2
  with pytest.raises(ValueError, match="two texts.*list of texts"):
    model.predict(("the", "of"))


def test_a_head_of_another_task_or_size_is_refused(folders, tmp_path):
  for kind in (bert_tf.TokenModel, bert_tf.SpanModel, bert_tf.PretrainingModel):
    with pytest.raises(ValueError, match="of another task: classification"):
      kind.from_pretrained(folders["hf"])
  with pytest.raises(ValueError, match="3 labels, not 2.*`encoder_only`"):
    bert_tf.ClassifierModel.from_pretrained(folders["hf"], num_labels=2)
  for number, kind in ((2, bert_tf.ClassifierModel), (3, bert_tf.TokenModel)):
    model = kind.from_pretrained(folders["hf"], number, encoder_only=True)
    assert model.task_layer.output_bias.shape == (number,)
    kind.save_pretrained(model, tmp_path / model.task, max_seq_length=9)
    saved = ModelFolder.open(str(tmp_path / model.task)).saved
    names = tuple(f"LABEL_{i}" for i in range(number))
    assert (saved.task, saved.labels.labels) == (model.task, names)
    assert saved.settings.max_seq_length == 9 and saved.settings.do_lower_case
  encoder = modeling.BertModel(tiny_models.CONFIG)
  folder = tiny_models.write_run(tmp_path / "bert", encoder)
  # The head that a folder lacks starts from random values.
  model = bert_tf.SpanModel.from_pretrained(folder)
  assert np.std(model.span_head.output_weights.numpy()) > 0
  with pytest.raises(ValueError, match="set `num_labels`"):
    bert_tf.ClassifierModel.from_pretrained(folder)
  model = bert_tf.ClassifierModel.from_pretrained(folder, num_labels=5)
  assert model.task_layer.output_bias.shape == (5,)


def test_a_model_of_keras_is_written_as_a_folder(folders, tmp_path):
  expected = bert_tf.load(folders["run"]).predict(TEXTS)
  model = bert_tf.ClassifierModel.from_pretrained(folders["run"])
  for _ in range(2):  # An earlier save may be replaced.
    model.save_pretrained(tmp_path / "new")
  opened = ModelFolder.open(str(tmp_path / "new"))
  assert opened.saved == RUN
  assert bert_tf.load(tmp_path / "new").predict(TEXTS) == expected
  source = ModelFolder.open(str(tmp_path / "new"))
  convert.convert(source, str(tmp_path / "hf"), "hf")
  read = bert_tf.ClassifierModel.from_pretrained(tmp_path / "hf")
  np.testing.assert_array_equal(
    read.task_layer.output_weights, model.task_layer.output_weights
  )
  model.save(tmp_path / "model.keras")
  model.save_weights(tmp_path / "model.weights.h5")
  for name in ("model.keras", "model.weights.h5"):
    with pytest.raises(ValueError, match="save_pretrained"):
      bert_tf.load(tmp_path / name)
  # What Keras read knows neither labels nor vocabulary.
  read = keras.models.load_model(tmp_path / "model.keras")
  vocab_file = str(folders["run"] / "vocab.txt")
  read.save_pretrained(tmp_path / "again", vocab_file, labels=LABELS)
  answers = bert_tf.load(tmp_path / "again").predict(TEXTS)
  assert [a["label"] for a in answers] == [a["label"] for a in expected]
  with pytest.raises(ValueError, match="2 labels do not fit 3 outputs"):
    model.save_pretrained(tmp_path / "other", labels=["a", "b"])
  with pytest.raises(ValueError, match="other files.*checkpoint"):
    model.save_pretrained(folders["run"])


@pytest.mark.parametrize("kind", ["hf", "released"])
def test_a_remote_folder_is_a_model(folders, kind):
  remote = f"ram://model_folder_test/{kind}"
  paths.make_folder(remote)
  for path in folders[kind].iterdir():
    paths.copy(str(path), f"{remote}/{path.name}")
  model = bert_tf.ClassifierModel.from_pretrained(remote)
  expected = bert_tf.ClassifierModel.from_pretrained(folders[kind])
  np.testing.assert_array_equal(
    model.task_layer.output_weights, expected.task_layer.output_weights
  )


def test_scores_belong_only_to_the_newest_checkpoint(folders, tmp_path):
  reader = checkpoints.CheckpointReader(str(folders["run"]))
  tensors = {name: reader.get(name) for name in reader.shapes}
  for step in (1, 2):
    checkpoints.write(str(tmp_path / f"model.ckpt-{step}"), tensors)
  (tmp_path / "checkpoint").write_text(
    'model_checkpoint_path: "model.ckpt-2"\n'
    'all_model_checkpoint_paths: "model.ckpt-1"\n'
    'all_model_checkpoint_paths: "model.ckpt-2"\n'
  )
  run = run_infos.make(task="encoder", scores={"f1": 0.5})
  vocab_file = str(folders["run"] / "vocab.txt")
  run_infos.write(str(tmp_path), run, tiny_models.CONFIG, vocab_file)
  for path in (tmp_path, tmp_path / "model.ckpt-2"):
    assert ModelFolder.open(str(path)).saved.scores == {"f1": 0.5}
  assert ModelFolder.open(str(tmp_path / "model.ckpt-1")).saved.scores == {}


def copy_with(name, kind, other):
  """Returns a function that copies a folder and adds a file of another one."""

  def write(folder, folders):
    shutil.copytree(folders[kind], folder)
    shutil.copy(folders["hf"] / other, folder / name)

  return write


def write_longer_vocabulary(folder, folders):
  shutil.copytree(folders["hf"], folder)
  with (folder / "vocab.txt").open("a") as writer:
    writer.write("one more\n")


WEIGHTS = "model.safetensors"
BAD = {
  "an empty folder": (lambda f, _: f.mkdir(), "there is nothing"),
  "two models": (
    copy_with(WEIGHTS, "released", WEIGHTS),
    "several models: .*bert_model.ckpt, .*safetensors",
  ),
  "a text": (lambda f, _: f.write_bytes(b"PK"), "is not a model"),
  "a zip": (lambda f, _: f.write_bytes(b"PK\x03\x04"), "a zip archive"),
  "a config of Hugging Face": (
    copy_with("bert_config.json", "released", "config.json"),
    "bert_config.json is Hugging Face",
  ),
  "a vocabulary of another size": (
    write_longer_vocabulary,
    "501 word pieces, but vocab_size .* 500",
  ),
}


@pytest.mark.parametrize("fault", BAD)
def test_an_unreadable_model_is_named(folders, tmp_path, fault):
  write, expected = BAD[fault]
  write(tmp_path / "folder", folders)
  with pytest.raises(ValueError, match=expected):
    bert_tf.load(tmp_path / "folder")


def test_a_given_config_wins_and_another_vocabulary_is_refused(
  folders, tmp_path
):
  vocab = (folders["released"] / "vocab.txt").read_text().splitlines()
  other = tmp_path / "other.txt"
  other.write_text("\n".join([*vocab[:-1], "other"]) + "\n")
  config = tmp_path / "other.json"
  config.write_text(json.dumps({"vocab_size": 500, "hidden_size": 32}))
  opened = ModelFolder.open(
    str(folders["released"]), bert_config_file=str(config)
  )
  assert opened.config.hidden_size == 32
  with pytest.raises(
    ValueError, match=r"vocab_file .*other.* contradicts .*released"
  ):
    ModelFolder.open(str(folders["released"]), vocab_file=str(other))
  # With the prefix, the file beside the checkpoint is only a default.
  opened = ModelFolder.open(str(folders["prefix"]), vocab_file=str(other))
  assert opened.vocab_file == str(other)


def of_variables(*names, **changes):
  """Returns a model whose checkpoint has these variables."""
  names = ["bert/embeddings/word_embeddings", *names]
  reader = types.SimpleNamespace(shapes=dict.fromkeys(names))
  config = tiny_models.CONFIG
  return ModelFolder(config, "c.json", weights="m", reader=reader, **changes)


def test_only_a_whole_head_gives_the_task():
  assert of_variables("cls/predictions/output_bias").task_name == "encoder"
  assert of_variables(*heads.TEXT_LABELS.shapes).task_name == "classification"
  for saved, task in (("ner", "ner"), ("swag", "classification")):
    saved = run_infos.make(saved)
    model = of_variables(*heads.WORD_LABELS.shapes, saved=saved)
    assert model.task_name == task


def test_heads_of_several_tasks_need_a_choice():
  names = ["choice_weights", *heads.SPAN.shapes]
  with pytest.raises(ValueError, match="squad, swag.*`task`"):
    _ = of_variables(*names).task_name
  assert of_variables(*names, task="swag").task_name == "swag"
  with pytest.raises(ValueError, match="no head for ner.*squad and swag"):
    _ = of_variables(*names, task="ner").task_name


def test_a_setting_that_the_task_lacks_is_refused(folders):
  opened = ModelFolder.open(str(folders["run"]), doc_stride=9)
  with pytest.raises(ValueError, match="doc_stride 9 .*classification"):
    _ = opened.settings
  with pytest.raises(ValueError, match="top_k 3 .*classification"):
    bert_tf.Predictor(str(folders["saved_model"]), top_k=3)


def test_a_task_that_is_not_registered_opens_but_is_not_loaded(
  folders, tmp_path
):
  folder = shutil.copytree(folders["run"], tmp_path / "run")
  run = json.loads((folder / "run.json").read_text())
  (folder / "run.json").write_text(json.dumps({**run, "task": "sudoku"}))
  opened = ModelFolder.open(str(folder))
  assert opened.task_name == "sudoku"
  assert opened.heads == (heads.TEXT_LABELS,)
  assert opened.labels.labels == LABELS
  converted = convert.read_pretrained(opened).run
  assert (converted.task, converted.labels) == ("sudoku", opened.labels)
  with pytest.raises(ValueError, match="sudoku"):
    bert_tf.load(folder)


def test_a_training_reads_each_file_of_its_model_once(
  folders, tmp_path, monkeypatch
):
  counts = collections.Counter()
  read, init = paths.read_bytes, checkpoints.CheckpointReader.__init__

  def count_and_read(path, size=-1):
    if path.startswith(str(folders["run"])):
      counts[path.rpartition("/")[2]] += 1
    return read(path, size)

  def count_and_init(self, path):
    init(self, path)
    if path.startswith(str(folders["run"])):
      counts["index"] += 1

  monkeypatch.setattr(paths, "read_bytes", count_and_read)
  monkeypatch.setattr(checkpoints.CheckpointReader, "__init__", count_and_init)
  (tmp_path / "train.csv").write_text("text,label\nthe of,good\nin,bad\n")
  fine_tuning.run(
    classification_config.ClassificationConfig(
      task_name="csv",
      data_dir=str(tmp_path),
      do_train=True,
      train=training_config.FineTuningTrainConfig(
        output_dir=str(tmp_path / "out"),
        init_checkpoint=str(folders["run"]),
        train_batch_size=2,
        use_xla=False,
      ),
    )
  )
  files = ("bert_config.json", "run.json", "vocab.txt", "index")
  assert counts == dict.fromkeys(files, 1)
