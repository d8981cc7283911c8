"""The settings of dynamic masking in pre-training."""

import json

import pytest
import tensorflow as tf

from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.data import input_pipeline
from bert_tf.data.config import PretrainingDataConfig
from bert_tf.data.pretraining import (
  masking,
  pretraining_records,
  pretraining_shards,
)
from bert_tf.tasks.pretraining import pretraining, pretraining_config
from bert_tf.training import config as training_config
from tests.support import cycling_words, runs

LENGTH = 16
CONFIG = {
  **runs.CONFIG,
  "hidden_dropout_prob": 0.0,
  "attention_probs_dropout_prob": 0.0,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  """Records, unmasked and masked, and a config."""
  folder = tmp_path_factory.mktemp("data")
  (folder / "text").write_text(cycling_words.text())
  (folder / "config.json").write_text(json.dumps(CONFIG))
  for name, mask in (("plain", False), ("masked", True)):
    config = PretrainingDataConfig(
      vocab_file=cycling_words.VOCAB_FILE,
      max_seq_length=LENGTH,
      dupe_factor=2,
      mask=mask,
      no_nsp=True,
      masking_config=masking.MaskingConfig(max_predictions_per_seq=4),
    )
    output = str(folder / f"{name}.tfrecord")
    pretraining_shards.create(config, [str(folder / "text")], output)
  return folder


def settings(data, output_dir, records="plain", train=None, **changes):
  train = {
    "train_batch_size": 16,
    "learning_rate": 5e-3,
    "num_train_steps": 120,
    "num_warmup_steps": 10,
    "use_xla": False,
    "log_every_steps": 40,
    **(train or {}),
  }
  defaults = {
    "bert_config_file": str(data / "config.json"),
    "input_file": str(data / f"{records}.tfrecord"),
    "max_seq_length": LENGTH,
    "max_predictions_per_seq": 4,
    "do_train": True,
    "no_nsp": True,
    "vocab_file": cycling_words.VOCAB_FILE,
  }
  return pretraining_config.PretrainingConfig(
    train=training_config.PretrainingTrainConfig(
      output_dir=str(output_dir), **train
    ),
    **{**defaults, **changes},
  )


def test_masked_pieces_are_replaced_with_the_configured_probabilities(
  data, tmp_path
):
  mask_id = 4
  splits = {
    "mask": {"mask_prob": 1.0, "keep_prob": 0.0, "random_prob": 0.0},
    "same": {"mask_prob": 0.0, "keep_prob": 1.0, "random_prob": 0.0},
    "random": {"mask_prob": 0.0, "keep_prob": 0.0, "random_prob": 1.0},
  }
  files = input_pipeline.open_records(str(data / "plain.tfrecord"))
  form = pretraining_records.RecordFormat.read(files.paths[0])
  records = pretraining_records.PretrainingRecords(files, form)
  for name, split in splits.items():
    config = settings(data, tmp_path, **split)
    model = ModelFolder.open(
      None,
      bert_config_file=config.bert_config_file,
      vocab_file=config.vocab_file,
    )
    labelled_records = pretraining.mask(config, model, records)
    batch = next(iter(labelled_records.evaluation_dataset(64, 500, 2)))
    is_label = batch["masked_lm_weights"].numpy() > 0
    pieces, labels = (
      values.numpy()[is_label]
      for values in (
        tf.gather(
          batch["input_ids"], batch["masked_lm_positions"], batch_dims=1
        ),
        batch["masked_lm_ids"],
      )
    )
    assert len(labels) > 64
    assert (pieces == mask_id).mean() == pytest.approx(
      float(name == "mask"), abs=0.1
    )
    assert (pieces == labels).mean() == pytest.approx(
      float(name == "same"), abs=0.1
    )
