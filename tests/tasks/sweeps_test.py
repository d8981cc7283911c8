"""Sweeps over grids and seeds run, compare and resume their runs."""

import csv
import dataclasses
import json
import os
import pathlib

import numpy as np
import pytest

from bert_tf import checkpoints
from bert_tf.tasks import config, sweeps
from bert_tf.tasks.classification import task as classification
from bert_tf.training import divergence
from tests.support import own_classification, runs
from tests.support.own_classification import make_training_config

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRID = "learning_rate=3e-3,1e-3;train_batch_size=4,8"


def read_rows(path):
  with open(path) as reader:
    return list(csv.DictReader(reader, delimiter="\t"))


METRICS = ("macro_f1", "eval_loss")


class RunRecorder(list):
  """Scores a run by a formula and records its config."""

  def __call__(self, config):
    self.append(config)
    rate, seed = config.train.learning_rate, config.train.seed
    score = 100 * rate + config.train.train_batch_size / 100 + seed / 10
    os.makedirs(config.train.output_dir, exist_ok=True)
    return {"macro_f1": score, "eval_loss": -score, "global_step": 5}


@pytest.fixture
def recorder():
  return RunRecorder()


def sweep(config, run_fn, grid, num_runs):
  sweeps.run(config, run_fn, METRICS, grid, num_runs)


def test_the_papers_grid_is_eighteen_cells():
  planned = sweeps.plan(config.PAPER_GRID, 1, 12345)
  assert len(planned) == 2 * 3 * 3
  assert planned[0].folder == "batch_16_rate_5e-05_epochs_2"
  assert planned[-1].settings == {
    "train_batch_size": 32,
    "learning_rate": 2e-5,
    "num_train_epochs": 4.0,
  }
  assert len({planned_run.folder for planned_run in planned}) == 18


def test_seeds_follow_one_another_inside_a_cell():
  assert [(r.folder, r.seed) for r in sweeps.plan(None, 3, 5)] == [
    ("run_0", 5),
    ("run_1", 6),
    ("run_2", 7),
  ]
  planned = sweeps.plan("num_train_epochs=2,0.5", 2, 5)
  assert [(r.folder, r.seed) for r in planned] == [
    ("epochs_2/run_0", 5),
    ("epochs_2/run_1", 6),
    ("epochs_0.5/run_0", 5),
    ("epochs_0.5/run_1", 6),
  ]


@pytest.mark.parametrize(
  "grid, expected",
  [
    ("rate=1", "'rate=1'"),
    ("learning_rate=1,x", "'1,x'"),
    ("train_batch_size=1.5", "'1.5'"),
    ("learning_rate=0", "learning_rate must be positive"),
    ("learning_rate=1,1.0", "learning_rate must be positive"),
    ("learning_rate=1;learning_rate=2", "'learning_rate=2'"),
  ],
)
def test_invalid_grids_are_refused(grid, expected):
  with pytest.raises(ValueError) as error:
    sweeps.parse_grid(grid)
  assert expected in str(error.value)


def test_every_cell_and_seed_is_run_and_compared(tmp_path, recorder):
  sweep(make_training_config(tmp_path), recorder, GRID, 2)
  assert len(recorder) == 8
  rows = read_rows(tmp_path / "sweep_results.tsv")
  # The formula: 100 rate + batch / 100 + seed / 10 with seeds 7 and 8.
  means = [float(row["macro_f1_mean"]) for row in rows]
  np.testing.assert_allclose(means, [1.13, 1.09, 0.93, 0.89])
  first = rows[0]
  assert (first["learning_rate"], first["train_batch_size"]) == ("0.003", "8")
  assert first["num_train_epochs"] == "3.0"
  assert float(first["macro_f1_std"]) == pytest.approx(np.std([0, 0.1], ddof=1))
  assert float(first["macro_f1_best"]) == pytest.approx(1.18)
  assert first["best_run"] == "rate_0.003_batch_8/run_1"
  run_rows = read_rows(tmp_path / "sweep_runs.tsv")
  assert [row["seed"] for row in run_rows] == ["7", "8"] * 4
  assert float(run_rows[0]["eval_loss"]) == pytest.approx(-1.04)
  # Metrics other than the best metric are averaged too.
  assert float(first["eval_loss_mean"]) == pytest.approx(-1.13)


def test_a_loss_is_sorted_from_the_lowest(tmp_path, recorder):
  sweep(
    make_training_config(tmp_path, best_metric="eval_loss"), recorder, GRID, 1
  )
  rows = read_rows(tmp_path / "sweep_results.tsv")
  values = [float(row["eval_loss_mean"]) for row in rows]
  assert values == sorted(values)
  assert {row["eval_loss_std"] for row in rows} == {"nan"}


def test_best_metric_needs_eval_every_steps(tmp_path, recorder):
  with pytest.raises(ValueError, match="best_metric .*`eval_every_steps`"):
    sweep(
      make_training_config(tmp_path, best_metric="eval_loss"), recorder, None, 1
    )
  assert not recorder
  watched = {"best_metric": "eval_loss", "eval_every_steps": 5}
  sweep(make_training_config(tmp_path, **watched), recorder, None, 1)
  assert len(recorder) == 1


def test_finished_runs_are_not_trained_again(tmp_path, recorder):
  sweep(make_training_config(tmp_path), recorder, None, 2)
  expected = (tmp_path / "sweep_results.tsv").read_text()
  sweep(make_training_config(tmp_path), recorder, None, 2)
  assert len(recorder) == 2
  assert (tmp_path / "sweep_results.tsv").read_text() == expected
  sweep(make_training_config(tmp_path), recorder, None, 3)
  assert [config.train.seed for config in recorder] == [7, 8, 9]
  other = dataclasses.replace(
    make_training_config(tmp_path), eval_batch_size=64
  )
  sweep(other, recorder, None, 3)
  assert len(recorder) == 6


