"""A small pre-training run to kill, with dropout and many saves."""

import json
import pathlib
import random

import tensorflow as tf
from absl import logging

from bert_tf.tasks.pretraining import pretraining, pretraining_config
from bert_tf.training import config as training_config
from tests.chaos import trainer
from tests.support import runs

NUM_STEPS = 30
SAVE_STEPS = 3
_LENGTH, _NUM_MASKS = 16, 3


def prepare(folder: pathlib.Path) -> None:
  """Writes the records and bert_config.json that all runs in a folder share."""
  (folder / "bert_config.json").write_text(json.dumps(runs.CONFIG))
  with tf.io.TFRecordWriter(str(folder / "data.tfrecord")) as writer:
    for record in records():
      writer.write(record)


def records() -> list[bytes]:
  """Returns 40 random pre-training records, serialized."""
  rng = random.Random(1)
  return [_record(rng, index) for index in range(40)]


def _record(rng: random.Random, index: int) -> bytes:
  integers = {
    "input_ids": rng.choices(range(5, 500), k=_LENGTH),
    "input_mask": [1] * _LENGTH,
    "segment_ids": [0] * 8 + [1] * (_LENGTH - 8),
    "masked_lm_positions": sorted(rng.sample(range(_LENGTH), _NUM_MASKS)),
    "masked_lm_ids": rng.choices(range(5, 500), k=_NUM_MASKS),
    "next_sentence_labels": [index % 2],
  }
  features = {
    name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    for name, values in integers.items()
  }
  weights = tf.train.FloatList(value=[1.0] * _NUM_MASKS)
  features["masked_lm_weights"] = tf.train.Feature(float_list=weights)
  example = tf.train.Example(features=tf.train.Features(feature=features))
  return example.SerializeToString()


def make_config(output_dir: str) -> pretraining_config.PretrainingConfig:
  """Returns the settings of a run in a folder beside the records."""
  folder = pathlib.Path(output_dir).parent
  return pretraining_config.PretrainingConfig(
    bert_config_file=str(folder / "bert_config.json"),
    input_file=str(folder / "data.tfrecord"),
    max_seq_length=_LENGTH,
    max_predictions_per_seq=_NUM_MASKS,
    do_train=True,
    train=training_config.PretrainingTrainConfig(
      output_dir=output_dir,
      train_batch_size=4,
      learning_rate=1e-3,
      num_train_steps=NUM_STEPS,
      num_warmup_steps=5,
      save_checkpoints_steps=SAVE_STEPS,
      keep_checkpoint_max=2,
      use_xla=False,
    ),
  )


def train(output_dir: str, operations: trainer.Operations) -> None:
  """Trains to the end, from the newest checkpoint if there is one."""
  logging.set_verbosity(logging.INFO)
  trainer.count_saves(operations)
  pretraining.run(make_config(output_dir))
