"""Training, resuming and reports, on a model with one trained weight."""

import contextlib
import json
import os
import random
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from bert_tf import distribution, modeling
from bert_tf.checkpoint import checkpoints, run_folder
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import errors
from bert_tf.model import heads
from bert_tf.model.layers import mixed_precision
from bert_tf.tasks.pretraining import pretraining
from bert_tf.training import config as training_config
from bert_tf.training import curves, estimator
from tests.support import run_infos, runs
from tests.support.line_model import (
  Line,
  Objective,
  assert_same,
  batches,
  evaluate_newest,
  make,
  weights_at,
)


def test_a_run_learns_logs_and_saves(tmp_path):
  runner = make(tmp_path, 200, rate=0.0, save_checkpoints_steps=120)
  assert runner.train(batches) == 200
  assert weights_at(tmp_path, 200)["bert/w"] == pytest.approx(2.0, abs=0.1)
  saved = checkpoints.list_checkpoints(str(tmp_path))
  assert saved == [f"{tmp_path}/model.ckpt-{step}" for step in (200, 120, 0)]
  events = curves.read(str(tmp_path))
  names = ("learning_rate", "gradient_norm", "examples_per_second")
  assert set(events) == {"loss", "error", *names}
  assert list(events["loss"]) == list(range(10, 210, 10))
  assert events["loss"][10] > max(1.0, 10 * events["loss"][200])
  # The mean of the rates of ten steps, with no warm-up left.
  expected = np.mean([0.05 * (1 - step / 200) for step in range(190, 200)])
  assert events["learning_rate"][200] == pytest.approx(expected, rel=1e-5)


def test_the_model_is_traced_once_for_a_step(tmp_path, monkeypatch):
  traces = []
  call = Line.call
  monkeypatch.setattr(
    Line,
    "call",
    lambda *args, **kwargs: traces.append(0) or call(*args, **kwargs),
  )
  trainer = make(tmp_path)
  trainer.train(batches)
  assert len(traces) == 1


@pytest.mark.parametrize("use_xla", [False, True])
def test_a_resumed_run_equals_an_uninterrupted_run_to_the_bit(
  tmp_path, use_xla
):
  make(tmp_path / "whole", use_xla=use_xla).train(batches)
  make(tmp_path / "two", use_xla=use_xla).train(batches)
  # As if killed after step 20: later checkpoints are missing.
  os.remove(tmp_path / "two" / "model.ckpt-30.index")
  reached = weights_at(tmp_path / "two", 20)
  assert not np.array_equal(
    reached["bert/w"], weights_at(tmp_path / "whole", 30)["bert/w"]
  )
  make(tmp_path / "two", use_xla=use_xla).train(batches)
  assert_same(
    weights_at(tmp_path / "two", 30), weights_at(tmp_path / "whole", 30)
  )


@pytest.mark.parametrize(
  "plans",
  [
    [{"iterations_per_loop": 1}],
    [{"iterations_per_loop": 7, "log_every_steps": 4}],
    [{"stop_at_step": 13}, {}],
  ],
)
def test_groups_of_steps_and_a_planned_stop_change_no_bit(tmp_path, plans):
  make(tmp_path / "whole").train(batches)
  for plan in plans:
    last = make(tmp_path / "other", **plan).train(batches)
    assert last == plan.get("stop_at_step", 30)
  assert_same(
    weights_at(tmp_path / "other", 30), weights_at(tmp_path / "whole", 30)
  )


# Parts of names that transformers' load_tf_weights_in_bert skips.
SKIPPED = {"adam_v", "adam_m", "global_step"}


def test_a_run_with_a_loss_scale_resumes_and_readers_skip_its_state(tmp_path):
  def train():
    runner = make(tmp_path)
    runner.update.loss_scale = mixed_precision.LossScale()  # As in float16.
    return runner.train(batches)

  assert train() == 30
  expected = weights_at(tmp_path, 30)
  assert {"loss_scale", "loss_scale_good_steps"} <= expected.keys()
  names = tf.train.load_checkpoint(f"{tmp_path}/model.ckpt-20")
  names = names.get_variable_to_shape_map()
  weights = {n for n in names if not SKIPPED & {*n.split("/")}}
  assert weights == {"bert/w", "bert/unused"}
  os.remove(tmp_path / "model.ckpt-30.index")
  assert train() == 30
  assert_same(weights_at(tmp_path, 30), expected)


