"""Multiple choice: files, records, scores and predictions."""

import collections
import csv
import json

import numpy as np
import pytest

from bert_tf import tokenization
from bert_tf.tasks import base
from bert_tf.tasks.swag.config import SwagConfig
from tests.support import setups, tiny_models

VOCAB = tiny_models.TINY / "vocab.txt"
HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source"
HEADER = f"{HEADER},ending0,ending1,ending2,ending3,label"


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(str(VOCAB))


def make_task(tokenizer, length=16, folder=""):
  return setups.make(SwagConfig, tokenizer, length, data_dir=str(folder))


def read(tokenizer, folder, text):
  (folder / "train.csv").write_text(text)
  return make_task(tokenizer, folder=folder).read("train")


def test_the_500_real_rows_of_swag_are_read(unpacked, tokenizer, tmp_path):
  path = unpacked("swag") / "val_first500.csv"
  rows = read(tokenizer, tmp_path, path.read_text())
  with path.open() as reader:
    lines = list(csv.DictReader(reader))
  assert len(rows) == 500
  counts = collections.Counter(row["label"] for row in rows)
  assert counts == {0: 123, 1: 109, 2: 144, 3: 124}
  for row, line in zip(rows, lines):
    # startphrase contains the context and the start of the second sentence.
    ending = line[f"ending{line['label']}"]
    choice = row["choices"][row["label"]]
    assert f"{row['context']} {choice}" == f"{line['startphrase']} {ending}"
  assert rows[0] == {
    "id": "train-1",
    "context": "Students lower their eyes nervously.",
    "choices": [
      "She pats her shoulder, then saunters toward someone.",
      "She turns with two students.",
      "She walks slowly towards someone.",
      "She wheels around as her dog thunders out.",
    ],
    "label": 2,
  }


@pytest.mark.parametrize(
  ("text", "choices"),
  [
    ("label,ending0,sent1,ending1\n1,no,how,yes\n", ["no", "yes"]),
    (
      "sent1,sent2,ending0,ending1,ending2,label\nhow,why ?,a,b,c,1\n",
      ["why ? a", "why ? b", "why ? c"],
    ),
    ("sent1,sent2,ending0,ending1,label\nhow,,a,b,1\n", ["a", "b"]),
  ],
)
def test_any_number_of_endings_may_follow_a_second_text(
  tokenizer, tmp_path, text, choices
):
  (row,) = read(tokenizer, tmp_path, text)
  assert (row["context"], row["choices"], row["label"]) == ("how", choices, 1)


BAD_FILES = {
  "no column of the label": (
    f"{HEADER.removesuffix(',label')}\n",
    " has no column 'label'. Its columns: , video-id",
  ),
  "a single choice": (
    "sent1,ending0,label\nhow,a,0\n",
    " has no column 'ending1'",
  ),
  "no row": (f"{HEADER}\n", " holds no example"),
  "an empty choice": (
    "sent1,ending0,ending1,label\nhow,a,,0\n",
    ":2: the text is empty (column 'ending1')",
  ),
  **{
    f"the label {label}": (
      f"sent1,ending0,ending1,label\nhow,a,b,{label}\n",
      f":2: label '{label}' is none of 0, 1",
    )
    for label in ("A", "", "2")
  },
}


@pytest.mark.parametrize("fault", BAD_FILES)
def test_an_error_in_a_file_is_named_with_its_line(tokenizer, tmp_path, fault):
  text, expected = BAD_FILES[fault]
  with pytest.raises(ValueError) as error:
    read(tokenizer, tmp_path, text)
  assert f"{tmp_path}/train.csv{expected}" in str(error.value)


def read_ids(text):
  """Returns the ids of words; the vocabulary has a word per line."""
  words = VOCAB.read_text().split("\n")
  return [words.index(word) for word in text.split()]


def encode(folder, tokenizer, length, row):
  """Returns the features of a row's record."""
  data = setups.encode(make_task(tokenizer, length), [row], folder)
  [features] = setups.read(folder / "eval.tf_record", data.spec)
  return features


def test_a_record_holds_one_pair_per_choice(tokenizer, tmp_path):
  row = {"context": "the of", "choices": ["and in", "and to is as"], "label": 1}
  features = encode(tmp_path, tokenizer, 9, row)
  expected = [
    read_ids("[CLS] the of [SEP] and in [SEP] [PAD] [PAD]"),
    read_ids("[CLS] the of [SEP] and to is as [SEP]"),
  ]
  np.testing.assert_array_equal(features["input_ids"], expected)
  np.testing.assert_array_equal(
    features["input_mask"], [[1] * 7 + [0] * 2, [1] * 9]
  )
  np.testing.assert_array_equal(
    features["segment_ids"], [[0] * 4 + [1] * 3 + [0] * 2, [0] * 4 + [1] * 5]
  )
  assert features["label_ids"].numpy().tolist() == [1]
  assert features["is_real_example"].numpy().tolist() == [1]


def test_batches_are_cut_to_their_longest_choice(tokenizer, tmp_path):
  rows = [
    {"context": "the", "choices": [" ".join(["of"] * (n - 4)) for n in row]}
    for row in [(5, 8), (7, 5), (5, 9), (6, 6), (7, 7)]
  ]
  task = make_task(tokenizer, 16)
  data = setups.encode(task, rows, tmp_path, "train")
  uncut = list(setups.read(tmp_path / "train.tf_record", data.spec))
  cut = list(data.evaluation(2))
  assert [b["input_ids"].shape.as_list() for b in cut] == [
    [2, 2, 8],
    [2, 2, 9],
    [1, 2, 7],
  ]
  for i, part in enumerate(cut):
    width = part["input_ids"].shape[-1]
    for name in ("input_ids", "input_mask", "segment_ids"):
      full = np.stack([row[name] for row in uncut[2 * i : 2 * i + 2]])
      np.testing.assert_array_equal(part[name], full[..., :width])
      assert not full[..., width:].any()


def test_predictions_hold_the_chosen_text_and_its_number(tokenizer, tmp_path):
  task = make_task(tokenizer, folder=tmp_path)
  text = 'sent1,sent2,ending0,ending1\né,q,"one, or","two"\n'
  (tmp_path / "test.csv").write_text(text)
  (row,) = task.read("test")
  assert row["choices"] == ["q one, or", "q two"] and "label" not in row
  answers = list(base.answer_rows(task, [row], [np.float32([[0, 80]])]))
  assert [answer["choice"] for answer in answers] == [1]
  task.write_predictions(str(tmp_path), [row], answers)
  (line,) = (tmp_path / "predictions.jsonl").read_text().splitlines()
  first = '{"id": "test-1", "text": "é", "text_b": "q two", "label": 1, '
  assert line.startswith(f'{first}"probabilities": [')
  probabilities = json.loads(line)["probabilities"]
  assert probabilities == pytest.approx([0, 1])
  cells = (tmp_path / "test_results.tsv").read_text().split("\t")
  assert [float(cell) for cell in cells] == probabilities
