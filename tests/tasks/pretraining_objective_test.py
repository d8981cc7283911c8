"""Causal pre-training, and fine-tuning and serving of causal models."""

import dataclasses
import json
import math
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import checkpoints
from bert_tf.data import config as data_config
from bert_tf.data import (
  input_pipeline,
  masking,
  pretraining_records,
  pretraining_shards,
)
from bert_tf.export import config as export_config
from bert_tf.inference import classifier, fill_mask, predictor
from bert_tf.model_folder import run_info
from bert_tf.tasks import (
  pretraining,
  pretraining_config,
  pretraining_objective,
)
from bert_tf.training import config as training_config
from bert_tf.training import curves
from tests.support import cycling_words, runs

LENGTH = 16
CONFIG = {
  **runs.CONFIG,
  "hidden_dropout_prob": 0.0,
  "attention_probs_dropout_prob": 0.0,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  """Records, packed, padded and masked, and a config."""
  folder = tmp_path_factory.mktemp("data")
  (folder / "text").write_text(cycling_words.text())
  (folder / "config.json").write_text(json.dumps(CONFIG))
  for name, mask, pack_sequences in (
    ("plain", False, False),
    ("packed", False, True),
    ("masked", True, False),
  ):
    config = data_config.PretrainingDataConfig(
      vocab_file=cycling_words.VOCAB_FILE,
      max_seq_length=LENGTH,
      dupe_factor=2,
      mask=mask,
      no_nsp=True,
      pack_sequences=pack_sequences,
      short_seq_prob=0.5,
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


@pytest.fixture(scope="module", params=["ltr", "rtl"])
def trained(request, data):
  """Objective, folder and results of a run on packed records."""
  folder = data / request.param
  config = settings(
    data, folder, "packed", objective=request.param, do_eval=True
  )
  return request.param, folder, pretraining.run(config)


def test_a_language_model_predicts_the_next_piece(trained):
  objective, folder, results = trained
  losses = curves.read(str(folder))["masked_lm_loss"]
  assert losses[120] < 0.5 * losses[min(losses)]
  # Every piece except an instance's first, and its end, is predictable.
  assert results["masked_lm_accuracy"] > 0.6
  assert results["perplexity"] == pytest.approx(
    math.exp(results["masked_lm_loss"])
  )
  config = json.loads((folder / "bert_config.json").read_text())
  directions = {"ltr": "left_to_right", "rtl": "right_to_left"}
  assert config["attention_direction"] == directions[objective]
  assert run_info.read_run(str(folder)).objective == objective


def test_packed_and_padded_records_have_the_same_results(data, trained):
  objective, folder, _ = trained
  results = [
    pretraining.run(
      settings(
        data,
        folder,
        records,
        do_train=False,
        do_eval=True,
        eval_batch_size=1,
        max_eval_steps=sum(
          1 for _ in tf.data.TFRecordDataset(str(data / f"{records}.tfrecord"))
        ),
      )
    )
    for records in ("plain", "packed")
  ]
  # The same instances, in another order.
  for name in ("masked_lm_loss", "masked_lm_accuracy"):
    assert results[0][name] == pytest.approx(results[1][name], abs=1e-5), name


def test_a_resumed_run_reads_its_objective_from_run_json(data, tmp_path):
  uninterrupted, resumed = tmp_path / "whole", tmp_path / "halved"
  steps = {"save_checkpoints_steps": 5, "num_warmup_steps": 0}
  pretraining.run(
    settings(
      data,
      uninterrupted,
      objective="ltr",
      group_by_length=True,
      train={**steps, "num_train_steps": 10},
    )
  )
  shutil.copytree(uninterrupted, resumed)
  for path in resumed.glob("model.ckpt-10.*"):
    path.unlink()
  (resumed / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"\n')
  config = settings(
    data, resumed, group_by_length=True, train={**steps, "num_train_steps": 10}
  )
  pretraining.run(config)  # run.json says the objective.
  uninterrupted_reader, resumed_reader = (
    checkpoints.CheckpointReader(str(folder / "model.ckpt-10"))
    for folder in (uninterrupted, resumed)
  )
  for name in uninterrupted_reader.shapes:
    np.testing.assert_array_equal(
      uninterrupted_reader.get(name), resumed_reader.get(name)
    )
  with pytest.raises(
    ValueError, match="objective 'mlm' contradicts .*run.json"
  ):
    pretraining.run(dataclasses.replace(config, objective="mlm"))


def test_a_causal_model_refuses_to_fill_masks(trained):
  _, folder, _ = trained
  with pytest.raises(ValueError, match="cannot predict"):
    fill_mask.MaskFiller(init_checkpoint=str(folder)).predict("the [MASK]")


def test_a_causal_model_is_fine_tuned_and_predicts_from_its_folder(
  trained, tmp_path
):
  objective, folder, _ = trained
  words = cycling_words.WORDS
  texts = [f"{a} {b} the" for a in words[:8] for b in words[:8] if a != b]
  labels = ["up" if words.index(t.split()[0]) < 4 else "down" for t in texts]
  model = classifier.Classifier(
    output_dir=str(tmp_path / "run"),
    init_checkpoint=str(folder),
    max_seq_length=LENGTH,
  )
  results = model.fit(
    texts,
    labels,
    validation_data=(texts, labels),
    num_train_epochs=40,
    learning_rate=1e-2,
    train_batch_size=16,
    use_xla=False,
  )
  # The label depends on the first word, which a left-to-right model must
  # carry to the last position.
  assert results["eval_accuracy"] > 0.9
  config = json.loads((tmp_path / "run" / "bert_config.json").read_text())
  assert config["attention_direction"].startswith(
    {"ltr": "left", "rtl": "right"}[objective]
  )
  again = predictor.Predictor(
    export_config.ModelConfig(init_checkpoint=str(tmp_path / "run"))
  )
  answers = again.predict([{"text": t} for t in texts])
  hits = [a["label"] == b for a, b in zip(answers, labels)]
  assert np.mean(hits) == pytest.approx(results["eval_accuracy"])


def write_config(data, direction):
  path = data / f"{direction}.json"
  path.write_text(json.dumps({**CONFIG, "attention_direction": direction}))
  return {"bert_config_file": str(path)}


MISTAKES = {
  "masked records": (
    {"records": "masked", "objective": "ltr"},
    "masked.tfrecord holds masked records, but `objective=ltr` predicts every",
  ),
  "another direction": (
    lambda data: {**write_config(data, "left_to_right"), "objective": "rtl"},
    "objective 'rtl' needs attention_direction 'right_to_left', but ",
  ),
  "the direction is named": (
    lambda data: {**write_config(data, "both"), "objective": "ltr"},
    "both.json has 'both'",
  ),
  "no such direction": (
    lambda data: write_config(data, "up"),
    "attention_direction is 'up'",
  ),
  "no such objective": ({"objective": "clm"}, "use mlm, ltr, rtl"),
  "a setting of masking": (
    {"objective": "ltr", "mask_prob": 1.0},
    "leave `mask_prob` out",
  ),
  "split of masked records": (
    {"records": "masked", "keep_prob": 0.0},
    "keep_prob is for unmasked records",
  ),
  "probabilities above 1 in sum": (
    {"mask_prob": 1.0},
    "mask_prob, keep_prob and random_prob must be shares that sum to 1",
  ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_in_one_line(data, mistake, tmp_path):
  changes, expected = MISTAKES[mistake]
  changes = changes(data) if callable(changes) else changes
  with pytest.raises(ValueError) as error:
    pretraining.run(settings(data, tmp_path / "run", **changes))
  assert expected in str(error.value) and "\n" not in str(error.value)
  assert not (tmp_path / "run").exists()


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
    config = settings(data, tmp_path, objective="mlm", **split)
    labelled_records = pretraining_objective.labelled(config, records, 500)
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


def test_the_config_may_declare_the_direction(data, tmp_path):
  config = settings(
    data,
    tmp_path / "run",
    train={"num_train_steps": 1, "num_warmup_steps": 0},
    **write_config(data, "right_to_left"),
  )
  pretraining.run(config)
  assert run_info.read_run(str(tmp_path / "run")).objective == "rtl"
