"""A diverged loss stops the training."""

import pytest

from bert_tf.training import divergence


def steps_until_stopped(losses):
  check = divergence.LossCheck("out")
  for step, loss in enumerate(losses, start=1):
    try:
      check.add(step, loss, 1.0)
    except divergence.DivergedError:
      return step
  return None


@pytest.mark.parametrize(
  ("losses", "stopped"),
  [
    ([0.7, float("nan")], 2),
    ([float("inf")], 1),
    # Classification, --learning_rate=100.
    ([0.69, 0.69, 258.1, 1.2e4, 544.8, 5e3], 5),
    # A high but falling loss, as at the start of a regression.
    ([5e6, 4e6, 8e6, 2e6, 2e6], None),
    # Outliers.
    ([0.7, 500.0, 500.0, 0.7, 500.0, 0.6], None),
    # A resumed run whose loss was small.
    ([0.001, 0.3, 0.4, 0.5, 0.6], None),
  ],
)
def test_a_loss_that_runs_away_stops_the_training(losses, stopped):
  assert steps_until_stopped(losses) == stopped
