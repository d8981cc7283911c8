"""Weights of the labels in the training loss."""

import dataclasses
import json

import numpy as np
import pytest
from sklearn.utils import class_weight

from bert_tf.checkpoint import checkpoints
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import task as classification
from bert_tf.tasks.ner import task as ner
from bert_tf.training import objective
from tests.support import own_classification, setups
from tests.support.own_classification import make

base = own_classification.base

WEIGHTS = (0.5, 3.0, 1.25)


def losses_of(logits, labels):
  """Returns the cross entropy of each label, in float64."""
  logits = logits.astype(np.float64)
  sums = np.log(np.exp(logits).sum(-1))
  return sums - np.take_along_axis(logits, labels[..., None], -1)[..., 0]


@pytest.mark.parametrize(
  ("task_class", "mask_name", "shape"),
  [
    (classification.ClassificationTask, "is_real_example", (8, 1)),
    (ner.NerTask, "label_mask", (4, 5)),
  ],
)
def test_only_the_loss_of_training_is_weighted(task_class, mask_name, shape):
  rng = np.random.default_rng(0)
  labels = rng.integers(3, size=shape)
  mask = rng.integers(2, size=shape)
  logits = rng.normal(size=(*shape, 3)).astype(np.float32)
  features = {"label_ids": labels, mask_name: mask}
  each = losses_of(logits, labels)
  weights = np.array(WEIGHTS)[labels] * mask
  weighted = (weights * each).sum() / weights.sum()
  mean = (mask * each).sum() / mask.sum()
  outputs = logits[:, 0] if shape[1] == 1 else logits
  task = setups.with_labels(task_class(tokenizer=None, settings=None), "abc")

  def means(class_weights, training):
    goal = dataclasses.replace(task, class_weights=class_weights)
    sums = goal.loss_sums(lambda *_, **__: outputs, features, training)
    [(name, (total, weight))] = sums.losses.items()
    # A step divides by the weights that it knows before it runs the model.
    known = goal.weights(features, training)
    np.testing.assert_allclose(known[name], weight, rtol=1e-6)
    metrics = objective.compute_means(sums.metrics)
    return float(total / weight), metrics[name], metrics["accuracy"]

  hits = (logits.argmax(-1) == labels) * mask
  accuracy = hits.sum() / mask.sum()
  expected = pytest.approx([mean, mean, accuracy], rel=1e-5)
  assert means(WEIGHTS, False) == expected
  assert means(None, True) == expected
  assert means(WEIGHTS, True) == pytest.approx(
    [weighted, mean, accuracy], rel=1e-5
  )


def saved_weights(folder):
  run = json.loads((folder / "run.json").read_text())
  return run["training"]["class_weights"]


@pytest.fixture(scope="module")
def rare(base):
  """The folder of data files in which one label is rare."""
  lines = list(own_classification.rows(44))
  kept = [line for i, line in enumerate(lines) if line[1] == "good" or i < 8]
  own_classification.write_tsv(base / "train.tsv", kept)
  return base, [label for _, label in kept]


def test_balanced_weights_are_scikit_learns_and_a_resumed_run_keeps_them(
  rare, tmp_path
):
  folder, labels = rare
  changes = {"do_train": True, "num_train_epochs": 3.0}

  def run(name, stop_at_step=0, **more):
    plan = {"stop_at_step": stop_at_step}
    fine_tuning.run(make(folder, tmp_path / name, plan, **changes, **more))

  run("at_once", class_weights=("balanced",))
  expected = class_weight.compute_class_weight(
    "balanced", classes=np.array(["bad", "good"]), y=labels
  )
  assert saved_weights(tmp_path / "at_once") == expected.tolist()
  run("resumed", stop_at_step=4, class_weights=tuple(map(str, expected)))
  run("resumed")
  assert saved_weights(tmp_path / "resumed") == expected.tolist()
  run("unweighted")
  readers = {
    name: checkpoints.CheckpointReader(str(tmp_path / name))
    for name in ("at_once", "resumed", "unweighted")
  }
  kernel = "output_weights"
  for name in readers["at_once"].shapes:
    np.testing.assert_array_equal(
      readers["resumed"].get(name), readers["at_once"].get(name)
    )
  other = readers["unweighted"].get(kernel)
  assert np.abs(other - readers["at_once"].get(kernel)).max() > 1e-4


def test_balanced_weights_of_tags_ignore_one_that_the_rows_lack():
  tags = ["O", "B-LOC", "O"] * 20
  task = setups.with_labels(
    ner.NerTask(tokenizer=None, settings=None), ("O", "B-LOC", "I-LOC")
  )
  weights = fine_tuning.compute_class_weights(
    ("balanced",), task, [{"label": tags}]
  )
  expected = class_weight.compute_class_weight(
    "balanced", classes=np.array(["O", "B-LOC"]), y=tags
  )
  assert weights == (*expected, 1.0)
