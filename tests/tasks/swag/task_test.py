"""Multiple choice: files, records, scores and predictions."""

import collections
import csv
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling, tokenization
from bert_tf.model import heads
from bert_tf.tasks import base
from bert_tf.tasks.swag import config as swag_config
from bert_tf.tasks.swag import layouts
from bert_tf.training import config as training_config
from tests.support import runs, setups, tiny_models

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden"
VOCAB = str(GOLDEN / "tiny" / "vocab.txt")
CONFIG = runs.CONFIG
HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source"
HEADER = f"{HEADER},ending0,ending1,ending2,ending3,label"


def make_task(tokenizer, length, **settings):
  settings = {"data_dir": "", **settings}
  return setups.make(swag_config.SwagConfig, tokenizer, length, **settings)


def read(folder, name, text, layout, has_labels=True):
  path = folder / name
  path.write_text(text)
  return layouts.read_rows(str(path), layout, has_labels)


def own(file_format, *choices, **settings):
  config = swag_config.SwagConfig(
    bert_config_file="",
    vocab_file="",
    data_dir="",
    task_name=file_format,
    choice_columns=choices,
    train=training_config.FineTuningTrainConfig(output_dir=""),
    **settings,
  )
  return layouts.file_layout(config)


def test_the_500_real_rows_of_swag_are_read(unpacked):
  folder = unpacked("swag")
  path = folder / "val_first500.csv"
  rows = layouts.read_rows(str(path), layouts.SWAG, True)
  with path.open() as reader:
    lines = list(csv.DictReader(reader))
  assert len(rows) == 500
  assert collections.Counter(row["label"] for row in rows) == LABEL_COUNTS
  for row, line in zip(rows, lines):
    # startphrase contains the context and the start of the second sentence.
    ending = line[f"ending{line['label']}"]
    choice = row["choices"][row["label"]]
    assert f"{row['context']} {choice}" == f"{line['startphrase']} {ending}"
  assert rows[0] == {
    "id": "val_first500-1",
    "context": "Students lower their eyes nervously.",
    "choices": [
      "She pats her shoulder, then saunters toward someone.",
      "She turns with two students.",
      "She walks slowly towards someone.",
      "She wheels around as her dog thunders out.",
    ],
    "choice_labels": [0, 1, 2, 3],
    "label": 2,
  }


# Counts of the last characters of the file's lines.
LABEL_COUNTS = {0: 123, 1: 109, 2: 144, 3: 124}


def test_a_test_file_of_swag_has_no_labels(tmp_path):
  header = HEADER.removesuffix(",label")
  text = f'{header}\n7,v,1,A b. She,A b.,She,gen,w,"x, y",z,v\n'
  (row,) = read(tmp_path, "test.csv", text, layouts.SWAG, False)
  assert (row["id"], row["context"]) == ("test-1", "A b.")
  assert row["choices"] == ["She w", "She x, y", "She z", "She v"]
  assert "label" not in row


FILES = {
  "csv by names": (
    own("csv", "a", "b"),
    "label,a,context,b\n1,no,how,yes\n",
  ),
  "csv by numbers": (
    own("csv", "1", "2", context_column="0", label_column="3"),
    "how,no,yes,1\n",
  ),
  "tsv": (own("tsv", "a", "b"), "context\ta\tb\tlabel\nhow\tno\tyes\t1\n"),
  "jsonl of a key a choice": (
    own("jsonl", "a", "b"),
    '{"context": "how", "a": "no", "b": "yes", "label": 1}\n',
  ),
  "jsonl of a list": (
    own("jsonl", "ends"),
    '{"context": "how", "ends": ["no", "yes"], "label": "1"}\n\n',
  ),
}


@pytest.mark.parametrize("kind", FILES)
def test_own_files_are_read_by_their_columns(tmp_path, kind):
  task, text = FILES[kind]
  (row,) = read(tmp_path, "f", text, task)
  assert (row["context"], row["label"]) == ("how", 1)
  assert row["choices"] == ["no", "yes"]


def test_a_question_begins_every_choice_and_may_be_empty(tmp_path):
  task = own("tsv", "a", "b", question_column="q")
  text = "context\tq\ta\tb\tlabel\nhow\twhy ?\tno\tyes\t1\nhow\t\tno\tyes\t0\n"
  with_question, without_question = read(tmp_path, "f", text, task)
  assert with_question["choices"] == ["why ? no", "why ? yes"]
  assert without_question["choices"] == ["no", "yes"]


CHOICES = ("4", "2", " one ", "2b", "4 ")


