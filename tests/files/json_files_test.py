"""Small JSON files: each fault gives a one-line error with the path."""

import json
import shutil

import pytest

import bert_tf
from bert_tf import model_folder, modeling
from bert_tf.data import record_cache
from bert_tf.files import json_files, shard_files
from bert_tf.formats import hugging_face, tokenizer_files
from bert_tf.model_folder import run_info
from bert_tf.training import config as training_config
from bert_tf.training import evaluation, tuning
from tests.support import tiny_models

NESTED = b"[" * 100_000
BROKEN = {
  "empty": b"",
  "no UTF-8": b'{"a": "\xff"}',
  "nested lists": NESTED,
  "nested objects": b'{"a":' * 100_000,
  "list": b"[1]",
  "text": b'"a"',
  "null": b"null",
  "NaN": b'{"a": NaN}',
  "twice": b'{"a": 1, "a": 2}',
  "long number": b"1" * 5000,
  "cut": b'{"a": 1',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_file_without_an_object_gives_a_one_line_error(tmp_path, content):
  path = tmp_path / "a.json"
  path.write_bytes(content)
  with pytest.raises(ValueError, match=str(path)) as caught:
    json_files.read_object(str(path))
  assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_keys_and_types_are_checked(tmp_path):
  path = tmp_path / "a.json"
  types = {"n": int, "x": float, "names": list[str], "by_id": dict[str, str]}
  good = {"n": 1, "x": 2, "names": ["a"], "by_id": {"0": "a"}, "other": None}
  path.write_text(json.dumps(good))
  assert json_files.read_object(str(path), types, ("n",)) == good
  for name, value in (
    ("n", True),
    ("n", 1.5),
    ("x", "2"),
    ("names", "a"),
    ("names", [1]),
    ("by_id", ["a"]),
    ("by_id", {"0": 1}),
  ):
    path.write_text(json.dumps({**good, name: value}))
    with pytest.raises(ValueError, match=f"{path}: {name} is "):
      json_files.read_object(str(path), types)
  path.write_text(json.dumps({**good, "n": None}))
  with pytest.raises(ValueError, match=f"{path}: n .*null"):
    json_files.read_object(str(path), types, ("n",))
  path.write_text("{}")
  with pytest.raises(ValueError, match=f"{path} .*n, x"):
    json_files.read_object(str(path), types, ("n", "x"))


def test_a_key_twice_with_one_value_and_a_byte_order_mark_are_valid(tmp_path):
  path = tmp_path / "a.json"
  path.write_bytes(b'\xef\xbb\xbf{"a": 1, "a": 1}')
  assert json_files.read_object(str(path)) == {"a": 1}


def best_results(folder):
  return evaluation.read_best_results(str(folder))


def known_form(folder):
  (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"')
  config = training_config.TrainConfig(
    output_dir=str(folder), num_train_steps=1000
  )
  return tuning.known_mode(config, {})


# For each file, its reader and invalid values.
READERS = {
  "run.json": (
    lambda f: run_info.read_run(str(f)),
    [{"task": 1}, {"task": "ner", "scores": {"a": "b"}}, {"task": None}],
  ),
  "label_map.json": (
    lambda f: run_info.read_labels(str(f)),
    [
      {"task_name": "a", "problem_type": "classification", "labels": "ab"},
      {"task_name": "a", "problem_type": "classification", "labels": [1]},
      {"task_name": "a", "problem_type": ["words"], "labels": ["a"]},
      {"labels": ["a"]},
    ],
  ),
  "bert_config.json": (
    lambda f: modeling.BertConfig.from_json_file(str(f / "bert_config.json")),
    [{"vocab_size": 9, "hidden_act": ["gelu"]}, {"hidden_size": 8}],
  ),
  "config.json": (
    lambda f: hugging_face.read_config(str(f)),
    [
      {"id2label": ["a"]},
      {"id2label": {"0": 1}},
      {"architectures": "BertModel"},
      {"architectures": [["BertModel"]]},
      {"problem_type": []},
      {"hidden_size": "8"},
    ],
  ),
  "tokenizer_config.json": (
    lambda f: tokenizer_files.read_settings(str(f)),
    [],  # See tokenizer_files_test.
  ),
  "commands.jsonl": (
    lambda f: run_info.training_settings(str(f)),
    [{"settings": []}, {"command": "a"}],
  ),
  "evaluations.json": (
    best_results,
    [
      {"metric": "loss", "evaluations": {}},
      {"metric": "loss", "evaluations": [{}]},
      {"metric": "loss", "evaluations": [{"global_step": 1}]},
      {"evaluations": []},
    ],
  ),
  "use_xla.json": (known_form, [{}, {"use_xla": [True]}, {"use_xla": "b"}]),
}
LINES = ("commands.jsonl",)
# Python writes NaN into results and settings.
WITH_NAN = ("evaluations.json", "commands.jsonl")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", BROKEN)
def test_every_reader_names_a_broken_file(tmp_path, name, kind):
  if name in LINES and kind == "empty":
    pytest.skip("A file without lines is valid.")
  (tmp_path / name).write_bytes(BROKEN[kind])
  with pytest.raises(ValueError, match=str(tmp_path / name)) as caught:
    READERS[name][0](tmp_path)
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  ("name", "value"),
  [(name, value) for name, (_, values) in READERS.items() for value in values],
)
def test_every_reader_names_the_file_of_a_wrong_value(tmp_path, name, value):
  (tmp_path / name).write_text(json.dumps(value))
  with pytest.raises(ValueError, match=str(tmp_path / name)):
    READERS[name][0](tmp_path)


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_damaged_settings_file_counts_as_empty(tmp_path, content):
  note = tmp_path / "note.json"
  note.write_bytes(content)
  assert shard_files.read_settings(str(note)) == {}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_records_with_a_damaged_settings_file_are_written_again(
  tmp_path, content
):
  path = str(tmp_path / "a.tf_record")

  def write(writer):
    writer.write(b"a")

  record_cache.write(path, {"a": 1}, write)
  with open(record_cache.settings_file(path), "wb") as note:
    note.write(content)
  assert record_cache.write(path, {"a": 1}, write).num_records == 1


@pytest.fixture(scope="module")
def hugging_face_folder(tmp_path_factory):
  """The folder of a classifier in Hugging Face's format."""
  pytest.importorskip("safetensors")
  from bert_tf.convert import convert, pretrained

  folder = tmp_path_factory.mktemp("models")
  run = tiny_models.write_classifier(folder / "run")
  source = pretrained.ModelSource(str(run))
  convert.convert(source, "original", str(folder / "hf"), "hf")
  return folder / "hf"


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_of_a_hugging_face_folder_is_named(
  hugging_face_folder, tmp_path, name, kind
):
  folder = tmp_path / "hf"
  shutil.copytree(hugging_face_folder, folder)
  (folder / name).write_bytes(BROKEN[kind])
  with pytest.raises(ValueError, match=str(folder / name)):
    model_folder.find(str(folder))
    bert_tf.load(str(folder))