def test_dropout_follows_the_seed(tmp_path):
  for name, seed in (("a", 1), ("b", 1), ("c", 2)):
    make(tmp_path / name, seed=seed).train(batches)
  first, same, other = (weights_at(tmp_path / name, 30) for name in "abc")
  assert_same(first, same)
  assert first["bert/w"] != other["bert/w"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_the_same_call_resumes(tmp_path, number):
  handler = signal.getsignal(number)
  make(tmp_path / "whole").train(batches)

  def kill_at_13(step):
    if step == 13:
      os.kill(os.getpid(), number)
    return np.int64(0)

  def watched(step, features):
    called = tf.numpy_function(kill_at_13, [step], tf.int64)
    with tf.control_dependencies([called]):
      return tf.nest.map_structure(tf.identity, features)

  def with_signal(steps_done):
    return batches(steps_done).enumerate(steps_done).map(watched)

  runner = make(tmp_path / "two")
  # After SIGTERM, a status of 0 would tell clusters that the work is done.
  is_term = number == signal.SIGTERM
  expected = pytest.raises(SystemExit) if is_term else contextlib.nullcontext()
  with expected as ended:
    runner.train(with_signal)
  assert ended.value.code == 143 if is_term else runner.was_interrupted
  newest = checkpoints.find_latest(str(tmp_path / "two"))
  # The signal comes with a batch read ahead.
  assert 0 < int(newest.rpartition("-")[2]) < 30
  assert signal.getsignal(number) == handler
  assert make(tmp_path / "two").train(batches) == 30
  assert_same(
    weights_at(tmp_path / "two", 30), weights_at(tmp_path / "whole", 30)
  )


def test_any_second_signal_ends_the_process():
  with estimator.StopSignals() as stop:
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.received == "SIGTERM"
    with pytest.raises(KeyboardInterrupt):
      os.kill(os.getpid(), signal.SIGINT)


def test_when_every_checkpoint_is_damaged_nothing_is_overwritten(tmp_path):
  make(tmp_path, save_checkpoints_steps=100).train(batches)
  for path in tmp_path.glob("*.index"):
    path.write_bytes(b"")
  before = {p.name: p.read_bytes() for p in tmp_path.glob("model*")}
  with pytest.raises(ValueError, match="model.ckpt-0 is truncated"):
    make(tmp_path).train(batches)
  with pytest.raises(ValueError, match="model.ckpt-30 "):
    evaluate_newest(make(tmp_path), batches(0).take(1))
  assert {p.name: p.read_bytes() for p in tmp_path.glob("model*")} == before


@pytest.mark.parametrize(
  "damage", ["data", "nan", "no index", "list", "no text"]
)
def test_a_run_resumes_from_the_newest_complete_checkpoint(tmp_path, damage):
  make(tmp_path).train(batches)
  expected = weights_at(tmp_path, 30)
  if damage == "data":
    data = tmp_path / "model.ckpt-30.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:3])
  elif damage == "nan":
    bad = {**expected, "bert/w": np.float32([np.nan])}
    checkpoints.write(str(tmp_path / "model.ckpt-30"), bad)
  else:
    os.remove(tmp_path / "model.ckpt-30.index")
  if damage in ("list", "no text"):
    (tmp_path / "checkpoint").write_bytes(b"\xff\0" * (damage == "no text"))
  else:
    with pytest.raises(errors.DamagedFileError, match="model.ckpt-30"):
      make(tmp_path).load_for_inference()
  with runs.logged() as lines:
    assert make(tmp_path).train(batches) == 30
  assert ("model.ckpt-30 is truncated" in lines()) == (damage == "data")
  assert ("not finite" in lines()) == (damage == "nan")
  assert "Resuming from" in lines() and "model.ckpt-20, at step 20" in lines()
  assert_same(weights_at(tmp_path, 30), expected)
  assert len(checkpoints.list_checkpoints(str(tmp_path))) == 4


def test_an_estimator_does_not_change_the_programs_random_state(tmp_path):
  def draws():
    return (
      random.random(),
      np.random.random(),
      float(tf.random.uniform([])),
      float(keras.random.uniform([])),
    )

  keras.utils.set_random_seed(7)
  expected = [draws(), draws()]
  keras.utils.set_random_seed(7)
  results = [draws()]
  make(tmp_path, 2).train(batches)
  assert [*results, draws()] == expected


def test_initial_values_are_those_of_the_seed(tmp_path):
  config = modeling.BertConfig(
    9, 8, 1, 2, 16, max_position_embeddings=8, type_vocab_size=2
  )

  def weights(seed):
    train = training_config.TrainConfig(output_dir=str(tmp_path), seed=seed)
    objective = pretraining.PretrainingObjective()
    runner = estimator.Estimator(objective, config, train)
    return runner.model.get_weights()

  keras.utils.set_random_seed(12345)
  expected = heads.PretrainingModel(config).get_weights()
  keras.utils.set_random_seed(7)
  for value, result in zip(expected, weights(12345), strict=True):
    np.testing.assert_array_equal(value, result)
  assert np.any(weights(1)[0] != expected[0])


def test_a_run_on_a_file_system_of_tensorflow_is_resumed(tmp_path):
  remote = "ram://estimator_test/run"
  config = tmp_path / "config.json"
  config.write_text(json.dumps(runs.CONFIG))
  model = ModelFolder.open(None, bert_config_file=str(config))
  for steps in (10, 15):
    folder = run_folder.RunFolder(remote, "pretraining")
    info = run_infos.make(task="pretraining")
    folder.prepare(info, model)
    with runs.logged() as lines:
      make(remote, steps).train(batches)
  assert f"{remote}/model.ckpt-10" in lines()
  local = tmp_path / "run"
  make(local, 10).train(batches)
  make(local, 15).train(batches)
  assert_same(weights_at(remote, 15), weights_at(local, 15))
  results = evaluate_newest(make(remote, 15), batches(0).take(1))
  assert results["global_step"] == 15


def test_output_dir_has_precedence_over_init_checkpoint(
  tmp_path,
):
  start = str(tmp_path / "start.ckpt")
  checkpoints.write(
    start,
    {
      "bert/w": np.float32([7.0]),
      "bert/unused": np.float32([1.0]),
      "bert/w/adam_m": np.float32([9.0]),
      "global_step": np.int64(99),
    },
  )
  make(tmp_path / "a", init_checkpoint=start).train(batches)
  first = weights_at(tmp_path / "a", 0)
  assert first["bert/w"] == 7.0
  assert first["bert/w/adam_m"] == 0.0  # The optimizer's state is not loaded.
  assert first["global_step"] == 0
  with runs.logged() as lines:
    make(tmp_path / "a", 40, init_checkpoint=start).train(batches)
  assert "model.ckpt-30, at step 30" in lines()
  assert "INIT_FROM_CKPT" not in lines()


def root_loss(outputs, features):
  """A loss whose value at 0 is finite, but not its gradient."""
  roots = ops.sqrt(ops.abs(outputs))
  return {"error": (ops.sum(roots), ops.sum(ops.ones_like(roots)))}


def zero_at_13(steps_done):
  steps = tf.data.Dataset.counter(steps_done)
  return tf.data.Dataset.zip(steps, batches(steps_done)).map(
    lambda step, batch: {
      **batch,
      "x": tf.where(step == 13, 0.0, 1.0) * batch["x"],
    }
  )


@pytest.mark.parametrize(
  ("objective", "input_fn", "num_steps", "expected"),
  [
    (
      Objective(),
      lambda steps_done: batches(steps_done, y_scale=float("nan")),
      *(1, "loss.*step 11.*model.ckpt-10.*`learning_rate`"),
    ),
    (Objective(root_loss), zero_at_13, 1, "gradient_norm .*ckpt-10"),
    (Objective(root_loss), zero_at_13, 4, "gradient_norm .*ckpt-10"),
  ],
)
def test_a_step_that_is_not_finite_keeps_the_last_checkpoint(
  tmp_path, objective, input_fn, num_steps, expected
):
  make(tmp_path, 10).train(batches)
  saved = weights_at(tmp_path, 10)
  runner = make(tmp_path, 14, iterations_per_loop=num_steps, log_every_steps=4)
  runner = estimator.Estimator(objective, None, runner.config)
  with pytest.raises(estimator.DivergedError, match=expected):
    runner.train(input_fn)
  assert checkpoints.find_latest(str(tmp_path)).endswith("-10")
  assert_same(weights_at(tmp_path, 10), saved)
  with pytest.raises(estimator.DivergedError, match="inf"):
    evaluate_newest(make(tmp_path), batches(0, y_scale=1e30).take(1))


def test_weights_that_are_not_finite_are_neither_saved_nor_kept_as_best(
  tmp_path,
):
  # The last loss and gradients were computed from finite weights.
  runner = make(
    tmp_path, 2, learning_rate=3e38, eval_every_steps=2, best_metric="loss"
  )
  evaluated = []
  with pytest.raises(estimator.DivergedError, match="bert/w.*step 2"):
    runner.train(batches, lambda: evaluated.append(1) or {"loss": 0.0})
  assert not evaluated
  assert checkpoints.find_latest(str(tmp_path)).endswith("model.ckpt-0")


def test_a_checkpoint_without_a_step_is_not_loaded_from_a_run(tmp_path):
  make(tmp_path, 10).train(batches)
  values = weights_at(tmp_path, 10)
  del values["global_step"]
  checkpoints.write(str(tmp_path / "model.ckpt-10"), values)
  with pytest.raises(ValueError, match="global_step.*`init_checkpoint`"):
    make(tmp_path, 10).load_for_inference()


def test_evaluation_weighs_batches_for_the_loss_and_examples_for_the_rest(
  tmp_path,
):
  runner = make(tmp_path, 10, rate=0.0)
  runner.train(batches)
  w = float(weights_at(tmp_path, 10)["bert/w"][0])
  x = [np.float32([1.0, 2.0, 3.0]), np.float32([5.0])]
  dataset = tf.data.Dataset.from_generator(
    lambda: ({"x": v, "y": 0.0 * v} for v in x),
    output_signature={
      "x": tf.TensorSpec([None], tf.float32),
      "y": tf.TensorSpec([None], tf.float32),
    },
  )
  results = evaluate_newest(runner, dataset)
  squares = [(w * v) ** 2 for v in x]
  assert results["loss"] == pytest.approx(
    np.mean([s.mean() for s in squares]), rel=1e-5
  )
  assert results["error"] == pytest.approx(
    np.concatenate(squares).mean(), rel=1e-5
  )
  assert results["global_step"] == 10
  assert curves.read(str(tmp_path / "eval"))["loss"][10] == pytest.approx(
    results["loss"], rel=1e-5
  )


def test_prediction_yields_the_outputs_of_the_newest_checkpoint(tmp_path):
  make(tmp_path, 10).train(batches)
  w = weights_at(tmp_path, 10)["bert/w"]
  runner = make(tmp_path, 10)
  assert runner.load_for_inference() == 10
  outputs = list(runner.predict(batches(0).take(2)))
  assert len(outputs) == 2
  np.testing.assert_allclose(outputs[0], w * [1, 2, 3, 4], rtol=1e-6)


def test_a_short_batch_is_filled_up_where_shapes_are_fixed(
  tmp_path, monkeypatch
):
  def weighted_loss(outputs, features):
    errors = ops.square(outputs - features["y"]) * features["weight"]
    return {"error": (ops.sum(errors), ops.sum(features["weight"]))}

  def loss_weights(features):
    return {"error": ops.sum(features["weight"])}

  rows = {"x": [1.0, 2.0, 3.0], "y": [5.0, 4.0, 9.0], "weight": [1.0] * 3}
  dataset = tf.data.Dataset.from_tensor_slices(rows).batch(2)

  def evaluate(output_dir):
    runner = make(output_dir)
    objective = Objective(weighted_loss, loss_weights, weighted_loss)
    runner = estimator.Estimator(objective, None, runner.config)
    runner.load_for_inference()
    seen = []
    call = runner.model.call
    runner.model.call = lambda features, training=False: (
      seen.append(tuple(features["x"].shape)) or call(features, training)
    )
    outputs = []

    def score(batches):
      outputs.extend(each.tolist() for each in batches)
      return {"num_batches": len(outputs)}

    results = runner.evaluate(dataset, score=score)
    predictions = [each.tolist() for each in runner.predict(dataset)]
    return results, outputs, predictions, seen

  *expected, _ = evaluate(tmp_path / "short")
  monkeypatch.setattr(distribution, "needs_full_batches", lambda: True)
  *filled, shapes = evaluate(tmp_path / "filled")
  assert filled == expected
  assert filled[0]["num_batches"] == 2
  assert filled[1] == [[0.5, 1.0], [1.5]]
  assert set(shapes) == {(2,)}
