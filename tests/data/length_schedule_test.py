"""Training on short inputs, then on long ones."""

import json

import numpy as np
import pytest

from bert_tf import checkpoints
from bert_tf.data import input_pipeline, length_schedule, records
from bert_tf.tasks import pretraining, pretraining_config
from bert_tf.training import config as training_config
from tests.support import scale_run

CONFIG = {**scale_run.CONFIG, "max_position_embeddings": 32}
VOCAB_SIZE = CONFIG["vocab_size"]


def write_records(path, length, num_predictions, num_records, first_id):
  """Writes records with distinct first word pieces."""
  rng = np.random.default_rng(length)
  with records.open_records([str(path)]) as writer:
    for i in range(num_records):
      ids = rng.integers(5, VOCAB_SIZE, length)
      ids[0] = first_id + i
      ints = {
        "input_ids": ids,
        "input_mask": np.ones(length, int),
        "segment_ids": np.zeros(length, int),
        "masked_lm_positions": np.arange(num_predictions),
        "masked_lm_ids": rng.integers(5, VOCAB_SIZE, num_predictions),
        "next_sentence_labels": [0],
      }
      floats = {"masked_lm_weights": [1.0] * num_predictions}
      encoded = records.encode_features(ints, floats)
      writer.write(records.encode_example(encoded))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  """A folder with records of lengths 8 and 32, and a config."""
  folder = tmp_path_factory.mktemp("data")
  write_records(folder / "short-0.tfrecord", 8, 2, 20, 5)
  write_records(folder / "short-1.tfrecord", 8, 2, 12, 25)
  write_records(folder / "long.tfrecord", 32, 5, 16, 40)
  (folder / "config.json").write_text(json.dumps(CONFIG))
  return folder


def phases(data, schedule="8:0.75,32:0.25", num_train_steps=8):
  files = input_pipeline.open_records(f"{data}/*.tfrecord")
  return length_schedule.phases(schedule, num_train_steps, files)


def test_shares_become_steps():
  assert length_schedule.parse("128:0.9,512:0.1", 1000) == {128: 900, 512: 100}
  # Rounded steps still add up.
  steps = length_schedule.parse("8:0.3,16:0.3,32:0.4", 5)
  assert list(steps) == [8, 16, 32] and sum(steps.values()) == 5


@pytest.mark.parametrize(
  ("schedule", "message"),
  [
    ("128", "schedule '128'"),
    ("128:0.9:1", "schedule '128:0.9:1'"),
    ("128:0.9,512:0.2", "schedule '128:0.9,512:0.2'"),
    ("128:0.5,128:0.5", "schedule '128:0.5,128:0.5'"),
    ("128:0.99,512:0.01", "512 0 of 10 steps"),
  ],
)
def test_an_invalid_schedule_is_refused(schedule, message):
  with pytest.raises(ValueError) as error:
    length_schedule.parse(schedule, 10)
  assert message in str(error.value)


@pytest.mark.parametrize("steps_done", [4, 6, 7])
def test_any_step_is_reached_directly(data, steps_done):
  def batches(steps_done):
    dataset = length_schedule.training_dataset(
      phases(data), 4, 7, steps_done, VOCAB_SIZE, 2
    )
    return [batch["input_ids"].numpy() for batch in dataset]

  all_batches, resumed = batches(0), batches(steps_done)
  assert [batch.shape for batch in all_batches] == [(4, 8)] * 6 + [(4, 32)] * 2
  assert len(resumed) == 8 - steps_done
  for batch, expected in zip(resumed, all_batches[steps_done:]):
    np.testing.assert_array_equal(batch, expected)


def config(data, output_dir, num_train_steps=8, **train):
  return pretraining_config.PretrainingConfig(
    bert_config_file=str(data / "config.json"),
    input_file=f"{data}/*.tfrecord",
    do_train=True,
    do_eval=True,
    max_eval_steps=2,
    schedule="8:0.75,32:0.25",
    train=training_config.PretrainingTrainConfig(
      output_dir=str(output_dir),
      train_batch_size=4,
      learning_rate=1e-3,
      num_train_steps=num_train_steps,
      num_warmup_steps=2,
      save_checkpoints_steps=4,
      use_xla=False,
      **train,
    ),
  )


def test_a_run_trains_on_both_lengths_and_resumes(data, tmp_path):
  pretraining.run(config(data, tmp_path / "whole"))
  results = (tmp_path / "whole" / "eval_results.txt").read_text()
  assert "global_step = 8" in results
  # Back to step 4, in the phase of short records.
  (tmp_path / "again").mkdir()
  for path in (tmp_path / "whole").glob("model.ckpt-4.*"):
    (tmp_path / "again" / path.name).write_bytes(path.read_bytes())
  (tmp_path / "again" / "checkpoint").write_text(
    'model_checkpoint_path: "model.ckpt-4"\n'
    'all_model_checkpoint_paths: "model.ckpt-4"\n'
  )
  pretraining.run(config(data, tmp_path / "again"))
  first, again = (
    checkpoints.CheckpointReader(str(tmp_path / name / "model.ckpt-8"))
    for name in ("whole", "again")
  )
  assert first.shapes == again.shapes
  for name in first.shapes:
    np.testing.assert_array_equal(first.get(name), again.get(name))
  # Positions beyond 8 are trained only in the last two steps.
  name = "bert/embeddings/position_embeddings"
  early = checkpoints.CheckpointReader(str(tmp_path / "whole" / "model.ckpt-4"))
  moved = np.abs(first.get(name) - early.get(name)).max(axis=1)
  assert moved[:8].min() > 1.5 * moved[8:].max() > 0
