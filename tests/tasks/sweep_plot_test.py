"""The picture of a sweep."""

import math
import os

import pytest
import tensorflow as tf

from bert_tf.tasks import sweep_plot, sweeps
from bert_tf.training import divergence, progress
from tests.support import drawn, own_classification

panels = drawn.panels
pytest.importorskip("matplotlib", reason="pip install 'bert_tf[plots]'")


def run(config):
  """Returns a score by a formula and writes a loss that is the seed's."""
  folder = config.train.output_dir
  os.makedirs(folder)
  if config.train.learning_rate == 1.0:
    raise divergence.DivergedError("the loss became nan.")
  writer = tf.summary.create_file_writer(folder)
  for step in (10, 20):
    progress.write_events(writer, step, {"loss": config.train.seed / step})
  writer.close()
  seed, size = config.train.seed, config.train.train_batch_size
  return {"macro_f1": size / 16 + seed / 8, "eval_loss": 1.0}


@pytest.fixture
def sweep(tmp_path):
  grid = "learning_rate=0.5,1;train_batch_size=4,8"
  config = own_classification.make_training_config(tmp_path / "sweep")
  sweeps.run(config, run, ("macro_f1", "eval_loss"), grid, 2)
  return str(tmp_path / "sweep")


def test_cells_have_their_runs_and_losses(sweep, tmp_path, panels):
  sweep_plot.plot(sweep, str(tmp_path / "sweep.png"))
  results, losses = panels
  labels = [text.get_text() for text in results.get_yticklabels()]
  assert labels[:2] == ["batch 8, rate 0.5", "batch 4, rate 0.5"]
  # Seeds 7 and 8. The runs with a rate of 1 failed.
  texts = [text.get_text() for text in results.texts]
  assert texts == ["1.438", "1.188", "failed", "failed"]
  lines = [list(map(float, line.get_xdata())) for line in results.get_lines()]
  assert lines[:2] == [[1.4375], [1.375, 1.5]]
  spread = math.sqrt(0.125**2 / 2)
  bar = results.collections[0].get_segments()[0][:, 0]
  assert list(bar) == pytest.approx([1.4375 - spread, 1.4375 + spread])
  # Means of 7/10 and 8/10, and of 7/20 and 8/20, with a band over them.
  assert drawn.line(losses, 0) == [[10, 20], pytest.approx([0.75, 0.375])]
  box = losses.collections[0].get_datalim(losses.transData)
  assert (box.y0, box.y1) == pytest.approx((0.35, 0.8))
  assert [t.get_text() for t in losses.get_legend().texts] == labels[:2]


def test_a_folder_without_a_sweep_is_refused(tmp_path):
  with pytest.raises(ValueError, match="sweep_results.tsv") as error:
    sweep_plot.plot(str(tmp_path), "sweep.png")
  assert str(tmp_path) in str(error.value)


def test_runs_of_one_setting_are_one_row(tmp_path, panels):
  config = own_classification.make_training_config(tmp_path / "sweep")
  sweeps.run(config, run, ("macro_f1", "eval_loss"), None, 2)
  sweep_plot.plot(str(tmp_path / "sweep"), str(tmp_path / "sweep.svg"))
  assert [t.get_text() for t in panels[0].get_yticklabels()] == ["all runs"]
