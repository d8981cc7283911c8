"""Training for a time instead of a number of steps."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import checkpoint_names, checkpoints
from bert_tf.training import budget, curves
from tests.support import line_model
from tests.support.line_model import train_for_seconds


def test_the_learning_rate_follows_the_clock():
  schedule = budget.TimedWarmupLinearDecay(0.5, 100.0)
  rates = []
  for seconds in (0, 5, 10, 50, 75, 100, 130):
    schedule.set(7, float(seconds), 0.0, 0.0)
    rates.append(float(schedule(7)))
  np.testing.assert_allclose(
    rates, [0.0, 0.25, 0.45, 0.25, 0.125, 0.0, 0.0], atol=1e-7
  )
  # The warm-up begins when steps follow one another.
  schedule.set(0, 30.0, 1.0, 30.0)
  rates = [float(schedule(step)) for step in (0, 5, 9, 10, 20)]
  np.testing.assert_allclose(
    rates, [0.0, 0.25, 0.45, 0.3, 0.25], rtol=1e-5, atol=1e-7
  )
  schedule.set(7, 50.0, 5.0, 0.0)
  np.testing.assert_allclose(float(schedule(9)), 0.5 * 0.4, rtol=1e-6)


@pytest.mark.parametrize("arguments", [(0.1, 0.0), (0.1, 9.0, 1.0)])
def test_a_schedule_without_time_is_refused(arguments):
  with pytest.raises(ValueError, match="train_seconds|warmup_share"):
    budget.TimedWarmupLinearDecay(*arguments)


def test_steps_are_taken_as_long_as_they_fit(clock):
  schedule = budget.TimedWarmupLinearDecay(0.1, 10.0)
  run = budget.TimeBudget(schedule)
  run.begin(3)
  assert run.steps_left(3) == 1  # The seconds of a step are unknown.
  steps_left = []
  for step in range(4, 13):
    run.count(step, 2.5)
    steps_left.append(run.steps_left(step))
  # In 9, 8, 7, ... seconds. The first two steps include compilation.
  assert steps_left == [1, 1, 3, 2, 2, 2, 1, 1, 0]
  assert float(schedule.seconds_done) == 10.0
  assert run.num_steps == 8  # 7 seconds were left at step 6.


def test_the_warm_up_begins_after_compilation(monkeypatch):
  # The first step takes half a minute, the others one second.
  readings = iter([0, 30, 31, *range(32, 99)])
  monkeypatch.setattr(budget, "_now", readings.__next__)
  schedule = budget.TimedWarmupLinearDecay(1.0, 100.0)
  run = budget.TimeBudget(schedule)
  run.begin(0)
  rates = []
  for step in range(15):
    rates.append(float(schedule(step)))
    run.count(step + 1, 30.0 if step == 0 else 1.0)
  np.testing.assert_allclose(rates[:4], [0.0, 0.0, 0.0, 0.1], atol=1e-6)
  assert max(np.diff(rates)) < 0.11


def test_a_compilation_of_most_of_the_time_does_not_end_the_run(monkeypatch):
  monkeypatch.setattr(budget, "_now", iter([0, 45, 46, 47]).__next__)
  run = budget.TimeBudget(budget.TimedWarmupLinearDecay(1.0, 60.0))
  run.begin(0)
  run.count(1, 45.0)
  assert run.steps_left(1) == 1
  run.count(2, 1.0)
  run.count(3, 1.0)
  assert run.steps_left(3) == 13


def test_a_run_ends_with_its_time_and_the_rate_at_zero(tmp_path, clock):
  step = train_for_seconds(tmp_path)
  assert 35 <= step <= 40
  rates = curves.read(str(tmp_path))["learning_rate"]
  assert max(rates) == step
  assert rates[1] == rates[2] == 0.0 and rates[step] < 0.05 * max(
    rates.values()
  )
  reader = checkpoints.CheckpointReader(f"{tmp_path}/model.ckpt-{step}")
  assert reader.get("train_seconds") == 40.0
  assert checkpoint_names.parameters(reader.shapes) == ["bert/unused", "bert/w"]
  assert train_for_seconds(tmp_path) == step  # The budget is used up.


def test_variables_on_several_devices_hold_the_time(clock):
  with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    schedule = budget.TimedWarmupLinearDecay(1.0, 10.0)
    schedule.seconds_done.assign(4.0)
    run = budget.TimeBudget(schedule)
    run.begin(3)
    for step in (4, 5):  # These include compilation.
      run.count(step, 9.0)
    run.count(6, 1.0)
  assert run.steps_left(6) == 3  # The clock reads 3 s after its start.


def test_a_killed_run_resumes_with_the_remaining_time(
  tmp_path, clock, monkeypatch
):
  count = budget.TimeBudget.count

  def killed(self, step, seconds_per_step):
    if step == 23:
      raise MemoryError
    count(self, step, seconds_per_step)

  with monkeypatch.context() as patch:
    patch.setattr(budget.TimeBudget, "count", killed)
    with pytest.raises(MemoryError):
      train_for_seconds(tmp_path)
  reader = checkpoints.CheckpointReader(f"{tmp_path}/model.ckpt-20")
  assert reader.get("train_seconds") == 20.0
  assert 35 <= train_for_seconds(tmp_path) <= 40


def test_the_last_step_is_evaluated_and_logged(tmp_path, clock):
  made = line_model.make(
    tmp_path,
    train_minutes=0.5,
    iterations_per_loop=1,
    eval_every_steps=1000,
    best_metric="f1",
  )
  step = made.train(
    line_model.batches,
    lambda: {"f1": 1.0, "global_step": int(made.optimizer.iterations)},
  )
  assert (tmp_path / "best" / f"model.ckpt-{step}.index").exists()
