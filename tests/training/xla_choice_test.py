"""Which form of the step is taken where the run is to find out."""

import json
import time

import pytest
import tensorflow as tf

from bert_tf.training import config as training_config
from bert_tf.training import xla_choice
from tests import runs
from tests.training import estimator_test

STATIC = {"x": tf.TensorSpec([4], tf.float32)}
OF_ANY_WIDTH = {"x": tf.TensorSpec([4, None], tf.float32)}


def known(output_dir, spec=STATIC, num_train_steps=200, use_xla=None):
  config = training_config.TrainConfig(
    output_dir=str(output_dir), num_train_steps=num_train_steps, use_xla=use_xla
  )
  return xla_choice.known(config, spec)


def measure(output_dir, plain, compiled, num_steps=10**6):
  """The choice between steps of so many seconds; the forms that were timed."""
  taken = []
  clock = [0.0]

  def step_in_form(use_xla):
    def step():
      clock[0] += compiled if use_xla else plain

    taken.append(use_xla)
    return step

  def seconds_left(seconds_per_step):
    return num_steps * seconds_per_step

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(time, "monotonic", lambda: clock[0])
    choice = xla_choice.measure(str(output_dir), seconds_left, step_in_form)
  return choice, taken


@pytest.mark.parametrize("use_xla", [False, True])
def test_who_chooses_is_followed(tmp_path, use_xla):
  assert known(tmp_path, use_xla=use_xla) is use_xla


def test_long_runs_of_one_shape_are_measured_and_others_not(tmp_path):
  assert known(tmp_path) is None
  assert known(tmp_path, num_train_steps=199) is False
  assert known(tmp_path, OF_ANY_WIDTH) is False


def test_an_accelerator_compiles(tmp_path, monkeypatch):
  monkeypatch.setattr(
    tf.config, "list_logical_devices", lambda kind: [kind] * (kind == "GPU")
  )
  assert known(tmp_path, OF_ANY_WIDTH, num_train_steps=1) is True


@pytest.mark.parametrize(
  ("plain", "compiled", "expected"), [(0.02, 0.001, True), (0.001, 0.02, False)]
)
def test_the_faster_form_is_kept_and_written(
  tmp_path, plain, compiled, expected
):
  with runs.logged() as lines:
    assert measure(tmp_path, plain, compiled) == (expected, [False, True])
  saved = json.loads((tmp_path / xla_choice.FILE).read_text())
  assert saved["use_xla"] is expected
  assert (saved["plain_ms"] > saved["compiled_ms"]) is expected
  assert lines().count(json.dumps(saved)) == 1


def test_nothing_is_compiled_for_a_short_rest(tmp_path):
  assert measure(tmp_path, 0.001, 0.0, num_steps=200) == (False, [False])


@pytest.mark.parametrize("chosen", [False, True])
def test_a_killed_run_goes_on_in_its_form_and_ends_the_same(
  tmp_path, monkeypatch, chosen
):
  monkeypatch.setattr(xla_choice, "_MIN_STEPS", 1)
  monkeypatch.setattr(xla_choice, "_MIN_SECONDS", 0.0)
  forms = []
  seconds = xla_choice._seconds

  def timed(take_step):
    seconds(take_step)  # Trains, which has to be undone.
    forms.append(take_step)
    return float(chosen == (len(forms) == 1))

  monkeypatch.setattr(xla_choice, "_seconds", timed)
  batches = estimator_test.batches
  whole, killed = tmp_path / "whole", tmp_path / "killed"
  estimator_test.make(whole, use_xla=chosen).train(batches)
  estimator_test.make(killed).train(batches)
  assert len(forms) == 2
  weights = estimator_test.weights_at
  estimator_test.assert_same(weights(killed, 30), weights(whole, 30))
  # As if killed after step 20.
  for path in killed.glob("model.ckpt-30*"):
    path.unlink()
  (killed / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-20"\n')
  estimator_test.make(killed).train(batches)
  assert len(forms) == 2  # Read, not measured.
  estimator_test.assert_same(weights(killed, 30), weights(whole, 30))
  # What a run of the past left does not count.
  for path in killed.glob("*ckpt*"):
    path.unlink()
  (killed / "checkpoint").unlink()
  assert known(killed) is None
