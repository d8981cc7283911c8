"""Tests for converting outputs to plain Python, on hand-made examples."""

import numpy as np

from bert_tf.inference import outputs


def texts(*values):
  """Returns an array of bytes, as TensorFlow returns texts."""
  return np.vectorize(str.encode, otypes=[object])(np.array(values))


def test_a_class_has_its_label_and_the_probabilities_of_all():
  computed = {
    "probabilities": np.array([[0.25, 0.75], [0.5, 0.5]], np.float32),
    "labels": texts(["no", "jä"], ["no", "jä"]),
    "label": texts("jä", "no"),
  }
  assert outputs.to_python(computed) == [
    {"label": "jä", "probabilities": {"no": 0.25, "jä": 0.75}},
    {"label": "no", "probabilities": {"no": 0.5, "jä": 0.5}},
  ]


def test_several_labels_are_those_that_apply():
  computed = {
    "probabilities": np.array([[0.25, 0.75, 0.5]], np.float32),
    "labels": texts(["a", "b", "c"]),
    "applies": np.array([[False, True, False]]),
  }
  assert outputs.to_python(computed) == [
    {"label": ["b"], "probabilities": {"a": 0.25, "b": 0.75, "c": 0.5}}
  ]


def test_a_regression_is_a_number():
  computed = {"prediction": np.array([1.5, -2.0], np.float32)}
  assert outputs.to_python(computed) == [
    {"label": 1.5, "probabilities": {}},
    {"label": -2.0, "probabilities": {}},
  ]


WORDS = {
  "words": texts(["Ada", "left"], ["Bonn", ""]),
  "labels": texts(["B-PER", "O"], ["B-LOC", ""]),
  "probabilities": np.array([[0.5, 1.0], [0.25, 0.0]], np.float32),
  "starts": np.array([[0, 4], [1, 0]], np.int32),
  "ends": np.array([[3, 8], [5, 0]], np.int32),
}
BONN = {
  "word": "Bonn",
  "label": "B-LOC",
  "probability": 0.25,
  "start": 1,
  "end": 5,
}


def test_words_have_no_filler():
  first, second = outputs.to_python(WORDS)
  assert [word["word"] for word in first["words"]] == ["Ada", "left"]
  assert second == {"words": [BONN]}


def test_rows_are_as_wide_as_they_need():
  single = outputs.trim({name: rows[1:] for name, rows in WORDS.items()})
  assert {array.shape for array in single.values()} == {(1, 1)}
  assert outputs.to_python(single) == [{"words": [BONN]}]
  batch = outputs.trim(WORDS)
  assert all((batch[name] == WORDS[name]).all() for name in WORDS)


def test_texts_without_words_have_no_width():
  empty = {name: rows[:, :0] for name, rows in WORDS.items()}
  assert outputs.trim(empty)["words"].shape == (2, 0)
  assert outputs.to_python(empty) == [{"words": []}, {"words": []}]


def test_masks_have_their_tokens_and_no_filler():
  computed = {
    "tokens": texts([["a", "##b"], ["c", "d"]], [["e", "f"], ["", ""]]),
    "probabilities": np.array(
      [[[0.5, 0.25], [0.75, 0.125]], [[1.0, 0.0], [0.0, 0.0]]], np.float32
    ),
  }
  first, second = outputs.to_python(computed)
  assert first["masks"][0][1] == {"token": "##b", "probability": 0.25}
  assert len(first["masks"]) == 2
  assert [[t["token"] for t in mask] for mask in second["masks"]] == [
    ["e", "f"]
  ]
  single = outputs.trim({name: rows[1:] for name, rows in computed.items()})
  assert single["tokens"].shape == (1, 1, 2)


def test_an_answer_has_the_next_best_without_filler():
  computed = {
    "answer": texts("1843"),
    "start": np.array([7], np.int32),
    "end": np.array([11], np.int32),
    "probability": np.array([0.75], np.float32),
    "nbest_text": texts(["1843", "", ""]),
    "nbest_start": np.array([[7, 0, 0]], np.int32),
    "nbest_end": np.array([[11, 0, 0]], np.int32),
    "nbest_probability": np.array([[0.75, 0.25, 0.0]], np.float32),
    "nbest_start_logit": np.array([[2.0, 1.0, 0.0]], np.float32),
    "nbest_end_logit": np.array([[2.0, 1.0, 0.0]], np.float32),
    "null_odds": np.array([-3.0], np.float32),
  }
  [answer] = outputs.to_python(computed)
  # The second is "no answer".
  assert [a["probability"] for a in answer.pop("nbest")] == [0.75, 0.25]
  assert answer == {
    "answer": "1843",
    "start": 7,
    "end": 11,
    "probability": 0.75,
    "null_odds": -3.0,
  }


def test_a_choice_is_its_number():
  computed = {
    "logits": np.array([[1.0, 2.0]], np.float32),
    "probabilities": np.array([[0.25, 0.75]], np.float32),
    "choice": np.array([1], np.int32),
  }
  assert outputs.to_python(computed) == [
    {"choice": 1, "probabilities": [0.25, 0.75]}
  ]
