"""Multiple choice: files, records, scores, and runs in this process."""

import collections
import csv
import dataclasses
import json
import pathlib
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import heads, modeling, tokenization
from bert_tf.data import input_pipeline, records
from bert_tf.tasks.swag import config as swag_config
from bert_tf.tasks.swag import examples as swag_data
from bert_tf.tasks.swag import task as swag
from bert_tf.tasks.swag.examples import ChoiceExample
from bert_tf.training import config as training_config
from bert_tf.training import curves
from tests.support import runs, setups, tiny_models

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden"
VOCAB = str(GOLDEN / "tiny" / "vocab.txt")
CONFIG = runs.CONFIG
HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source"
HEADER = f"{HEADER},ending0,ending1,ending2,ending3,label"
WORDS = "the of and a in to is for on as by with at from".split()


def make_task(tokenizer, length):
  setup = setups.make(swag_config.SwagConfig, tokenizer, length, data_dir="")
  return swag.SwagTask(setup)


def make_batches(tokenizer, num_choices):
  task = make_task(tokenizer, 16)
  task.num_choices["train"] = num_choices
  return task.batches("train")


def read(folder, name, text, task, has_labels=True, skip_bad_rows=False):
  (folder / name).write_text(text)
  return swag_data.read_examples(
    str(folder), name, task, has_labels, skip_bad_rows
  )


def own(file_format, *choices, label_type="number", question=None):
  return swag_data.own_files(
    file_format, "context", question, choices, "label", label_type
  )


# Files.


def test_the_500_real_rows_of_swag_are_read(unpacked):
  folder = unpacked("swag")
  name = "val_first500.csv"
  examples = swag_data.read_examples(str(folder), name, swag_data.SWAG, True)
  with (folder / name).open() as reader:
    rows = list(csv.DictReader(reader))
  assert len(examples) == 500
  assert collections.Counter(e.label for e in examples) == LABEL_COUNTS
  for example, row in zip(examples, rows):
    # startphrase contains the context and the start of the second sentence.
    start = f"{example.context} {example.question}".strip()
    assert start == row["startphrase"]
    assert example.choices[example.label] == row[f"ending{row['label']}"]
  assert examples[0] == ChoiceExample(
    "val_first500-1",
    "Students lower their eyes nervously.",
    "She",
    (
      "pats her shoulder, then saunters toward someone.",
      "turns with two students.",
      "walks slowly towards someone.",
      "wheels around as her dog thunders out.",
    ),
    2,
  )
  assert examples[0].continuations()[1] == "She turns with two students."


# Counts of the last characters of the file's lines.
LABEL_COUNTS = {0: 123, 1: 109, 2: 144, 3: 124}


def test_a_test_file_of_swag_has_no_labels(tmp_path):
  header = HEADER.removesuffix(",label")
  text = f'{header}\n7,v,1,A b. She,A b.,She,gen,w,"x, y",z,v\n'
  (example,) = read(tmp_path, "test.csv", text, swag_data.SWAG, False)
  assert example == ChoiceExample(
    "test-1", "A b.", "She", ("w", "x, y", "z", "v"), None
  )


