"""Valid and invalid contents of label_map.json."""

import json

import pytest

from bert_tf.model_folder import run_info

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
    spec = run_info.LabelSpec("films", kind, labels)
    path = tmp_path / run_info.LABEL_MAP_FILE
    path.write_text(json.dumps(spec.label_map()))
    assert run_info.read_labels(str(tmp_path)) == spec


@pytest.mark.parametrize(
  ("changes", "word"),
  [
    ({"labels": ["a", "a", "a"]}, "'a'"),
    ({"labels": ["a", ""]}, "''"),
    ({"problem_type": "../../x"}, "../../x"),
  ],
)
def test_an_invalid_label_map_value_is_named(tmp_path, changes, word):
  path = tmp_path / run_info.LABEL_MAP_FILE
  path.write_text(json.dumps({**GOOD, **changes}))
  with pytest.raises(ValueError) as error:
    run_info.read_labels(str(tmp_path))
  assert word in str(error.value) and str(path) in str(error.value)
