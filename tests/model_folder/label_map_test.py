"""What label_map.json may say."""

import json

import pytest

from bert_tf.model_folder import label_map, run_info

GOOD = {
  "task_name": "films",
  "problem_type": "classification",
  "labels": ["bad", "good"],
}


def test_a_label_map_is_read_as_it_was_written(tmp_path):
  for kind, labels in (
    ("classification", ("bad", "good")),
    ("multilabel", ("a",)),
    ("regression", ()),
    (run_info.WORDS, ("O", "B-PER")),
  ):
    spec = label_map.LabelSpec("films", kind, labels)
    label_map.write(str(tmp_path), spec)
    assert label_map.read(str(tmp_path)) == spec


@pytest.mark.parametrize(
  ("changes", "word"),
  [
    ({"labels": ["a", "a", "a"]}, "'a'"),
    ({"labels": "abc"}, "abc"),
    ({"labels": None}, "null"),
    ({"labels": ["a", 1]}, "labels"),
    ({"labels": ["a", ""]}, "empty"),
    ({"problem_type": "../../x"}, "../../x"),
    ({"task_name": 3}, "3"),
  ],
)
def test_what_is_no_label_map_is_named(tmp_path, changes, word):
  path = tmp_path / label_map.FILE
  path.write_text(json.dumps({**GOOD, **changes}))
  with pytest.raises(ValueError) as error:
    label_map.read(str(tmp_path))
  assert word in str(error.value) and str(path) in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"labels": ["a"]}'])
def test_a_damaged_label_map_is_named(tmp_path, text):
  (tmp_path / label_map.FILE).write_text(text)
  with pytest.raises(ValueError, match=label_map.FILE):
    label_map.read(str(tmp_path))
