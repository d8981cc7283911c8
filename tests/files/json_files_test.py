"""Small JSON files: each fault gives a one-line error with the path."""

import json
import pathlib
import tempfile

import hypothesis
import pytest
from hypothesis import strategies

from bert_tf import modeling
from bert_tf.checkpoint import run_info, sentence_transformers
from bert_tf.files import json_files, tokenizer_files
from bert_tf.model import hugging_face_config
from bert_tf.training import evaluation


@pytest.mark.parametrize(
  "content", [b"", b'{"a": "\xff"}', b"[" * 100_000, b"[1]", b'{"a": 1']
)
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


LABEL_MAP = {"task_name": "a", "problem_type": "multilabel", "labels": ["a"]}
# For each file, its reader, a valid value, and invalid ones, with a part of the
# error.
READERS = {
  "run.json": (
    lambda f: run_info.read_run(str(f)),
    {"task": "ner", "settings": {"do_lower_case": True}},
    [
      ("{", "JSON"),
      ({"task": 1}, "task is 1"),
      ({"task": None}, "task is null"),
      ({"task": "ner", "settings": ["a"]}, '"a"'),
      ({"task": "ner", "labels": {"labels": ["a"]}}, "labels.task_name"),
      ({"task": "ner", "training": {"lora_rank": "x"}}, 'lora_rank is "x"'),
      ({"task": "ner", "scores": {"a": "b"}}, '"b"'),
      ({"task": "ner", "settings": {"do_lower_case": "who"}}, '"who"'),
    ],
  ),
  "label_map.json": (
    lambda f: run_info.read_labels(str(f)),
    LABEL_MAP,
    [
      ({**LABEL_MAP, "labels": "ab"}, '"ab"'),
      ({**LABEL_MAP, "labels": ["a", "a", "a"]}, "'a'"),
      ({**LABEL_MAP, "labels": ["a", ""]}, "''"),
      ({**LABEL_MAP, "problem_type": ["words"]}, "words"),
      ({**LABEL_MAP, "problem_type": "../../x"}, "../../x"),
      ({"labels": ["a"]}, "task_name"),
    ],
  ),
  "bert_config.json": (
    lambda f: modeling.BertConfig.from_json_file(str(f / "bert_config.json")),
    {"vocab_size": 9, "hidden_act": "gelu"},
    [
      ({"vocab_size": 9, "hidden_act": ["gelu"]}, "hidden_act"),
      ({"hidden_size": 8}, "vocab_size"),
    ],
  ),
  "config.json": (
    lambda f: hugging_face_config.read_config(str(f)),
    {"id2label": {"0": "a"}, "hidden_size": 8},
    [
      ({"id2label": ["a"]}, "id2label"),
      ({"architectures": "BertModel"}, "architectures"),
      ({"initializer_range": "wide"}, "initializer_range"),
    ],
  ),
  "evaluations.json": (
    lambda f: evaluation.read_best_results(str(f)),
    {"metric": "loss", "evaluations": [{"global_step": 1, "loss": 0.5}]},
    [
      ({"metric": "loss", "evaluations": {}}, "evaluations"),
      ({"metric": "loss", "evaluations": [{"loss": 1}]}, "no results"),
      ({"evaluations": []}, "metric"),
    ],
  ),
  "modules.json": (
    lambda f: sentence_transformers.read_settings(str(f)),
    [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}],
    [
      ({}, "{}"),
      ([{"path": "1_Pooling"}], "None"),
      ([{"type": 1}], "modules 1"),
    ],
  ),
  "tokenizer.json": (
    lambda f: tokenizer_files.read_case(str(f)),
    {"normalizer": {"lowercase": True}, "model": {"type": "WordPiece"}},
    [
      ({"normalizer": "x"}, "normalizer"),
      ({"normalizer": {"lowercase": []}}, "do_lower_case"),
    ],
  ),
}


@pytest.mark.parametrize(
  ("name", "value", "part"),
  [(name, *row) for name, (_, _, rows) in READERS.items() for row in rows],
)
def test_every_reader_names_a_wrong_value_and_its_file(
  tmp_path, name, value, part
):
  text = value if isinstance(value, str) else json.dumps(value)
  (tmp_path / name).write_text(text)
  with pytest.raises(ValueError) as error:
    READERS[name][0](tmp_path)
  message = str(error.value)
  assert str(tmp_path) in message and "\n" not in message
  assert part in message.replace(str(tmp_path), "")


@hypothesis.given(
  strategies.sampled_from(sorted(READERS)),
  strategies.floats(0, 1, exclude_max=True),
  strategies.integers(0, 3),
  strategies.binary(max_size=3),
)
def test_every_reader_reads_a_damaged_file_or_names_it(
  name, position, num_lost, inserted
):
  read, value, _ = READERS[name]
  content = json.dumps(value).encode()
  start = int(position * len(content))
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, name)
    path.write_bytes(content[:start] + inserted + content[start + num_lost :])
    try:
      read(path.parent)
    except ValueError as error:
      assert folder in str(error) and "\n" not in str(error)


@hypothesis.given(strategies.text(strategies.characters()))
def test_an_encoded_text_is_decoded_unchanged(text):
  encoded = json_files.encode({"text": text}).encode()
  assert json.loads(encoded) == {"text": text}
