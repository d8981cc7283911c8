"""The settings of dynamic masking in pre-training."""

import json

import numpy as np
import pytest

from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.data import input_pipeline
from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import pretraining_records, pretraining_shards
from bert_tf.tasks.pretraining import pretraining
from tests.support import cycling_words, pretrainings, runs

LENGTH, MASK_ID = 16, 4


@pytest.fixture(scope="module")
def records(tmp_path_factory):
  """Unmasked records, and the model that they are for."""
  folder = tmp_path_factory.mktemp("data")
  (folder / "text").write_text(cycling_words.text())
  (folder / "config.json").write_text(json.dumps(runs.CONFIG))
  config = PretrainingDataConfig(
    vocab_file=cycling_words.VOCAB_FILE,
    max_seq_length=LENGTH,
    dupe_factor=2,
    mask=False,
    no_nsp=True,
  )
  path = str(folder / "plain.tfrecord")
  pretraining_shards.create(config, [str(folder / "text")], path)
  model = ModelFolder.open(
    None,
    bert_config_file=str(folder / "config.json"),
    vocab_file=cycling_words.VOCAB_FILE,
  )
  form = pretraining_records.RecordFormat.read(path)
  files = input_pipeline.open_records(path)
  return model, pretraining_records.PretrainingRecords(files, form)


@pytest.mark.parametrize("name", ["mask_prob", "keep_prob", "random_prob"])
def test_masked_pieces_are_replaced_with_the_configured_probabilities(
  records, tmp_path, name
):
  model, plain = records
  probabilities = dict.fromkeys(("mask_prob", "keep_prob", "random_prob"), 0.0)
  config = pretrainings.make(tmp_path, **{**probabilities, name: 1.0})
  masked = pretraining.mask(config, model, plain)
  batches = input_pipeline.finite_dataset(
    plain.files, plain.record_format.spec(), 64, 500
  )
  batch = next(masked.label(batches, 64).as_numpy_iterator())
  is_label = batch["masked_lm_weights"] > 0
  pieces = np.take_along_axis(
    batch["input_ids"], batch["masked_lm_positions"], axis=1
  )[is_label]
  labels = batch["masked_lm_ids"][is_label]
  assert len(labels) > 64
  is_mask, is_same = float(name == "mask_prob"), float(name == "keep_prob")
  assert (pieces == MASK_ID).mean() == pytest.approx(is_mask, abs=0.1)
  assert (pieces == labels).mean() == pytest.approx(is_same, abs=0.1)
