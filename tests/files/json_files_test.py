"""Small JSON files: each fault gives a one-line error with the path."""

import json

import pytest

from bert_tf import modeling
from bert_tf.files import json_files
from bert_tf.formats import hugging_face, sentence_transformers
from bert_tf.model_folder import run_info
from bert_tf.training import evaluation

BROKEN = {
  "empty": b"",
  "no UTF-8": b'{"a": "\xff"}',
  "nested lists": b"[" * 100_000,
  "list": b"[1]",
  "cut": b'{"a": 1',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_file_without_an_object_gives_a_one_line_error(tmp_path, content):
  path = tmp_path / "a.json"
  path.write_bytes(content)
  with pytest.raises(ValueError, match=str(path)) as caught:
    json_files.read_object(str(path))
  assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_a_value_gets_its_type_or_is_named_with_its_key(tmp_path):
  path = tmp_path / "a.json"
  kind = dict[str, list[float]]
  path.write_bytes(b'\xef\xbb\xbf{"a": [1, "2.5", NaN], "b": []}')
  first, second, third = json_files.read(str(path), kind)["a"]
  assert (first, second) == (1.0, 2.5) and third != third
  path.write_text('{"a": [], "b": [0, "x"]}')
  with pytest.raises(ValueError, match=f'{path}: b.1 is "x"; Input'):
    json_files.read(str(path), kind)


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
      {"architectures": "BertModel"},
      {"hidden_size": "wide"},
    ],
  ),
  "evaluations.json": (
    lambda f: evaluation.read_best_results(str(f)),
    [
      {"metric": "loss", "evaluations": {}},
      {"metric": "loss", "evaluations": [{"global_step": 1}]},
      {"evaluations": []},
    ],
  ),
  "modules.json": (
    lambda f: sentence_transformers.read_settings(str(f)),
    [{}, [{"path": "1_Pooling"}], [{"type": 1}]],
  ),
}


@pytest.mark.parametrize(
  ("name", "value"),
  [(name, value) for name, (_, values) in READERS.items() for value in values],
)
def test_every_reader_names_the_file_of_a_wrong_value(tmp_path, name, value):
  (tmp_path / name).write_text(json.dumps(value))
  with pytest.raises(ValueError, match=str(tmp_path / name)):
    READERS[name][0](tmp_path)


@pytest.mark.parametrize(
  "text", ["\u00fc \U0001f600", "\ud83d", 'a "\\" \udc00 b']
)
def test_an_encoded_text_is_decoded_unchanged(text):
  encoded = json_files.encode({"text": text}).encode()
  assert json.loads(encoded) == {"text": text}
