"""Records are written once; batches are cut to their longest example."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from bert_tf import modeling, tokenization
from bert_tf.checkpoint import checkpoints
from bert_tf.model import heads
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import task as classification
from bert_tf.training import estimator
from tests.support import own_classification, runs, setups

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden"
CONFIG = runs.CONFIG
LABELS = ("bad", "good")
LENGTH = 32
# Texts of 1 to 29 words.
DATA = [
  {"id": f"train-{i}", "text": "of " * (1 + i * 7 % 29), "label": label}
  for i, label in enumerate(["good", "bad"] * 22)
]


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(str(GOLDEN / "tiny" / "vocab.txt"))


def make_task(
  tokenizer, labels=LABELS, max_seq_length=LENGTH, long_text="truncate"
):
  return setups.make(
    classification_config.ClassificationConfig,
    tokenizer,
    max_seq_length,
    labels,
    task_name="tsv",
    data_dir="",
    long_text=long_text,
  )


def encode(folder, tokenizer, data=DATA, **changes):
  task = make_task(tokenizer, **changes)
  return setups.encode(task, data, folder, "train")


def write(folder, *arguments, **changes):
  """Returns the path of the records."""
  encode(folder, *arguments, **changes)
  return folder / "train.tf_record"


class CountingTokenizer(tokenization.FullTokenizer):
  """Counts the texts that it tokenizes."""

  num_texts = 0

  def tokenize_to_ids(self, text):
    self.num_texts += 1
    return super().tokenize_to_ids(text)


@pytest.fixture
def counting():
  return CountingTokenizer(str(GOLDEN / "tiny" / "vocab.txt"))


def test_the_same_examples_are_tokenized_once(tmp_path, counting):
  path = write(tmp_path, counting)
  content = path.read_bytes()
  assert counting.num_texts >= len(DATA)
  counting.num_texts = 0
  with runs.logged() as log:
    write(tmp_path, counting)
  assert counting.num_texts <= 1  # The first row tells the features.
  assert "train.tf_record, made from these examples and settings" in log()
  assert f"{len(DATA)} records" in log() and "0 (0%) too long" in log()
  assert path.read_bytes() == content


CASED = tokenization.FullTokenizer(
  str(GOLDEN / "tiny" / "vocab.txt"), do_lower_case=False
)
OTHER_RECORDS = {
  "a text": {"data": [{**DATA[0], "text": "the"}, *DATA[1:]]},
  "a label": {"data": [{**DATA[0], "label": "bad"}, *DATA[1:]]},
  "a second text": {"data": [{**DATA[0], "text_b": "of"}, *DATA[1:]]},
  "fewer examples": {"data": DATA[:-1]},
  "another length": {"max_seq_length": 31},
  "what becomes of long texts": {"max_seq_length": 16, "long_text": "windows"},
  "the order of the labels": {"labels": ("good", "bad")},
  "case": {"tokenizer": CASED},
}


@pytest.mark.parametrize("change", OTHER_RECORDS)
def test_a_setting_that_changes_the_records_rewrites_them(
  tmp_path, tokenizer, change
):
  write(tmp_path, tokenizer)
  arguments = {"tokenizer": tokenizer, **OTHER_RECORDS[change]}
  with runs.logged() as log:
    again = write(tmp_path, **arguments)
  assert "Reusing" not in log()
  (tmp_path / "fresh").mkdir()
  fresh = write(tmp_path / "fresh", **arguments)
  assert again.read_bytes() == fresh.read_bytes()


def test_records_that_are_damaged_or_without_a_digest_are_rewritten(
  tmp_path, tokenizer
):
  path = write(tmp_path, tokenizer)
  content = path.read_bytes()
  path.write_bytes(content[:-3])
  with runs.logged() as log:
    write(tmp_path, tokenizer)
  assert "is not a whole TFRecord file" in log()
  assert path.read_bytes() == content
  path.write_bytes(b"of another task")
  (tmp_path / ".train.tf_record.settings.json").unlink()
  write(tmp_path, tokenizer)
  assert path.read_bytes() == content


def make(folder, output_dir, **changes):
  """Returns the config of a run on the examples, written to a folder."""
  rows = [(row["text"].strip(), row["label"]) for row in DATA]
  own_classification.write_tsv(folder / "train.tsv", rows)
  (folder / "config.json").write_text(json.dumps(runs.CONFIG))
  shutil.copy(GOLDEN / "tiny" / "vocab.txt", folder / "vocab.txt")
  train = {
    "train_batch_size": 4,
    "learning_rate": 1e-2,
    "save_checkpoints_steps": 11,
  }
  return own_classification.make(
    folder,
    output_dir,
    train,
    max_seq_length=LENGTH,
    num_train_epochs=3.0,
    do_train=True,
    **changes,
  )


@pytest.mark.parametrize("group_by_length", [False, True])
def test_a_resumed_run_of_cut_batches_is_the_same_to_the_bit(
  tmp_path, group_by_length
):
  changes = {"group_by_length": group_by_length}
  whole, resumed = tmp_path / "whole", tmp_path / "resumed"
  fine_tuning.run(make(tmp_path, whole, **changes))
  resumed.mkdir()
  for path in whole.glob("*"):
    if path.is_file():
      shutil.copy(path, resumed / path.name)
  (resumed / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-11"')
  with runs.logged() as log:
    fine_tuning.run(make(tmp_path, resumed, **changes))
  assert "at step 11" in log()
  readers = [
    checkpoints.CheckpointReader(str(folder / "model.ckpt-33"))
    for folder in (whole, resumed)
  ]
  for name in readers[0].shapes:
    values = [reader.get(name) for reader in readers]
    np.testing.assert_array_equal(*values, name)


def test_evaluation_does_not_trace_a_program_for_each_width(tmp_path):
  traces = []

  class Traced(classification.ClassificationTask):
    def compute_losses(self, outputs, features):
      traces.append(features["input_ids"].shape)
      return super().compute_losses(outputs, features)

  runner = estimator.Estimator(
    lambda: heads.ClassifierModel(modeling.BertConfig.from_dict(CONFIG), 2),
    Traced(**vars(make_task(CASED))),
    make(tmp_path, tmp_path / "out").train,
  )
  singles = encode(tmp_path, CASED).evaluation(1)
  assert len({tuple(b["input_ids"].shape) for b in singles}) > 4
  runner.load_for_inference()
  runner.evaluate(singles)
  assert len(traces) <= 2
