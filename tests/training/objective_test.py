"""The losses and metrics of a task as sums and weights."""

import pytest

from bert_tf.training import estimator, objective
from tests.support import line_model


class LossOnlyObjective(objective.Objective):
  """Computes the sums of the line model without returning its outputs."""

  def loss_sums(self, model, features, training):
    sums = super().loss_sums(model, features, training)
    return sums._replace(outputs=())


def make(output_dir, objective_class):
  config = line_model.make(output_dir, rate=0.0).config
  functions = line_model.loss_fn, line_model.weights_fn, line_model.loss_fn
  return estimator.Estimator(
    lambda: line_model.Line(), objective_class(*functions), config
  )


def test_an_objective_may_compute_its_loss_without_outputs(tmp_path):
  results = []
  for objective_class in (objective.Objective, LossOnlyObjective):
    folder = tmp_path / objective_class.__name__
    runner = make(folder, objective_class)
    runner.train(line_model.batches)
    results.append(runner.evaluate(line_model.batches(0), 3))
  assert results[0] == results[1]
  line_model.assert_same(
    line_model.weights_at(tmp_path / "Objective", 30),
    line_model.weights_at(tmp_path / "LossOnlyObjective", 30),
  )


def test_a_mean_is_of_examples_not_of_batches():
  batches = [{"loss": (2.0, 1.0)}, {"loss": (1.0, 3.0)}]
  totals = None
  for sums in batches:
    totals = objective.add(totals, sums)
  assert objective.means(totals) == {"loss": pytest.approx(0.75)}
  assert objective.means({"loss": (0.0, 0.0)}) == {"loss": 0.0}
