"""Tests for comparing a run with a reference curve."""

import json

import pytest
import tensorflow as tf

from research.curves import command, reference_curves


@pytest.fixture
def references(tmp_path):
  """References of two sizes: loss 9 at step 1, 8 to 10 at 10, 4 at 100."""
  folder = tmp_path / "curves"
  for name, width in (("narrow", 128), ("wide", 512)):
    band = reference_curves.Band(
      steps=[1, 10, 100],
      word_pieces=[100, 1000, 10000],
      mean=[9.0, 9.0, 4.0],
      low=[9.0, 8.0, 4.0],
      high=[9.0, 10.0, 4.0],
    )
    sizes = {"num_hidden_layers": 4, "hidden_size": width}
    reference = reference_curves.Reference(
      name=name,
      settings={**sizes, "vocab_size": 5000},
      seeds=[1, 2, 3],
      bands={("training", "masked_lm_loss"): band},
    )
    reference_curves.write(str(folder), reference)
  return str(folder)


def write_run(folder, losses, width=128):
  """Writes the files of a pre-training run with these losses by step."""
  folder.mkdir()
  writer = tf.summary.create_file_writer(str(folder))
  with writer.as_default():
    for step, loss in losses.items():
      tf.summary.scalar("masked_lm_loss", loss, step)
  writer.close()
  sizes = {"num_hidden_layers": 4, "hidden_size": width, "vocab_size": 5000}
  (folder / "bert_config.json").write_text(json.dumps(sizes))
  info = {"task": "pretraining", "bert_tf_version": "0.1.0"}
  (folder / "run.json").write_text(json.dumps(info))
  shared = {"max_seq_length": 128, "no_nsp": True}
  commands = [
    {"do_train": True, "train_batch_size": 16, **shared},
    # A later evaluation has another batch size.
    {"do_train": False, "train_batch_size": 32, **shared},
  ]
  lines = [json.dumps({"settings": settings}) for settings in commands]
  (folder / "commands.jsonl").write_text("\n".join(lines) + "\n")
  return str(folder)


def test_a_run_outside_the_band_is_described(references, tmp_path):
  # Within 5% of the band at 1 and 10, above at 55 and 100; no band at 200.
  losses = {1: 9.2, 10: 10.2, 55: 9.0, 100: 8.0, 200: 1.0}
  run = command.read_run(write_run(tmp_path / "run", losses))
  narrow, _ = reference_curves.read_all(references)
  (stretch,) = reference_curves.find_deviations(run, narrow)
  assert (stretch.name, stretch.side) == ("masked_lm_loss", "above")
  assert (stretch.start, stretch.end, stretch.value) == (55, 100, 8.0)
  # At 100 all seeds have 4.
  assert (stretch.low, stretch.high) == pytest.approx((3.8, 4.2))
  text = reference_curves.describe(stretch)
  assert text.startswith(
    "masked-LM loss is above the band from 55 to 100 steps"
  )
  assert ": 8," in text and "3.8 to 4.2" in text
