"""A run beside a reference curve."""

import json

import pytest
import tensorflow as tf

from bert_tf.cli import compare_curve
from bert_tf.plots import reference_curves


@pytest.fixture
def references(tmp_path):
  """Curves of two sizes; the loss goes from 9 over 8 to 10 down to 4."""
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
  """Writes what a pre-training leaves of its curve."""
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
    # An evaluation afterwards, which leaves the batch of training out.
    {"do_train": False, "train_batch_size": 32, **shared},
  ]
  lines = [json.dumps({"settings": settings}) for settings in commands]
  (folder / "commands.jsonl").write_text("\n".join(lines) + "\n")
  return str(folder)


def test_a_reference_is_read_as_it_was_written(references):
  narrow, wide = reference_curves.read_all(references)
  assert (narrow.name, wide.name) == ("narrow", "wide")
  assert narrow.seeds == [1, 2, 3]
  assert narrow.settings["hidden_size"] == 128
  band = narrow.bands["training", "masked_lm_loss"]
  assert list(band.steps) == [1, 10, 100]
  assert list(band.word_pieces) == [100, 1000, 10000]
  assert (band.low[1], band.mean[1], band.high[1]) == (8, 9, 10)


def test_the_nearest_size_is_chosen_by_ratio(references):
  known = reference_curves.read_all(references)
  assert reference_curves.nearest(known, 4, 200).name == "narrow"
  # 128 * 512 < 300^2
  assert reference_curves.nearest(known, 4, 300).name == "wide"


def test_a_run_leaves_the_band_where_it_does(references, tmp_path):
  # In the band with its 5% at 1 and 10, above at 55 and 100; 200 has no band.
  losses = {1: 9.2, 10: 10.2, 55: 9.0, 100: 8.0, 200: 1.0}
  own = compare_curve.read_run(write_run(tmp_path / "run", losses))
  narrow, _ = reference_curves.read_all(references)
  (found,) = reference_curves.leavings(own, narrow, "step")
  assert (found.name, found.side) == ("masked_lm_loss", "above")
  assert (found.start, found.end, found.value) == (55, 100, 8.0)
  # At 100 all seeds have 4.
  assert (found.low, found.high) == (pytest.approx(3.8), pytest.approx(4.2))
  text = reference_curves.describe(found, "step")
  assert text == (
    "masked-LM loss is above the band from 55 to 100 steps: 8 where the band "
    "is 3.8 to 4.2"
  )


def test_a_run_within_the_band_is_not_said_to_leave_it(references, tmp_path):
  own = compare_curve.read_run(
    write_run(tmp_path / "run", {1: 9.0, 10: 8.1, 100: 4.1})
  )
  narrow, _ = reference_curves.read_all(references)
  assert not list(reference_curves.leavings(own, narrow, "step"))


def test_word_pieces_are_steps_times_batch_times_length(references, tmp_path):
  own = compare_curve.read_run(write_run(tmp_path / "run", {1: 20.0, 4: 20.0}))
  narrow, _ = reference_curves.read_all(references)
  (found,) = reference_curves.leavings(own, narrow, "word_pieces")
  assert (found.start, found.end) == (2048, 8192)
  assert "with padding" in reference_curves.describe(found, "word_pieces")


def test_settings_that_differ_are_named(references, tmp_path):
  own = compare_curve.read_run(write_run(tmp_path / "run", {1: 9.0}, width=256))
  narrow, _ = reference_curves.read_all(references)
  lines = list(reference_curves.differences(own, narrow))
  assert "hidden_size: 256 here, 128 there" in lines
  assert "no_nsp: True here, False there" in lines
  assert not [line for line in lines if line.startswith("vocab_size")]


def test_another_folder_is_refused(tmp_path):
  with pytest.raises(ValueError, match="pre-training"):
    compare_curve.read_run(str(tmp_path))
  # The advice helps.
  run = write_run(tmp_path / "run", {1: 9.0})
  assert compare_curve.read_run(run).curves


def test_a_file_that_is_no_reference_is_named(tmp_path):
  (tmp_path / "a.csv").write_text("x\ny\nz\n")
  with pytest.raises(ValueError, match="a.csv is no file of reference curves"):
    reference_curves.read_all(str(tmp_path))


def test_the_picture_is_drawn(references, tmp_path):
  own = compare_curve.read_run(write_run(tmp_path / "run", {1: 9.0, 100: 5.0}))
  narrow, _ = reference_curves.read_all(references)
  path = tmp_path / "compared.svg"
  reference_curves.draw(str(path), own, narrow, "step", "my run")
  assert path.stat().st_size > 1000