FILES = {
  "csv by names": (
    own("csv", "a", "b"),
    "label,a,context,b\n1,no,how,yes\n",
  ),
  "csv by numbers": (
    swag_data.own_files("csv", "0", None, ("1", "2"), "3", "number"),
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
  (example,) = read(tmp_path, "f", text, task)
  assert dataclasses.replace(example, guid="") == ChoiceExample(
    "", "how", "", ("no", "yes"), 1
  )


def test_a_question_begins_every_choice_and_may_be_empty(tmp_path):
  task = own("tsv", "a", "b", question="q")
  text = "context\tq\ta\tb\tlabel\nhow\twhy ?\tno\tyes\t1\nhow\t\tno\tyes\t0\n"
  with_question, without_question = read(tmp_path, "f", text, task)
  assert with_question.continuations() == ["why ? no", "why ? yes"]
  assert without_question.continuations() == ["no", "yes"]


CHOICES = ("4", "2", " one ", "2b")


@pytest.mark.parametrize(
  ("value", "label_type", "expected"),
  [
    ("0", "number", 0),
    (2, "number", 2),
    ("1", "number_from_1", 0),
    ("A", "letter", 0),
    ("d", "letter", 3),
    ("2", "text", 1),
  ],
)
def test_labels_are_numbers_letters_or_texts(value, label_type, expected):
  assert swag_data.label_id(value, CHOICES, label_type) == expected


@pytest.mark.parametrize(
  ("value", "label_type", "expected"),
  [
    ("4", "number", "label '4' is none of the 4 choices 0 to 3; labels are"),
    ("A", "number", "read as `label_type=number`, there are also number_from_"),
    ("", "number", "'' is none"),
    (True, "number", "True is none"),
    (1.0, "number", "1.0 is none"),
    (0, "number_from_1", "0 is none of the 4 choices 1 to 4"),
    ("E", "letter", "'E' is none of the 4 choices A to D"),
    ("five", "text", "'five' is none of the 4 choices; labels"),
  ],
)
def test_a_label_that_is_not_a_choice_is_named(
  tmp_path, value, label_type, expected
):
  task = own("jsonl", "ends", label_type=label_type)
  good = make_label(label_type)
  rows = [
    {"context": "how", "ends": CHOICES, "label": label}
    for label in (good, value)
  ]
  text = "".join(json.dumps(row) + "\n" for row in rows)
  with pytest.raises(ValueError) as error:
    read(tmp_path, "train.jsonl", text, task)
  assert f"{tmp_path}/train.jsonl:2: label " in str(error.value)
  assert expected in str(error.value)


def make_label(label_type):
  """Returns a label that is the second of CHOICES."""
  labels = {"number": 1, "number_from_1": 2, "letter": "B", "text": "2"}
  return labels[label_type]


def test_a_text_that_equals_two_choices_is_not_a_label(tmp_path):
  text = '{"context": "how", "ends": ["a", "a ", "b"], "label": "a"}'
  with pytest.raises(ValueError, match="'a' is several of the 3 choices"):
    read(tmp_path, "f", text, own("jsonl", "ends", label_type="text"))


GOOD_ROW = "0,,,A b. She,A b.,She,gold,w,x,y,z,3\n"
BAD_FILES = {
  "a choice too few": (
    swag_data.SWAG,
    f"{HEADER}\n{GOOD_ROW}0,,,A b. She,A b.,She,gold,w,x,y,3\n",
    "f:3: 11 columns instead of 12: 0 |  |  | A b. She | A b.",
  ),
  "no column of the label": (
    swag_data.SWAG,
    f"{HEADER.removesuffix(',label')}\n",
    "f has no column 'label'. Its columns: , video-id",
  ),
  "no row": (swag_data.SWAG, f"{HEADER}\n", "f holds no example"),
  "another number of choices": (
    own("jsonl", "ends"),
    '{"context": "c", "ends": ["a", "b", "c"], "label": 0}\n'
    '{"context": "c", "ends": ["a", "b"], "label": 0}\n',
    "f:2: 2 choices, but 3 in the rows before",
  ),
  "a list of one": (
    own("jsonl", "ends"),
    '{"context": "c", "ends": ["a"], "label": 0}\n',
    "f:1: column ends must be a list of two choices or more, not ['a']",
  ),
  "an empty choice in a list": (
    own("jsonl", "ends"),
    '{"context": "c", "ends": ["a", ""], "label": 0}\n',
    "f:1: a choice of column ends must be text, not ''",
  ),
  "a number as question": (
    own("jsonl", "ends", question="q"),
    '{"context": "c", "q": null, "ends": ["a", "b"], "label": 0}\n',
    "f:1: column q must be text, not None",
  ),
}


@pytest.mark.parametrize("fault", BAD_FILES)
def test_an_error_in_a_file_is_named_with_its_line(tmp_path, fault):
  task, text, expected = BAD_FILES[fault]
  with pytest.raises(ValueError) as error:
    read(tmp_path, "f", text, task)
  assert f"{tmp_path}/{expected}" in str(error.value)


@pytest.mark.parametrize(
  ("arguments", "expected"),
  [
    (("csv", "", None, ("a", "b"), "label"), "cannot be empty"),
    (("csv", "c", None, (), "label"), "cannot be empty"),
    (("csv", "c", None, ("a", ""), "label"), "cannot be empty"),
    (("csv", "c", None, ("a",), "label"), "`choice_columns=a` is one choice"),
    (("csv", "c", None, ("a", "b", "a"), "label"), "names a column twice"),
    (("csv", "0", None, ("1", "b"), "3"), "give names or"),
    (("jsonl", "0", None, ("1", "2"), "3"), "give names or"),
  ],
)
def test_invalid_columns_are_refused(arguments, expected):
  with pytest.raises(ValueError) as error:
    swag_data.own_files(*arguments, "number")
  assert expected in str(error.value)


# Records and batches.


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(VOCAB)


def read_ids(text):
  """Returns the ids of words; the vocabulary has a word per line."""
  words = pathlib.Path(VOCAB).read_text().split("\n")
  return [words.index(word) for word in text.split()]


def encode(tokenizer, length, example):
  task = make_task(tokenizer, length)
  [([record], _)] = task.encode("train", task.prepare("train", [example]))
  return tf.io.parse_single_example(record, task.spec("train"))


def test_a_record_holds_one_pair_per_choice(tokenizer):
  example = ChoiceExample("x", "the of", "and", ("in", "to is as"), 1)
  features = encode(tokenizer, 9, example)
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


def test_each_pair_is_truncated_separately_from_its_longer_text(tokenizer):
  example = ChoiceExample("x", "the of and in", "", ("to", "to is as on for"))
  features = encode(tokenizer, 8, example)
  np.testing.assert_array_equal(
    features["input_ids"],
    [
      read_ids("[CLS] the of and in [SEP] to [SEP]"),
      # 9 pieces for 5 places: 1 and then 3 more, from the longer text then.
      read_ids("[CLS] the of and [SEP] to is [SEP]"),
    ],
  )


RECORD = ChoiceExample("train-1", "the of", "and", ("in", "to"), 1)
OTHER_RECORDS = {
  "another label": {"label": 0},
  "another context": {"context": "the"},
  "another question": {"question": "as"},
  "another choice": {"choices": ("in", "is")},
}


@pytest.mark.parametrize("change", [*OTHER_RECORDS, "another length"])
def test_a_setting_that_changes_the_records_rewrites_them(
  tmp_path, tokenizer, change
):
  path = str(tmp_path / "train.tf_record")

  def write(example, length):
    task = make_task(tokenizer, length)
    data = task.prepare("train", [example])
    files = task.write_records("train", path, data)
    (record,) = tf.data.TFRecordDataset(path).as_numpy_iterator()
    return files.is_reused, record

  is_reused, record = write(RECORD, 12)
  assert not is_reused and write(RECORD, 12) == (True, record)
  other = dataclasses.replace(RECORD, **OTHER_RECORDS.get(change, {}))
  is_reused, changed = write(other, 13 if change == "another length" else 12)
  assert not is_reused and changed != record


def write_lengths(path, lengths):
  """Writes a record per row of lengths; its first id is the row's number."""
  with records.open_records([str(path)]) as writer:
    for number, row in enumerate(lengths):
      masks = [[1] * length + [0] * (16 - length) for length in row]
      ids = [[number + 1] * length + [0] * (16 - length) for length in row]
      ints = {
        "input_ids": sum(ids, []),
        "input_mask": sum(masks, []),
        "segment_ids": sum(masks, []),
        "label_ids": [0],
        "is_real_example": [1],
      }
      writer.write(records.encode_example(records.encode_features(ints, {})))
  return input_pipeline.open_records(str(path))


def test_batches_are_cut_to_their_longest_choice(tokenizer, tmp_path):
  lengths = [(3, 8), (5, 2), (2, 9), (1, 1), (7, 7)]
  files = write_lengths(tmp_path / "a", lengths)
  batches = make_batches(tokenizer, 2)
  uncut = list(input_pipeline.finite_dataset(files, batches.spec, 2, 500))
  cut = list(batches.once(files, 2))
  assert [b["input_ids"].shape.as_list() for b in cut] == [
    [2, 2, 8],
    [2, 2, 9],
    [1, 2, 7],
  ]
  for full, part in zip(uncut, cut):
    width = part["input_ids"].shape[-1]
    for name in ("input_ids", "input_mask", "segment_ids"):
      np.testing.assert_array_equal(part[name], full[name][..., :width])
      assert not full[name].numpy()[..., width:].any()


def test_examples_with_longest_choices_of_similar_length_share_a_batch(
  tokenizer, tmp_path
):
  # Sorted by the sum of the lengths, the second kind would stand between the
  # others and share batches with them.
  lengths = [(5, 1, 1)] * 5 + [(12, 1, 1)] * 6 + [(8, 8, 8)] * 5
  files = write_lengths(tmp_path / "a", lengths)
  batches = make_batches(tokenizer, 3).for_training(
    files, 2, 1, 0, group_by_length=True
  )
  # A window of 50 batches has 100 examples, more than 6 of the 16.
  widths = [b["input_ids"].shape[-1] for b in batches.take(50)]
  assert len(set(widths)) == 3


# The head.


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


def test_the_head_is_one_vector_without_bias(model):
  names = {v.path: tuple(v.shape) for v in model.weights}
  assert names.pop("choice_weights") == (1, 16)
  assert all(name.startswith("bert/") for name in names)


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


# Runs.


def train_config(output_dir, **changes):
  config = training_config.FineTuningTrainConfig(
    output_dir=str(output_dir),
    train_batch_size=8,
    learning_rate=5e-3,
    num_train_steps=1,
    num_warmup_steps=0,
    log_every_steps=1,
    use_xla=False,
  )
  return dataclasses.replace(config, **changes)


def made_rows(num_rows, num_choices=3):
  """Returns rows whose right choice is the one with "his"."""
  rng = random.Random(num_rows)
  for _ in range(num_rows):
    label = rng.randrange(num_choices)
    choices = [" ".join(rng.choices(WORDS, k=3)) for _ in range(num_choices)]
    choices[label] += " his"
    context = " ".join(rng.choices(WORDS, k=rng.randrange(1, 6)))
    yield {"context": context, "ends": choices, "label": "ABCDE"[label]}


def write_jsonl(path, rows):
  path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
  """A folder with own data, config and vocabulary."""
  folder = tmp_path_factory.mktemp("base")
  write_jsonl(folder / "train.jsonl", made_rows(44))
  # The model is the same for any number of choices.
  write_jsonl(folder / "dev.jsonl", made_rows(19, num_choices=4))
  rows = [{k: v for k, v in r.items() if k != "label"} for r in made_rows(6)]
  write_jsonl(folder / "test.jsonl", rows)
  (folder / "config.json").write_text(json.dumps(CONFIG))
  shutil.copy(VOCAB, folder / "vocab.txt")
  return folder


def make(folder, output_dir, train=(), **changes):
  """Returns the config of a run on own data, with changes."""
  config = swag_config.SwagConfig(
    task_name="jsonl",
    choice_columns=("ends",),
    label_type="letter",
    data_dir=str(folder),
    bert_config_file=str(folder / "config.json"),
    vocab_file=str(folder / "vocab.txt"),
    max_seq_length=16,
    num_train_epochs=1.0,
    train=train_config(output_dir, **dict(train)),
  )
  return dataclasses.replace(config, **changes)


def results(output_dir):
  lines = (output_dir / "eval_results.txt").read_text().splitlines()
  return {k: float(v) for k, v in (line.split(" = ") for line in lines)}


@pytest.fixture(scope="module")
def trained(base):
  """The folder of a run that has trained, evaluated and predicted."""
  config = make(
    base,
    base / "out",
    do_train=True,
    do_eval=True,
    do_predict=True,
    num_train_epochs=20.3,
    warmup_proportion=0.25,
    train={"save_checkpoints_steps": 100},
  )
  swag.run(config)
  return base / "out"


def test_a_run_learns_to_choose(trained):
  values = curves.read(str(trained))["loss"]
  assert values[111] < 0.3 * values[1]
  assert results(trained)["eval_accuracy"] == 1.0
  lines = (trained / "predictions.jsonl").read_text().splitlines()
  predictions = [json.loads(line) for line in lines]
  rows = list(made_rows(6))
  assert [p["label"] for p in predictions] == [row["label"] for row in rows]
  assert [p["text"] for p in predictions] == [row["context"] for row in rows]
  assert all(p["text_b"].endswith(" his") for p in predictions)


def test_predictions_name_choices_like_the_labels(tmp_path):
  example = ChoiceExample("test-0", "é", "q", ("one", "two"))
  probabilities = np.array([[0.25, 0.75]], np.float32)
  expected = {"number": 1, "number_from_1": 2, "letter": "B", "text": "two"}
  for label_type, label in expected.items():
    swag.write_predictions(str(tmp_path), [example], probabilities, label_type)
    assert (tmp_path / "predictions.jsonl").read_text() == (
      '{"id": "test-0", "text": "é", "text_b": "q two", '
      f'"label": {json.dumps(label)}, "probabilities": [0.25, 0.75]}}\n'
    )
  assert (tmp_path / "test_results.tsv").read_text() == "0.25\t0.75\n"