@pytest.mark.parametrize(
  "change", [{"max_seq_length": 64}, {"num_train_epochs": 9.0}]
)
def test_a_finished_run_with_other_settings_is_refused(
  tmp_path, recorder, change
):
  sweep(make_training_config(tmp_path), recorder, None, 2)
  other = dataclasses.replace(make_training_config(tmp_path), **change)
  (name,) = change
  with pytest.raises(ValueError, match=f"other values of {name}; .*output_dir"):
    sweep(other, recorder, None, 2)
  rate = make_training_config(tmp_path, learning_rate=1.0)
  with pytest.raises(ValueError, match="other values of learning_rate"):
    sweep(rate, recorder, None, 2)
  assert len(recorder) == 2


def test_a_finished_run_may_predict_another_file_and_move():
  before = {"feature_dir": "ner", "test_file": "a.txt", "train": {}}
  now = {"feature_dir": "moved", "test_file": "b.txt", "train": {}}
  sweeps._check_trains_alike("ner", before, now)


def test_a_sweep_without_a_common_result_ends_at_the_first_run(tmp_path):
  configs = []

  def run(config):
    configs.append(config)
    return {"global_step": 5}

  message = "run_0 has no result macro_f1 to compare, it has global_step; give"
  with pytest.raises(ValueError, match=message):
    sweep(make_training_config(tmp_path), run, None, 2)
  assert len(configs) == 1


def test_a_sweep_whose_runs_all_diverge_is_an_error(tmp_path):
  def run(config):
    os.makedirs(config.train.output_dir)
    raise divergence.DivergedError("the loss became nan by step 3.")

  with pytest.raises(ValueError, match="all 2 runs diverged; lower"):
    sweep(make_training_config(tmp_path), run, None, 2)


def test_an_interrupted_run_ends_the_sweep_and_is_run_again(tmp_path, recorder):
  def interrupted(config):
    return None if config.train.seed == 8 else recorder(config)

  sweep(make_training_config(tmp_path), interrupted, None, 3)
  assert len(recorder) == 1
  sweep(make_training_config(tmp_path), recorder, None, 3)
  assert [config.train.seed for config in recorder] == [7, 8, 9]


def test_a_run_that_diverges_counts_as_failed_and_comes_last(
  tmp_path, recorder
):
  def run(config):
    if config.train.learning_rate == 3e-3:
      os.makedirs(config.train.output_dir)
      raise divergence.DivergedError("the loss became nan by step 3.")
    return recorder(config)

  with runs.logged() as lines:
    sweep(make_training_config(tmp_path), run, "learning_rate=3e-3,1e-3", 1)
  assert "nan by step 3. This run counts as failed." in lines()
  rows = read_rows(tmp_path / "sweep_results.tsv")
  assert [row["learning_rate"] for row in rows] == ["0.001", "0.003"]
  assert rows[1]["macro_f1_mean"] == "nan"


def test_a_sweep_without_evaluation_is_refused(tmp_path):
  config = dataclasses.replace(make_training_config(tmp_path), do_eval=False)
  with pytest.raises(ValueError, match="`do_train` and `do_eval`"):
    sweep(config, classification.run, None, 2)


base = own_classification.base


def test_a_run_of_a_sweep_equals_a_single_run_with_its_seed(base, tmp_path):
  config = own_classification.make(
    base,
    tmp_path / "out",
    do_train=True,
    do_eval=True,
    train={"seed": 3, "keep_checkpoint_max": 1},
  )
  sweep(config, classification.run, None, 2)
  alone = dataclasses.replace(
    config,
    train=dataclasses.replace(
      config.train, output_dir=str(tmp_path / "alone"), seed=4
    ),
  )
  results = classification.run(alone)
  written = json.loads((tmp_path / "out/run_1/sweep_run.json").read_text())
  assert written["results"] == results
  sweep_reader, alone_reader = (
    checkpoints.CheckpointReader(str(folder / "model.ckpt-5"))
    for folder in (tmp_path / "out" / "run_1", tmp_path / "alone")
  )
  for name in sweep_reader.shapes:
    np.testing.assert_array_equal(
      sweep_reader.get(name), alone_reader.get(name)
    )
  seed_3 = checkpoints.CheckpointReader(
    str(tmp_path / "out/run_0/model.ckpt-5")
  )
  assert not np.array_equal(
    seed_3.get("output_weights"), sweep_reader.get("output_weights")
  )


def test_grid_without_a_value_is_the_papers_and_mistakes_are_one_line(
  run_script, tmp_path
):
  flags = [
    "--task_name=mrpc",
    "--data_dir=none",
    f"--bert_config_file={ROOT}/tests/golden/tiny_classifier/bert_config.json",
    f"--vocab_file={ROOT}/tests/golden/tiny/vocab.txt",
    "--output_dir=out",
    "--do_train",
  ]
  result = run_script(
    "run_classifier.py", *flags, "--do_eval", "--grid", cwd=tmp_path
  )
  assert "Run 1 of 18: batch_16_rate_5e-05_epochs_2." in result.stderr
  result = run_script("run_classifier.py", *flags, "--grid=x=1", cwd=tmp_path)
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  assert "--do_train and --do_eval" in result.stderr.splitlines()[-1]
