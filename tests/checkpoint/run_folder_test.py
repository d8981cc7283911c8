"""The files that describe a run: run.json, config and vocabulary."""

import dataclasses
import json
import pathlib

import pytest
import tensorflow as tf

import bert_tf
from bert_tf import distribution, modeling
from bert_tf.checkpoint import checkpoints, run_folder, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from tests.support import run_infos

CONFIG = modeling.BertConfig(vocab_size=3, num_hidden_layers=1)
INFO = run_infos.make(
  task="classification",
  do_lower_case=False,
  max_seq_length=64,
  task_name="MRPC",
  problem_type="classification",
  labels=("0", "ß"),
)


@pytest.fixture
def vocab_file(tmp_path):
  path = tmp_path / "words.txt"
  path.write_bytes(b"[PAD]\r\n[UNK]\nb\xc3\xa4\n")  # Copied byte for byte.
  return str(path)


@pytest.mark.parametrize("root", ["local", "ram://run_folder_test"])
def test_a_run_is_read_as_it_was_written(tmp_path, vocab_file, root):
  folder = f"{root}/run" if "://" in root else str(tmp_path / root / "run")
  run_infos.write(folder, INFO, CONFIG, vocab_file)
  assert run_info.read_run(folder) == INFO
  config = modeling.BertConfig.from_json_file(f"{folder}/bert_config.json")
  assert config.to_dict() == CONFIG.to_dict()
  with tf.io.gfile.GFile(f"{folder}/vocab.txt", "rb") as reader:
    assert reader.read() == b"[PAD]\r\n[UNK]\nb\xc3\xa4\n"
  assert run_info.read_labels(folder) == INFO.labels
  names = sorted(tf.io.gfile.listdir(folder))
  assert names == [
    "bert_config.json",
    "label_map.json",
    "run.json",
    "vocab.txt",
  ]
  with tf.io.gfile.GFile(f"{folder}/run.json") as reader:
    saved = json.loads(reader.read())
  assert saved.pop("bert_tf_version") == bert_tf.__version__
  assert saved.pop("task") == "classification"
  assert saved == {
    "settings": {"do_lower_case": False, "max_seq_length": 64},
    "labels": INFO.labels.label_map(),
  }


@pytest.mark.parametrize("task", ["squad", "sudoku"])
def test_unknown_keys_and_tasks_of_a_run_are_accepted(tmp_path, task):
  values = {"taste": 1, "max_seq_length": 9}
  text = json.dumps({"task": task, "taste": 1, "settings": values})
  (tmp_path / "run.json").write_text(text)
  info = run_info.read_run(str(tmp_path))
  assert (info.task, info.settings.max_seq_length) == (task, 9)


def test_training_removes_the_leftovers_of_killed_processes(
  tmp_path, monkeypatch
):
  left = []
  monkeypatch.setattr(
    distribution,
    "barrier",
    lambda: left.extend(tmp_path.rglob("*.tmp-bert_tf-*")),
  )
  for folder in (tmp_path, tmp_path / "best"):
    (folder / ".model.ckpt-3.tmp-bert_tf-1").mkdir(parents=True)
    (folder / ".eval_results.txt.tmp-bert_tf-1").mkdir()
    (folder / ".of_a_user.tmp-1").mkdir()
  with run_folder.RunFolder(str(tmp_path), "ner").exclusive(False):
    assert len(list(tmp_path.rglob("*.tmp-bert_tf-*"))) == 4
  left.clear()
  with run_folder.RunFolder(str(tmp_path), "ner").exclusive(True):
    assert not list(tmp_path.rglob("*.tmp-bert_tf-*")) and not left
  assert len(list(tmp_path.rglob(".of_a_user.tmp-1"))) == 2
  # Other workers write only after that.
  (tmp_path / ".run.json.tmp-bert_tf-1").mkdir()
  monkeypatch.setattr(distribution, "is_chief", lambda: False)
  with run_folder.RunFolder(str(tmp_path), "ner").exclusive(True):
    assert len(left) == 1


@pytest.mark.parametrize("is_training", [False, True])
def test_only_a_training_leaves_its_records(tmp_path, is_training):
  opened = run_folder.RunFolder(str(tmp_path), "ner")
  with pytest.raises(ValueError, match="faulty"):
    with opened.exclusive(is_training) as held:
      pathlib.Path(held.records_dir, "eval.tf_record").touch()
      raise ValueError("faulty")
  assert pathlib.Path(held.records_dir).exists() == is_training
  assert (tmp_path / "eval.tf_record").exists() == is_training


def _prepare(folder, info, config, vocab_file):
  """Opens a folder and prepares it for a run."""
  opened = run_folder.RunFolder(folder, info.task)
  opened.prepare(info, ModelFolder(config, "config.json", vocab_file))


def test_an_output_dir_of_another_run_is_refused(tmp_path, vocab_file):
  folder = str(tmp_path / "out")
  _prepare(folder, INFO, CONFIG, vocab_file)
  _prepare(folder, INFO, CONFIG, vocab_file)
  other = dataclasses.replace(INFO, task="ner")
  with pytest.raises(ValueError, match="classification.*ner.*`output_dir`"):
    _prepare(folder, other, CONFIG, vocab_file)
  deeper = modeling.BertConfig(vocab_size=3, num_hidden_layers=2)
  with pytest.raises(ValueError, match="num_hidden_layers.*`output_dir`"):
    _prepare(folder, INFO, deeper, vocab_file)
  checkpoints.save(folder, {"global_step": tf.constant(1, tf.int64)}, 1)
  words = tmp_path / "other.txt"
  words.write_text("[PAD]\n[UNK]\nc\n")
  with pytest.raises(
    ValueError, match="other.txt contradicts .*vocab.txt.*`output_dir`"
  ):
    _prepare(folder, INFO, CONFIG, str(words))
  assert run_info.read_run(folder) == INFO


def test_a_run_folder_is_read_again_when_it_is_locked(tmp_path, vocab_file):
  folder = str(tmp_path / "out")
  opened = run_folder.RunFolder(folder, INFO.task)
  assert (opened.info, opened.labels) == (None, None)
  _prepare(folder, INFO, CONFIG, vocab_file)  # As another process does.
  assert (opened.info, opened.labels) == (None, None)
  with opened.exclusive(do_train=True) as anew:
    assert (anew.info, anew.labels) == (INFO, INFO.labels)


def test_an_evaluation_keeps_the_settings_of_a_trained_model(
  tmp_path, vocab_file
):
  folder = str(tmp_path / "out")
  _prepare(folder, INFO, CONFIG, vocab_file)
  checkpoints.save(folder, {"global_step": tf.constant(1, tf.int64)}, 1)
  settings = dataclasses.replace(INFO.settings, max_seq_length=128)
  changed = dataclasses.replace(INFO, settings=settings, scores={"f1": 0.5})
  for do_train, length in ((False, 64), (True, 128)):
    opened = run_folder.RunFolder(folder, INFO.task)
    with opened.exclusive(do_train) as held:
      held.prepare(changed, ModelFolder(CONFIG, "c.json", vocab_file))
    saved = run_info.read_run(folder)
    assert saved.settings.max_seq_length == length
    assert saved.scores == {"f1": 0.5}
