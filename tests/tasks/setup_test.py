"""A run reuses a head only if its task and labels match."""

import json

import keras
import numpy as np
import pytest

from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.checkpoint.run_folder import RunFolder
from bert_tf.model import heads
from bert_tf.tasks import config as task_config
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.setup import Setup
from bert_tf.training import config as training_config
from tests.support import run_infos, runs, tiny_models

ABC = ("a", "b", "c")
TAGS = ("O", "B-X", "I-X")
MODELS = {
  "classification": heads.ClassifierModel,
  "ner": heads.TokenModel,
  "squad": heads.SpanModel,
  "swag": heads.MultipleChoiceModel,
  "pretraining": heads.PretrainingModel,
}
# The fields of run.json of models that were trained.
RUNS = {
  "texts": {"task": "classification", "labels": ABC, "task_name": "own data"},
  "multilabel": {
    **{"task": "classification", "labels": ABC, "task_name": "own data"},
    "problem_type": "multilabel",
  },
  "regression": {
    **{"task": "classification", "labels": (), "task_name": "own data"},
    "problem_type": "regression",
  },
  "words": {"task": "ner", "labels": TAGS},
  "squad": {"task": "squad"},
  "swag": {"task": "swag"},
  "pretraining": {"task": "pretraining"},
}


def write_model(folder, fields, with_run=True):
  """Writes the folder of a run whose head has random values."""
  keras.utils.set_random_seed(1)
  settings = {}
  if "labels" in fields:
    settings["num_labels"] = len(fields["labels"]) or 1
  model = MODELS[fields["task"]](tiny_models.CONFIG, **settings)
  tiny_models.write_run(folder, tiny_models.widen(model))
  if with_run:
    vocab_file = str(folder / "vocab.txt")
    info = run_infos.make(do_lower_case=True, **fields)
    run_infos.write(str(folder), info, tiny_models.CONFIG, vocab_file)
  return folder


def takes_head(folder, fields, do_train=True, **train):
  labels = run_infos.make(**fields).labels
  options = training_config.FineTuningTrainConfig(output_dir="", **train)
  config = task_config.FineTuningConfig(do_train=do_train, train=options)
  run, start = RunFolder("new run", "task"), ModelFolder.open(str(folder))
  setup = Setup(config, run, start)
  config = setup.choose_head(MODELS[fields["task"]], labels)
  return not config.train.encoder_only


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """The folder of each of RUNS."""
  folder = tmp_path_factory.mktemp("models")
  for name, fields in RUNS.items():
    write_model(folder / name, fields)
  return folder


@pytest.mark.parametrize("needed", [n for n in RUNS if n != "pretraining"])
@pytest.mark.parametrize("trained", RUNS)
def test_only_its_own_task_reuses_a_head(models, trained, needed):
  with runs.logged() as log:
    taken = takes_head(models / trained, RUNS[needed])
  assert taken == (trained == needed)
  assert str(models / trained) in log()
  assert len(log().splitlines()) == 1


def test_a_head_of_another_task_is_not_evaluated(models):
  with pytest.raises(ValueError, match="for ner: .* classification. .*do_tra"):
    takes_head(models / "texts", RUNS["words"], do_train=False)


@pytest.mark.parametrize("labels", ["xyz", "ab"])
def test_a_head_with_other_labels_is_only_trained_anew(models, labels):
  needed = {**RUNS["texts"], "labels": tuple(labels)}
  with runs.logged() as log:
    assert not takes_head(models / "texts", needed)
  assert "the head is new" in log() and "labels" in log()
  with pytest.raises(ValueError, match="labels.*`do_train`"):
    takes_head(models / "texts", needed, do_train=False)


def test_labels_in_another_order_are_refused(models):
  needed = {**RUNS["texts"], "labels": tuple("bac")}
  words = "another order: there a, b, c, here b, a, c. .*`encoder_only`"
  with pytest.raises(ValueError, match=words):
    takes_head(models / "texts", needed)
  assert not takes_head(models / "texts", needed, encoder_only=True)
  upper = {**RUNS["texts"], "labels": tuple("ABC")}
  assert takes_head(models / "texts", upper)  # Hugging Face's MNLI has both.


def test_a_head_with_unknown_labels_is_used_with_a_warning(tmp_path):
  folder = write_model(tmp_path / "old", RUNS["texts"], with_run=False)
  with runs.logged() as log:
    assert takes_head(folder, RUNS["words"])
  assert f"{folder}/model.ckpt-1 does not name the labels" in log()
  assert not takes_head(folder, {**RUNS["texts"], "labels": ("a", "b")})


@pytest.mark.parametrize("kind", ["texts", "multilabel"])
def test_hugging_faces_config_gives_the_task_of_a_head(tmp_path, kind):
  safetensors = pytest.importorskip("safetensors.numpy")
  config = {
    **vars(tiny_models.CONFIG),
    "model_type": "bert",
    "architectures": ["BertForSequenceClassification"],
    "id2label": {"0": "a", "1": "b", "2": "c"},
  }
  if kind == "multilabel":
    config["problem_type"] = "multi_label_classification"
  (tmp_path / "config.json").write_text(json.dumps(config))
  size = tiny_models.CONFIG.hidden_size
  tensors = {
    "bert.embeddings.word_embeddings.weight": np.zeros((500, size), "f4"),
    "classifier.weight": np.zeros((3, size), "f4"),
    "classifier.bias": np.zeros(3, "f4"),
  }
  path = tmp_path / "model.safetensors"
  safetensors.save_file(tensors, path)
  for needed in ("texts", "multilabel", "words"):
    assert takes_head(path, RUNS[needed]) == (needed == kind)


def texts_config(folder, model, labels, **train):
  lines = [f"the of,{label}" for label in labels]
  (folder / "train.csv").write_text("\n".join(["text,label", *lines]) + "\n")
  return classification_config.ClassificationConfig(
    task_name="csv",
    data_dir=str(folder),
    bert_config_file=str(model / "bert_config.json"),
    vocab_file=str(model / "vocab.txt"),
    max_seq_length=16,
    num_train_epochs=1.0,
    do_train=True,
    train=training_config.FineTuningTrainConfig(
      output_dir=str(folder / "out"),
      init_checkpoint=str(model),
      train_batch_size=2,
      use_xla=False,
      **train,
    ),
  )


def test_encoder_only_takes_other_labels(models, tmp_path):
  with (
    runs.logged() as log,
    pytest.raises(ValueError, match="a, b, c; set `encoder_only`") as error,
  ):
    fine_tuning.run(texts_config(tmp_path, models / "texts", "xyz"))
  assert "train.csv:2" in str(error.value) and "'x'" in str(error.value)
  assert f"labels come from {models / 'texts'}" in log()
  config = texts_config(tmp_path, models / "texts", "xyz", encoder_only=True)
  with runs.logged() as log:
    fine_tuning.run(config)
  first, start = (
    checkpoints.CheckpointReader(str(path))
    for path in (tmp_path / "out" / "model.ckpt-0", models / "texts")
  )
  for name in ("output_weights", "bert/pooler/dense/kernel"):
    is_same = np.array_equal(first.get(name), start.get(name))
    assert is_same == name.startswith("bert/"), name
  assert run_info.read_labels(str(tmp_path / "out")).labels == ("x", "y", "z")
  assert "labels: x 1, y 1, z 1" in log()

  # The folder now holds a run with the labels of another data set.
  with pytest.raises(ValueError, match="'a' is not one of x, y, z"):
    fine_tuning.run(texts_config(tmp_path, models / "texts", "ab"))
