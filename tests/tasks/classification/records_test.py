"""Records are written once; batches are cut to their longest example."""

import json
import shutil

import numpy as np
import pytest

from bert_tf import modeling, tokenization
from bert_tf.checkpoint import checkpoints
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification.config import ClassificationConfig
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training import estimator
from tests.support import own_classification, runs, setups, tiny_models

LENGTH = 32
# Texts of 1 to 29 words.
DATA = [
  {"id": f"train-{i}", "text": "of " * (1 + i * 7 % 29), "label": label}
  for i, label in enumerate(["good", "bad"] * 22)
]


def make(folder, output_dir, **changes):
  """Returns the config of a run on the examples, written to a folder."""
  rows = [(row["text"].strip(), row["label"]) for row in DATA]
  own_classification.write_tsv(folder / "train.tsv", rows)
  (folder / "config.json").write_text(json.dumps(runs.CONFIG))
  shutil.copy(tiny_models.TINY / "vocab.txt", folder)
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

  class Traced(ClassificationTask):
    def compute_losses(self, outputs, features):
      traces.append(features["input_ids"].shape)
      return super().compute_losses(outputs, features)

  tokenizer = tokenization.FullTokenizer(str(tiny_models.TINY / "vocab.txt"))
  task = setups.make(
    ClassificationConfig,
    tokenizer,
    LENGTH,
    ("bad", "good"),
    task_name="tsv",
    data_dir="",
  )
  runner = estimator.Estimator(
    Traced(**vars(task)),
    modeling.BertConfig.from_dict(runs.CONFIG),
    make(tmp_path, tmp_path / "out").train,
  )
  singles = setups.encode(task, DATA, tmp_path, "train").evaluation(1)
  assert len({tuple(b["input_ids"].shape) for b in singles}) > 4
  runner.load_for_inference()
  runner.evaluate(singles)
  assert len(traces) <= 2
