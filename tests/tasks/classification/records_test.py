"""Records are written once; batches are cut to their longest example."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling, tokenization
from bert_tf.checkpoint import checkpoints
from bert_tf.model import heads, losses
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import task as classification
from bert_tf.training import config as training_config
from bert_tf.training import estimator
from tests.support import runs, setups, tiny_models

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
  "what becomes of long texts": {
    "max_seq_length": 16,
    "long_text": "head_tail",
  },
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


def padded_and_cut(tmp_path, tokenizer, batch_size):
  """Yields each batch twice: padded, and cut to its longest example."""
  for batch in encode(tmp_path, tokenizer).evaluation(batch_size):
    missing = LENGTH - batch["input_ids"].shape[1]
    padded = {
      name: tf.pad(t, [[0, 0], [0, missing]])
      if name in ("input_ids", "input_mask", "segment_ids")
      else t
      for name, t in batch.items()
    }
    yield padded, batch


def test_cut_batches_have_the_outputs_and_gradients_of_padded_ones(
  tmp_path, tokenizer
):
  config = modeling.BertConfig.from_dict({**CONFIG, "initializer_range": 0.5})
  model = tiny_models.widen(heads.ClassifierModel(config, 2))
  widths = set()

  def run(batch):
    with tf.GradientTape() as tape:
      logits = model(batch)
      loss = tf.reduce_sum(
        losses.per_example_loss(logits, batch["label_ids"], "classification")
      )
    gradients = tape.gradient(loss, model.trainable_variables)
    return logits, [tf.convert_to_tensor(g).numpy() for g in gradients]

  for padded, cut in padded_and_cut(tmp_path, tokenizer, 3):
    widths.add(cut["input_ids"].shape[1])
    (expected, gradients), (logits_of_cut, cut_gradients) = (
      run(padded),
      run(cut),
    )
    np.testing.assert_allclose(logits_of_cut, expected, atol=1e-5)
    for gradient_of_cut, padded_gradient in zip(cut_gradients, gradients):
      np.testing.assert_allclose(gradient_of_cut, padded_gradient, atol=1e-5)
  assert len(widths) > 1


def make(folder, output_dir, **changes):
  """Returns the config of a run on the examples, written to a folder."""
  lines = [f"{row['text'].strip()}\t{row['label']}" for row in DATA]
  for name in ("train", "dev"):
    path = folder / f"{name}.tsv"
    path.write_text("\n".join(["text\tlabel", *lines]))
  (folder / "config.json").write_text(json.dumps(CONFIG))
  shutil.copy(GOLDEN / "tiny" / "vocab.txt", folder / "vocab.txt")
  return classification_config.ClassificationConfig(
    task_name="tsv",
    data_dir=str(folder),
    bert_config_file=str(folder / "config.json"),
    vocab_file=str(folder / "vocab.txt"),
    max_seq_length=LENGTH,
    num_train_epochs=3.0,
    do_train=True,
    train=training_config.FineTuningTrainConfig(
      output_dir=str(output_dir),
      train_batch_size=4,
      learning_rate=1e-2,
      num_train_steps=1,
      num_warmup_steps=0,
      save_checkpoints_steps=11,
      use_xla=False,
    ),
    **changes,
  )


@pytest.mark.parametrize("group_by_length", [False, True])
def test_a_resumed_run_of_cut_batches_is_the_same_to_the_bit(
  tmp_path, group_by_length
):
  changes = {"group_by_length": group_by_length}
  fine_tuning.run(make(tmp_path, tmp_path / "whole", **changes))
  (tmp_path / "resumed").mkdir()
  for path in (tmp_path / "whole").glob("*"):
    if path.is_file():
      shutil.copy(path, tmp_path / "resumed" / path.name)
  state = tmp_path / "resumed" / "checkpoint"
  state.write_text('model_checkpoint_path: "model.ckpt-11"\n')
  with runs.logged() as log:
    fine_tuning.run(make(tmp_path, tmp_path / "resumed", **changes))
  assert "at step 11" in log()
  uninterrupted, resumed = (
    checkpoints.CheckpointReader(str(tmp_path / name / "model.ckpt-33"))
    for name in ("whole", "resumed")
  )
  for name in uninterrupted.shapes:
    np.testing.assert_array_equal(
      uninterrupted.get(name), resumed.get(name), name
    )


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
