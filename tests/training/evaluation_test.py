"""Evaluation during training saves the best weights and stops early."""

import dataclasses
import json

import numpy as np
import pytest

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.training import config as training_config
from bert_tf.training import curves, evaluation
from tests.support import run_infos, runs
from tests.support.line_model import assert_same, batches, make, weights_at


def train(output_dir, values=(), num_train_steps=30, **kwargs):
  """Trains with evaluations that give these values of f1, one after another.

  Returns the steps done and the Estimator.
  """
  values = iter(values)
  runner = make(output_dir, num_train_steps, **kwargs)

  def evaluate():
    results = runner.evaluate(batches(0).take(2))
    return {**results, "f1": next(values)} if kwargs.get("best_metric") else {}

  return runner.train(batches, evaluate), runner


def best_step(output_dir):
  (path,) = checkpoints.list_checkpoints(f"{output_dir}/best")
  return int(checkpoints.CheckpointReader(path).get("global_step"))


def test_evaluation_does_not_disturb_training(tmp_path):
  make(tmp_path / "without").train(batches)
  runner = make(tmp_path / "with", eval_every_steps=7, best_metric="error")
  runner.train(batches, lambda: runner.evaluate(batches(100).take(3)))
  for step in (10, 20, 30):
    assert_same(
      weights_at(tmp_path / "without", step),
      weights_at(tmp_path / "with", step),
    )


def test_each_evaluation_uses_the_weights_of_its_step(tmp_path):
  # Every step is saved, after its evaluation.
  runner = make(
    tmp_path,
    6,
    eval_every_steps=2,
    best_metric="error",
    save_checkpoints_steps=1,
    keep_checkpoint_max=0,
  )
  runner.train(batches, lambda: runner.evaluate(batches(0).take(1)))
  errors = curves.read(str(tmp_path / "eval"))["error"]
  x = np.float32([1, 2, 3, 4])
  assert list(errors) == [2, 4, 6]
  for step, error in errors.items():
    w = weights_at(tmp_path, step)["bert/w"]
    np.testing.assert_allclose(error, np.mean((w * x - 2 * x) ** 2), rtol=1e-5)


def test_the_best_checkpoint_stays_after_its_original_is_deleted(tmp_path):
  plan = {"eval_every_steps": 10, "best_metric": "f1"}
  train(tmp_path, (0.1, 0.9, 0.8, 0.7), 40, keep_checkpoint_max=1, **plan)
  assert not (tmp_path / "model.ckpt-20.index").exists()
  assert best_step(tmp_path) == 20
  assert evaluation.read_best_results(f"{tmp_path}/best")["f1"] == 0.9
  # The folder is a model that predicts.
  reader = checkpoints.CheckpointReader(f"{tmp_path}/best/model.ckpt-20")
  best = make(tmp_path / "best")
  best.load_for_inference()
  (output,) = best.predict(batches(0).take(1))
  np.testing.assert_allclose(output, reader.get("bert/w") * [1, 2, 3, 4])
  assert not any("adam" in name for name in reader.shapes)


def test_the_best_checkpoint_has_the_run_info(tmp_path):
  config = modeling.BertConfig(vocab_size=9)
  info = run_infos.make(task="ner", labels=("O", "B-X"))
  run_infos.write(str(tmp_path), info, config, None)
  (tmp_path / "label_map.json").write_text("{}")
  train(tmp_path, (0.1,), 10, eval_every_steps=10, best_metric="f1")
  run = run_info.read_run(f"{tmp_path}/best")
  assert run.scores["f1"] == 0.1
  assert dataclasses.replace(run, scores={}) == info
  for name in ("bert_config.json", "label_map.json"):
    copied = (tmp_path / "best" / name).read_bytes()
    assert copied == (tmp_path / name).read_bytes()


def test_lower_losses_are_better_and_the_first_of_equals_stays(tmp_path):
  better = evaluation.is_better
  assert better("eval_loss", 1.0, 2.0) and not better("eval_loss", 2.0, 1.0)
  assert better("f1", 2.0, 1.0) and not better("f1", 1.0, 1.0)
  nan = float("nan")
  assert better("pearson", -1.0, nan) and not better("pearson", nan, -1.0)
  plan = {"eval_every_steps": 10, "best_metric": "f1"}
  train(tmp_path, (nan, 0.5, 0.5), **plan)
  assert best_step(tmp_path) == 20


def test_patience_ends_training_for_good(tmp_path):
  plan = {
    "eval_every_steps": 5,
    "best_metric": "f1",
    "early_stopping_patience": 2,
  }
  values = (0.3, 0.2, 0.4, 0.4, 0.1, 0.9)
  with runs.logged() as lines:
    steps, runner = train(tmp_path, values, 100, **plan)
  assert steps == 25
  assert not runner.was_interrupted
  assert "Stopped early at step 25/100." in lines()
  assert "best f1 0.4 at step 15" in lines()
  assert "evaluation at step 20: loss " in lines()
  assert best_step(tmp_path) == 15
  assert checkpoints.find_latest(str(tmp_path)).endswith("-25")
  # The same command again does nothing; more patience resumes.
  assert train(tmp_path, (), 100, **plan)[0] == 25
  patient = {**plan, "early_stopping_patience": 3}
  assert train(tmp_path, (0.1,), 100, **patient)[0] == 30


def test_a_best_after_the_resumed_checkpoint_is_replaced(tmp_path):
  def best():
    results = evaluation.read_best_results(f"{tmp_path}/best")
    assert best_step(tmp_path) == results["global_step"]
    return results["global_step"], results["f1"]

  plan = {"eval_every_steps": 5, "best_metric": "f1"}
  train(tmp_path, (0.1, 0.2, 0.9, 0.3), 20, **plan)
  assert best() == (15, 0.9)
  (tmp_path / "checkpoint").write_text(
    'model_checkpoint_path: "model.ckpt-10"\n'
  )
  # On another machine, say: that 0.9 does not come again. The weights of step
  # 10 are gone.
  train(tmp_path, (0.15, 0.05), 20, **plan)
  assert best() == (15, 0.15)
  history = json.loads((tmp_path / "best" / "evaluations.json").read_text())
  results = [(e["global_step"], e["f1"]) for e in history["evaluations"]]
  assert results == [(5, 0.1), (10, 0.2), (15, 0.15), (20, 0.05)]
  train(tmp_path, (0.12, 0.18), 30, **plan)
  assert best() == (30, 0.18)


def test_metrics_and_patience_that_do_not_fit_are_refused(tmp_path):
  plan = {"eval_every_steps": 10}
  with pytest.raises(ValueError, match="'f2'.* error, f1,"):
    train(tmp_path, (0.1,), 10, best_metric="f2", **plan)
  train(tmp_path, (0.1,), 10, best_metric="f1", **plan)
  with pytest.raises(ValueError, match="by f1, not by `best_metric=loss`"):
    train(tmp_path, (), 20, best_metric="loss", **plan)
  with pytest.raises(ValueError, match="needs `eval_every_steps`"):
    training_config.TrainConfig(output_dir="out", early_stopping_patience=1)
