"""Which form of the step is taken where the run is to find out."""

import json
import time

import pytest
import tensorflow as tf

from bert_tf.training import config as training_config
from bert_tf.training import tuning
from bert_tf.training.step import Form
from tests.support import line_model, runs

STATIC = {"x": tf.TensorSpec([4], tf.float32)}
OF_ANY_WIDTH = {"x": tf.TensorSpec([4, None], tf.float32)}


def known(output_dir, spec=STATIC, num_train_steps=200, use_xla=None):
  config = training_config.TrainConfig(
    output_dir=str(output_dir), num_train_steps=num_train_steps, use_xla=use_xla
  )
  return tuning.known(config, spec)


def measure(output_dir, num_steps=10**6, **seconds):
  """The choice between steps of so many seconds; the forms that were timed."""
  taken = []
  clock = [0.0]

  def step_in_form(form):
    def step():
      clock[0] += seconds[form.name.lower()]

    taken.append(form)
    return step

  def seconds_left(seconds_per_step):
    return num_steps * seconds_per_step

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(time, "monotonic", lambda: clock[0])
    choice = tuning.measure(str(output_dir), seconds_left, step_in_form)
  return choice, taken


@pytest.mark.parametrize("use_xla", [False, True])
def test_who_chooses_is_followed(tmp_path, use_xla):
  assert known(tmp_path, use_xla=use_xla) is Form(use_xla)


def test_long_runs_of_one_shape_are_measured_and_others_not(tmp_path):
  assert known(tmp_path) is None
  assert known(tmp_path, num_train_steps=199) is Form.PLAIN
  assert known(tmp_path, OF_ANY_WIDTH) is Form.PLAIN


def test_an_accelerator_compiles(tmp_path, monkeypatch):
  monkeypatch.setattr(
    tf.config, "list_logical_devices", lambda kind: [kind] * (kind == "GPU")
  )
  assert known(tmp_path, OF_ANY_WIDTH, num_train_steps=1) is Form.WHOLE


@pytest.mark.parametrize(
  ("expected", "seconds"),
  [
    (Form.WHOLE, {"plain": 0.02, "whole": 0.001, "pieces": 0.01}),
    (Form.PLAIN, {"plain": 0.001, "whole": 0.02, "pieces": 0.01}),
    (Form.PIECES, {"plain": 0.02, "whole": 0.03, "pieces": 0.01}),
    (Form.PIECES, {"plain": 0.02, "whole": 0.0198, "pieces": 0.017}),
    (Form.WHOLE, {"plain": 0.02, "whole": 0.0198, "pieces": 0.0199}),
    # bfloat16, where the whole form has gained too.
    (Form.PIECES, {"plain": 0.02, "whole": 0.018, "pieces": 0.014}),
  ],
)
def test_the_fastest_form_is_kept_and_written(tmp_path, expected, seconds):
  with runs.logged() as lines:
    chosen, taken = measure(tmp_path, **seconds)
  assert chosen is expected
  assert [form.name.lower() for form in taken] == list(seconds)
  saved = json.loads((tmp_path / tuning.FILE).read_text())
  assert lines().count(json.dumps(saved)) == 1
  assert Form(saved.pop("use_xla")) is expected
  names = {"plain": "plain_ms", "whole": "compiled_ms", "pieces": "pieces_ms"}
  assert saved == {
    names[form]: pytest.approx(1e3 * t, abs=0.01) for form, t in seconds.items()
  }


def test_nothing_is_compiled_for_a_short_rest(tmp_path):
  found = measure(tmp_path, num_steps=200, plain=0.001)
  assert found == (Form.PLAIN, [Form.PLAIN])


def test_pieces_are_not_tried_for_a_rest_of_minutes(tmp_path):
  found = measure(tmp_path, num_steps=300, plain=1.0, whole=2.0)
  assert found == (Form.PLAIN, [Form.PLAIN, Form.WHOLE])


@pytest.mark.parametrize("chosen", Form)
def test_a_killed_run_goes_on_in_its_form_and_ends_the_same(
  tmp_path, monkeypatch, chosen
):
  monkeypatch.setattr(tuning, "_MIN_STEPS", 1)
  monkeypatch.setattr(tuning, "_MIN_SECONDS", 0.0)
  monkeypatch.setattr(tuning, "_MIN_SECONDS_FOR_PIECES", 0.0)
  timed_order = Form.PLAIN, Form.WHOLE, Form.PIECES
  forms = []
  seconds = tuning._seconds

  def timed(take_step):
    seconds(take_step)  # Trains, which has to be undone.
    forms.append(timed_order[len(forms)])
    return float(forms[-1] is not chosen)

  monkeypatch.setattr(tuning, "_seconds", timed)
  batches = line_model.batches
  whole, killed = tmp_path / "whole", tmp_path / "killed"
  with monkeypatch.context() as patch:
    patch.setattr(tuning, "known", lambda *_: chosen)
    line_model.make(whole).train(batches)
  line_model.make(killed).train(batches)
  assert len(forms) == 3
  weights = line_model.weights_at
  line_model.assert_same(weights(killed, 30), weights(whole, 30))
  # As if killed after step 20.
  for path in killed.glob("model.ckpt-30*"):
    path.unlink()
  (killed / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-20"\n')
  line_model.make(killed).train(batches)
  assert len(forms) == 3  # Read, not measured.
  line_model.assert_same(weights(killed, 30), weights(whole, 30))
  # What a run of the past left does not count.
  for path in killed.glob("*ckpt*"):
    path.unlink()
  (killed / "checkpoint").unlink()
  assert known(killed) is None
