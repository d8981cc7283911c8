"""The compilation mode of a run: given, read from its folder, or timed."""

import json
import time

import pytest
import tensorflow as tf

from bert_tf.training import compilation, tuning
from bert_tf.training import config as training_config
from tests.support import line_model, runs

STATIC = {"x": tf.TensorSpec([4], tf.float32)}
ANY_WIDTH = {"x": tf.TensorSpec([4, None], tf.float32)}


def known(output_dir, spec=STATIC, num_train_steps=200, **settings):
  config = training_config.TrainConfig(
    output_dir=str(output_dir), num_train_steps=num_train_steps, **settings
  )
  return tuning.known_mode(config, spec)


def choose(output_dir, num_steps=10**6, **seconds):
  """Chooses between steps of these seconds; returns the timed modes too."""
  timed = []
  clock = [0.0]

  def step_in_mode(mode):
    def step():
      clock[0] += seconds[mode.name]

    timed.append(mode)
    return step

  def seconds_left(seconds_per_step):
    return num_steps * seconds_per_step

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(time, "monotonic", lambda: clock[0])
    choice = tuning.choose_mode(str(output_dir), seconds_left, step_in_mode)
  return choice, timed


@pytest.mark.parametrize("use_xla", [False, True])
def test_a_given_mode_is_not_timed(tmp_path, use_xla):
  mode = known(tmp_path, use_xla=use_xla)
  assert mode is (compilation.WHOLE if use_xla else compilation.PLAIN)


def test_only_long_runs_with_static_shapes_are_timed(tmp_path):
  assert known(tmp_path) is None
  assert known(tmp_path, num_train_steps=199) is compilation.PLAIN
  assert known(tmp_path, ANY_WIDTH) is compilation.PLAIN


def test_a_deterministic_run_is_not_timed(tmp_path):
  assert known(tmp_path, deterministic=True) is compilation.PLAIN
  mode = known(tmp_path, deterministic=True, use_xla=True)
  assert mode is compilation.WHOLE


def test_accelerators_always_compile(tmp_path, monkeypatch):
  monkeypatch.setattr(
    tf.config, "list_logical_devices", lambda kind: [kind] * (kind == "GPU")
  )
  assert known(tmp_path, ANY_WIDTH, num_train_steps=1) is compilation.WHOLE


@pytest.mark.parametrize(
  ("expected", "seconds"),
  [
    ("whole", {"plain": 0.02, "whole": 0.001, "clustered": 0.01}),
    ("plain", {"plain": 0.001, "whole": 0.02, "clustered": 0.01}),
    ("clustered", {"plain": 0.02, "whole": 0.03, "clustered": 0.01}),
    ("clustered", {"plain": 0.02, "whole": 0.0198, "clustered": 0.017}),
    ("whole", {"plain": 0.02, "whole": 0.0198, "clustered": 0.0199}),
    # In bfloat16, the mode WHOLE is also faster.
    ("clustered", {"plain": 0.02, "whole": 0.018, "clustered": 0.014}),
  ],
)
def test_the_fastest_mode_is_chosen_and_written(tmp_path, expected, seconds):
  with runs.logged() as lines:
    chosen, timed = choose(tmp_path, **seconds)
  assert chosen.name == expected
  assert [mode.name for mode in timed] == list(seconds)
  saved = json.loads((tmp_path / tuning.FILE).read_text())
  assert lines().count(json.dumps(saved)) == 1
  assert compilation.mode_by_use_xla(saved.pop("use_xla")) is chosen
  keys = {
    "plain": "plain_ms",
    "whole": "compiled_ms",
    "clustered": "pieces_ms",
  }
  assert saved == {
    keys[name]: pytest.approx(1e3 * t, abs=0.01) for name, t in seconds.items()
  }


def test_modes_that_compile_are_not_timed_for_a_short_rest(tmp_path):
  assert choose(tmp_path, num_steps=200, plain=0.001) == (
    compilation.PLAIN,
    [compilation.PLAIN],
  )


def test_clusters_are_not_tried_for_a_rest_of_minutes(tmp_path):
  chosen = choose(tmp_path, num_steps=300, plain=1.0, whole=2.0)
  assert chosen == (compilation.PLAIN, [compilation.PLAIN, compilation.WHOLE])


@pytest.mark.parametrize("chosen", compilation.MODES, ids=lambda m: m.name)
def test_a_killed_run_resumes_in_its_mode_and_ends_the_same(
  tmp_path, monkeypatch, chosen
):
  monkeypatch.setattr(tuning, "_MIN_STEPS", 1)
  monkeypatch.setattr(tuning, "_MIN_SECONDS", 0.0)
  monkeypatch.setattr(tuning, "_MIN_SECONDS_FOR_CLUSTERED", 0.0)
  timed_order = compilation.PLAIN, compilation.WHOLE, compilation.CLUSTERED
  modes = []
  time_step = tuning._time_step

  def timed(take_step):
    time_step(take_step)  # Trains, which must be undone.
    modes.append(timed_order[len(modes)])
    return float(modes[-1] is not chosen)

  monkeypatch.setattr(tuning, "_time_step", timed)
  batches = line_model.batches
  uninterrupted, killed = tmp_path / "uninterrupted", tmp_path / "killed"
  with monkeypatch.context() as patch:
    patch.setattr(tuning, "known_mode", lambda *_: chosen)
    line_model.make(uninterrupted).train(batches)
  line_model.make(killed).train(batches)
  assert len(modes) == 3
  weights = line_model.weights_at
  line_model.assert_same(weights(killed, 30), weights(uninterrupted, 30))
  # As if killed after step 20.
  for path in killed.glob("model.ckpt-30*"):
    path.unlink()
  (killed / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-20"\n')
  line_model.make(killed).train(batches)
  assert len(modes) == 3  # Read, not timed.
  line_model.assert_same(weights(killed, 30), weights(uninterrupted, 30))
  # A file of an earlier run does not count.
  for path in killed.glob("*ckpt*"):
    path.unlink()
  (killed / "checkpoint").unlink()
  assert known(killed) is None
