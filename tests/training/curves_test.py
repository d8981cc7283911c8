"""Learning curves: their panels and names."""

import pytest
import tensorflow as tf

from bert_tf.training import curves, objective, progress
from tests.support import drawn

pytest.importorskip("matplotlib", reason="pip install 'bert_tf[plots]'")

panels = drawn.panels


def write_events(folder, rows):
  writer = tf.summary.create_file_writer(str(folder))
  for step, values in rows.items():
    progress.write_events(writer, step, values)
  writer.close()


def titles(panels):
  return [axis.get_title(loc="left") for axis in panels]


def names(axis):
  legend = axis.get_legend()
  return [text.get_text() for text in legend.texts] if legend else []


def pretraining(step):
  return {
    "loss": 3.0,
    "masked_lm_loss": 2.0,
    "masked_lm_accuracy": step / 100,
    "learning_rate": 0.25,
    "gradient_norm": 1.0,
    "examples_per_second": 9.0,
  }


def test_pretraining_has_losses_accuracies_and_the_rate(tmp_path, panels):
  write_events(tmp_path, {50: pretraining(50), 100: pretraining(100)})
  write_events(
    tmp_path / "eval", {100: {"masked_lm_loss": 4.0, "masked_lm_accuracy": 0.5}}
  )
  curves.plot(str(tmp_path), str(tmp_path / "curves.svg"))
  assert titles(panels) == ["loss", "accuracy", "learning rate"]
  assert names(panels[0]) == ["masked lm"]  # The total would hide behind it.
  more = {**pretraining(50), "next_sentence_loss": 1.0}
  assert objective.select_shown(more) == more
  units = [axis.get_ylabel().split(",")[0] for axis in panels]
  assert units == ["nats", "fraction correct", ""]
  assert names(panels[1]) == ["masked lm"]
  assert drawn.line(panels[1], 0) == [[50, 100], [0.5, 1.0]]
  assert drawn.line(panels[1], 1) == [[100], [0.5]]
  assert "\N{WHITE CIRCLE} held out" in panels[0].get_xlabel()
  assert panels[2].get_xlabel() == "step"
  assert all(axis.get_xlim()[0] == 0 for axis in panels)


def test_scores_have_a_panel_but_not_those_of_each_kind(tmp_path, panels):
  write_events(tmp_path, {10: {"loss": 3.0}})
  scores = {"f1": 0.5, "recall": 0.25, "LOC_f1": 0.1, "HasAns_exact": 0.2}
  write_events(tmp_path / "eval", {10: {**scores, "global_step": 10}})
  curves.plot(str(tmp_path), str(tmp_path / "curves.png"), 600)
  assert titles(panels) == ["loss", "scores"]
  assert sorted(names(panels[1])) == ["f1", "recall"]


def test_curves_of_a_resumed_run_are_in_the_order_of_steps(tmp_path):
  write_events(tmp_path, {90: {"loss": 2.0}, 96: {"loss": 1.0}})
  write_events(tmp_path, {93: {"loss": 3.0}})  # Resumed at step 90.
  assert curves.read(str(tmp_path))["loss"] == {90: 2.0, 93: 3.0, 96: 1.0}
  assert list(curves.read(str(tmp_path))["loss"]) == [90, 93, 96]


def test_a_folder_without_events_is_refused(tmp_path):
  with pytest.raises(ValueError, match="holds no events of a training run"):
    curves.plot(str(tmp_path / "none"), "curves.png")