@pytest.mark.parametrize(
  ("value", "label_type", "expected"),
  [
    ("0", "number", 0),
    (2, "number", 2),
    ("1", "number_from_1", 0),
    ("A", "letter", 0),
    ("d", "letter", 3),
    ("2", "text", 1),
    ("5", "number", "label '5' is none of 0, 1, 2, 3, 4; labels are read as"),
    ("A", "number", "read as `label_type=number`, one of number, number_from_"),
    ("", "number", "'' is none"),
    (True, "number", "True is none"),
    (1.0, "number", "1.0 is none"),
    (0, "number_from_1", "0 is none of 1, 2, 3, 4, 5"),
    ("F", "letter", "'F' is none of A, B, C, D, E"),
    ("five", "text", "'five' is none of 4, 2, one, 2b"),
    ("4", "text", "'4' is several of 4, 2, one, 2b"),
  ],
)
def test_labels_are_numbers_letters_or_texts(
  tmp_path, value, label_type, expected
):
  layout = own("jsonl", "ends", label_type=label_type)
  row = json.dumps({"context": "how", "ends": CHOICES, "label": value})
  if isinstance(expected, int):
    (found,) = read(tmp_path, "train.jsonl", row, layout)
    assert found["label"] == expected
  else:
    with pytest.raises(ValueError) as error:
      read(tmp_path, "train.jsonl", row, layout)
    assert f"{tmp_path}/train.jsonl:1: label " in str(error.value)
    assert expected in str(error.value)


GOOD_ROW = "0,,,A b. She,A b.,She,gold,w,x,y,z,3\n"
BAD_FILES = {
  "a choice too few": (
    layouts.SWAG,
    f"{HEADER}\n{GOOD_ROW}0,,,A b. She,A b.,She,gold,w,x,y,3\n",
    "f:3: 11 columns instead of 12: 0 |  |  | A b. She | A b.",
  ),
  "no column of the label": (
    layouts.SWAG,
    f"{HEADER.removesuffix(',label')}\n",
    "f has no column 'label'. Its columns: , video-id",
  ),
  "no row": (layouts.SWAG, f"{HEADER}\n", "f holds no example"),
  "another number of choices": (
    own("jsonl", "ends"),
    '{"context": "c", "ends": ["a", "b", "c"], "label": 0}\n'
    '{"context": "c", "ends": ["a", "b"], "label": 0}\n',
    "f:2: 2 choices, but 3 in the rows before",
  ),
  "a list of one": (
    own("jsonl", "ends"),
    '{"context": "c", "ends": ["a"], "label": 0}\n',
    "f:1: column ends must list two texts or more, not ['a']",
  ),
  "an empty choice in a list": (
    own("jsonl", "ends"),
    '{"context": "c", "ends": ["a", ""], "label": 0}\n',
    "f:1: the text is empty (column 'ends[1]')",
  ),
  "a number as question": (
    own("jsonl", "ends", question_column="q"),
    '{"context": "c", "q": 5, "ends": ["a", "b"], "label": 0}\n',
    "f:1: 5 is not a text (column 'q')",
  ),
}


@pytest.mark.parametrize("fault", BAD_FILES)
def test_an_error_in_a_file_is_named_with_its_line(tmp_path, fault):
  task, text, expected = BAD_FILES[fault]
  with pytest.raises(ValueError) as error:
    read(tmp_path, "f", text, task)
  assert f"{tmp_path}/{expected}" in str(error.value)


NAMES = "Name the columns of the files"


@pytest.mark.parametrize(
  ("file_format", "choices", "columns", "expected"),
  [
    ("csv", ("a", "b"), {"context_column": ""}, NAMES),
    ("csv", ("a", "b"), {"label_column": ""}, NAMES),
    ("csv", ("a", ""), {}, NAMES),
    ("csv", ("a",), {}, NAMES),
    ("csv", ("a", "b", "a"), {}, NAMES),
    ("jsonl", (), {}, NAMES),
    ("jsonl", ("1", "2"), {}, "names or"),
    ("csv", ("1", "2"), {}, "names or"),
    ("xml", ("a", "b"), {}, "'xml' is not known"),
  ],
)
def test_invalid_columns_are_refused(file_format, choices, columns, expected):
  with pytest.raises(ValueError, match=expected):
    own(file_format, *choices, **columns)


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(VOCAB)


def read_ids(text):
  """Returns the ids of words; the vocabulary has a word per line."""
  words = pathlib.Path(VOCAB).read_text().split("\n")
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


def test_each_pair_is_truncated_separately_from_its_longer_text(
  tokenizer, tmp_path
):
  row = {"context": "the of and in", "choices": ["to", "to is as on for"]}
  features = encode(tmp_path, tokenizer, 8, row)
  np.testing.assert_array_equal(
    features["input_ids"],
    [
      read_ids("[CLS] the of and in [SEP] to [SEP]"),
      # 9 pieces for 5 places: 1 and then 3 more, from the longer text then.
      read_ids("[CLS] the of and [SEP] to is [SEP]"),
    ],
  )


ROW = {"context": "the of", "choices": ["and in", "and to"], "label": 1}


