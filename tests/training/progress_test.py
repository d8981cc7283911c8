"""Reports of the progress of a run."""

import sys

import pytest

from bert_tf.training import progress
from bert_tf.training.config import TrainConfig


@pytest.mark.parametrize(
  ("first_step", "num_train_steps", "most", "expected"),
  [(0, 22, 100, 1), (0, 5, 100, 1), (0, 1000, 100, 50), (0, 10**4, 100, 100)]
  + [(9960, 10**4, 100, 2)],
)
def test_a_short_run_has_twenty_reports(
  tmp_path, first_step, num_train_steps, most, expected
):
  config = TrainConfig(output_dir=str(tmp_path), log_every_steps=most)
  with progress.Progress(config, first_step, num_train_steps) as report:
    assert report.log_every_steps == expected


def test_on_a_terminal_there_is_a_bar(monkeypatch, capsys):
  monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
  assert list(progress.track([1, 2], "predicting", "batch")) == [1, 2]
  assert "predicting" in capsys.readouterr().err


def test_a_line_has_the_loss_once(tmp_path):
  config = TrainConfig(output_dir=str(tmp_path), log_every_steps=1)
  with progress.Progress(config, 0, 3) as report:
    lines = []
    report.say = lines.append
    report.add(1, {"loss": (3.0, 1.0), "example_loss": (6.0, 2.0)})
  assert lines == ["step 1/3: loss 3.0000"]
