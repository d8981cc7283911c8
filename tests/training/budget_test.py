"""Training for a time: a number of steps that is measured once."""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_tf.checkpoint import run_info
from bert_tf.training import budget, curves
from tests.support import line_model, run_infos
from tests.support.line_model import assert_same, train_for_seconds, weights_at

# `clock` advances by a second at each reading, so a timed step takes a second.
# Four steps are timed, with nine readings, which leave 31 of 40 seconds.
NUM_STEPS = 31


def plan(folder):
  return run_info.read_run(str(folder)).training


def test_the_rate_rises_for_a_tenth_of_the_steps_and_falls_to_zero():
  with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    schedule = budget.PlannedWarmupLinearDecay(0.5)
    schedule.num_train_steps.assign(100)
  rates = [float(schedule(step)) for step in (0, 5, 9, 10, 50, 75, 100, 130)]
  expected = [0.0, 0.25, 0.45, 0.45, 0.25, 0.125, 0.0, 0.0]
  np.testing.assert_allclose(rates, expected, atol=1e-7)


def test_a_plan_fills_the_time_and_ends_with_the_rate_at_zero(tmp_path, clock):
  assert train_for_seconds(tmp_path) == NUM_STEPS
  assert plan(tmp_path).num_train_steps == NUM_STEPS
  rates = curves.read(str(tmp_path))["learning_rate"]
  assert list(rates) == list(range(1, NUM_STEPS + 1))  # Timed steps are undone.
  assert rates[1] == 0.0 and rates[NUM_STEPS] < 0.05 * max(rates.values())
  assert train_for_seconds(tmp_path) == NUM_STEPS  # Nothing is left.


def test_a_timed_run_equals_a_run_of_its_steps(tmp_path, clock):
  """A killed run measures nothing again, so it ends with the same weights."""
  train_for_seconds(tmp_path)
  expected = weights_at(tmp_path, NUM_STEPS)
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-20"')
  assert train_for_seconds(tmp_path) == NUM_STEPS
  assert_same(weights_at(tmp_path, NUM_STEPS), expected)


def test_more_minutes_add_steps_in_proportion(tmp_path, clock):
  train_for_seconds(tmp_path)
  assert train_for_seconds(tmp_path, 80) == 2 * NUM_STEPS
  assert plan(tmp_path).train_minutes == 80 / 60


def test_a_plan_without_a_checkpoint_is_a_leftover(tmp_path, clock):
  train_for_seconds(tmp_path)
  training = dataclasses.replace(plan(tmp_path), num_train_steps=9)
  info = run_info.RunInfo(task="pretraining", training=training)
  run_info.write_json(str(tmp_path), info)
  (tmp_path / "checkpoint").unlink()
  assert train_for_seconds(tmp_path) == NUM_STEPS


def test_a_time_that_compiling_uses_up_gives_one_step(tmp_path, clock):
  assert train_for_seconds(tmp_path, 2) == 1


def test_the_last_step_is_evaluated_and_logged(tmp_path, clock):
  run_info.write_json(str(tmp_path), run_infos.make(task="pretraining"))
  made = line_model.make(
    tmp_path, train_minutes=0.5, eval_every_steps=1000, best_metric="f1"
  )
  step = made.train(
    line_model.batches,
    lambda: {"f1": 1.0, "global_step": int(made.update.optimizer.iterations)},
  )
  assert (tmp_path / "best" / f"model.ckpt-{step}.index").exists()