@pytest.mark.parametrize(
  "change",
  [{"label": 0}, {"context": "the"}, {"choices": ["and in", "and is"]}],
)
def test_a_change_of_the_example_rewrites_the_records(
  tokenizer, tmp_path, change
):
  task = make_task(tokenizer, 12)
  for row, is_reused in ((ROW, False), (ROW, True), ({**ROW, **change}, False)):
    with runs.logged() as log:
      setups.encode(task, [row], tmp_path)
    assert ("records of an earlier run" in log()) == is_reused


def encode_lengths(folder, tokenizer, lengths):
  """Encodes a row for each row of lengths, which are those of its choices."""
  rows = [
    {"context": "the", "choices": [" ".join(["of"] * (n - 4)) for n in row]}
    for row in lengths
  ]
  settings = {"train": {"train_batch_size": 2}, "group_by_length": True}
  task = make_task(tokenizer, 16, **settings)
  return setups.encode(task, rows, folder, "train")


def test_batches_are_cut_to_their_longest_choice(tokenizer, tmp_path):
  lengths = [(5, 8), (7, 5), (5, 9), (6, 6), (7, 7)]
  data = encode_lengths(tmp_path, tokenizer, lengths)
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


def test_examples_with_longest_choices_of_similar_length_share_a_batch(
  tokenizer, tmp_path
):
  # Sorted by the sum of the lengths, the second kind would stand between the
  # others and share batches with them.
  lengths = [(8, 5, 5)] * 5 + [(16, 5, 5)] * 6 + [(11, 11, 11)] * 5
  data = encode_lengths(tmp_path, tokenizer, lengths)
  batches = data.training(0)
  # A window of 50 batches has 100 examples, more than 6 of the 16.
  widths = [b["input_ids"].shape[-1] for b in batches.take(50)]
  assert len(set(widths)) == 3


@pytest.fixture(scope="module")
def model():
  config = modeling.BertConfig.from_dict({**CONFIG, "initializer_range": 0.5})
  return tiny_models.widen(heads.MultipleChoiceModel(config))


@pytest.fixture
def batch():
  """3 examples of 4 choices of 3 to 9 word pieces."""
  rng = np.random.default_rng(1)
  lengths = rng.integers(3, 10, size=(3, 4, 1))
  mask = (np.arange(9) < lengths).astype(np.int32)
  return {
    "input_ids": rng.integers(1, 500, size=mask.shape).astype(np.int32) * mask,
    "input_mask": mask,
    "segment_ids": (np.arange(9) > 1).astype(np.int32) * mask,
    "label_ids": np.array([[2], [0], [3]], np.int32),
    "is_real_example": np.ones((3, 1), np.int32),
  }


def tensors(batch):
  return {name: tf.constant(value) for name, value in batch.items()}


def test_a_score_is_the_product_of_the_vector_and_the_pooled_output(
  model, batch
):
  scores = model(tensors(batch)).numpy()
  assert scores.shape == (3, 4)
  vector = model.choice_weights.numpy()[0]
  for i in range(3):
    for j in range(4):
      # A choice without padding: the score does not depend on other choices.
      length = batch["input_mask"][i, j].sum()
      choice = {
        name: tf.constant(batch[name][i, j, :length][None])
        for name in ("input_ids", "input_mask", "segment_ids")
      }
      pooled = model.bert(choice).pooled_output.numpy()[0]
      # A float32 forward pass of one layer.
      assert scores[i, j] == pytest.approx(pooled @ vector, abs=1e-5)


@pytest.mark.parametrize(
  ("label_type", "label"),
  [("number", 1), ("number_from_1", 2), ("letter", "B"), ("text", "two")],
)
def test_predictions_name_choices_like_the_labels(
  tokenizer, tmp_path, label_type, label
):
  columns = {"choice_columns": ("ends",), "question_column": "q"}
  task = make_task(
    tokenizer,
    16,
    task_name="jsonl",
    data_dir=str(tmp_path),
    label_type=label_type,
    **columns,
  )
  cells = {"context": "é", "q": "q", "ends": ["one", "two"]}
  (tmp_path / "test.jsonl").write_text(json.dumps(cells))
  (row,) = task.read("test")
  outputs = base.split_outputs(np.float32([[0, 80]]))
  answers = list(base.answer_rows(task, [row], outputs))
  assert [answer["choice"] for answer in answers] == [1]
  task.write_predictions(str(tmp_path), [row], answers)
  (line,) = (tmp_path / "predictions.jsonl").read_text().splitlines()
  first = '{"id": "test-0", "text": "é", "text_b": "q two", "label": '
  assert line.startswith(f'{first}{json.dumps(label)}, "probabilities": [')
  probabilities = json.loads(line)["probabilities"]
  assert probabilities == pytest.approx([0, 1])
  cells = (tmp_path / "test_results.tsv").read_text().split("\t")
  assert [float(cell) for cell in cells] == probabilities
