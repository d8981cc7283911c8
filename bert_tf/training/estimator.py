"""Trains, evaluates and predicts: the loop around a model and its loss."""

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf
import tqdm
from absl import logging

from bert_tf import checkpoints, distribution, optimization
from bert_tf import mixed_precision as precision
from bert_tf.losses import Sums
from bert_tf.modeling import Tensor
from bert_tf.training import config as training_config
from bert_tf.training import evaluation as periodic_evaluation
from bert_tf.training import evaluation_step, progress, restore
from bert_tf.training import signals as stop_signals
from bert_tf.training import step as training_step

Features = dict[str, tf.Tensor]


class DivergedError(ValueError):
  """A loss that is no longer finite."""


class Estimator:
  """Runs one model.

  Args:
    model_fn: makes the model, with every variable built.
    loss_fn: (outputs, features) to sums; the training loss is the total of
      sum / weight over their names.
    eval_fn: (outputs, features) to sums of what is reported; the mean over a
      data set is the total of the sums over the total of the weights.
    config: how to train.

  Attributes:
    model: the model.
    optimizer: of the model's variables that get a gradient.
    train_step: one step, from features to the sums that are logged.
    was_interrupted: whether a signal ended the last call of `train`.
  """

  def __init__(
    self,
    model_fn: Callable[[], keras.Model],
    loss_fn: Callable[[Tensor, Features], Sums],
    eval_fn: Callable[[Tensor, Features], Sums],
    config: training_config.TrainConfig,
  ) -> None:
    # Initial values are drawn from Keras' global generator.
    keras.utils.set_random_seed(config.seed)
    precision.check_devices(config.precision)
    with precision.of_new_layers(config.precision):
      self.model = model_fn()
    optimization.freeze(self.model.weights, config.freeze_layers)
    if config.recompute:
      _recompute_layers(self.model)
    self.config = config
    self.optimizer = optimization.create_optimizer(
      config.learning_rate,
      config.num_train_steps,
      config.num_warmup_steps,
      config.optimizer,
      config.layerwise_lr_decay,
    )
    if config.precision == "float16":
      self.optimizer.loss_scale = precision.LossScale()
    self.train_step = training_step.TrainingStep(
      self.model,
      self.optimizer,
      loss_fn,
      eval_fn,
      config.train_batch_size,
      config.gradient_accumulation_steps,
      config.seed,
      config.use_xla,
    )
    self._steps = tf.function(self._run_steps)
    self._evaluation_step = evaluation_step.EvaluationStep(
      self.model, loss_fn, eval_fn
    )
    self._eval_writer = None
    self._is_training = False
    self._loaded_step = 0
    self.was_interrupted = False

  def train(
    self,
    input_fn: Callable[[int], tf.data.Dataset],
    evaluate_fn: Callable[[], periodic_evaluation.Results] | None = None,
  ) -> int:
    """Trains until num_train_steps, or until SIGTERM or Ctrl-C.

    Starts from the newest checkpoint of output_dir, else from
    init_checkpoint, else from random values. A signal saves a checkpoint
    before this returns; the same call goes on from it, to the same weights.

    Args:
      input_fn: from the number of steps done to the batches that follow.
      evaluate_fn: calls `evaluate` and returns the results; it is called
        every eval_every_steps and after the last step, if that is not 0.

    Returns:
      The number of steps done, num_train_steps unless a signal came or
      early_stopping_patience was exhausted.

    Raises:
      ValueError: if a checkpoint does not fit, or there is no best_metric
        among the results.
      DivergedError: if the loss is not finite.
    """
    config = self.config
    self.was_interrupted = False
    self.train_step.build(input_fn(0).element_spec)
    step = restore.restore_for_training(
      self.model, self.optimizer, config.output_dir, config.init_checkpoint
    )
    distribution.check_same({"the step found in output_dir": step})
    evaluation = periodic_evaluation.PeriodicEvaluation(
      evaluate_fn,
      config.output_dir,
      config.eval_every_steps,
      config.num_train_steps,
      config.best_metric,
      config.early_stopping_patience,
      step,
    )
    if step >= config.num_train_steps:
      logging.info(
        "%s is at step %d: nothing is left of num_train_steps %d; raise the "
        "flag to go on.",
        config.output_dir,
        step,
        config.num_train_steps,
      )
      return step
    if not checkpoints.listed(config.output_dir):
      self._save()
    with stop_signals.StopSignals() as stop:
      step, received = self._train_from(
        step, iter(input_fn(step)), stop, evaluation
      )
    self._say_why_it_ended(step, received, evaluation)
    return step

  def _say_why_it_ended(
    self,
    step: int,
    received: str,
    evaluation: periodic_evaluation.PeriodicEvaluation,
  ) -> None:
    """Logs a signal, or an early stop, and where the best checkpoint is."""
    num_train_steps = self.config.num_train_steps
    if evaluation.best():
      logging.info(
        "Kept in %s: %s.",
        os.path.join(self.config.output_dir, periodic_evaluation.BEST_DIR),
        evaluation.best(),
      )
    if step == num_train_steps:
      return
    if evaluation.is_out_of_patience:
      logging.info(
        "Stopped early at step %d of %d: nothing better in "
        "early_stopping_patience %d evaluations.",
        step,
        num_train_steps,
        self.config.early_stopping_patience,
      )
      return
    self.was_interrupted = True
    logging.info(
      "Stopped by %s at step %d of %d and saved; the same command goes on.",
      received,
      step,
      num_train_steps,
    )

  def _train_from(
    self,
    step: int,
    iterator: Iterator[Features],
    stop: stop_signals.StopSignals,
    evaluation: periodic_evaluation.PeriodicEvaluation,
  ) -> tuple[int, str]:
    """Trains until it is to end, saving; returns the steps and the signal."""
    config = self.config
    steps_a_second = 1
    received = ""
    ends = evaluation.is_out_of_patience
    with progress.Progress(
      config.output_dir,
      step,
      config.num_train_steps,
      config.train_batch_size,
      config.log_every_steps,
    ) as report:
      while not ends:
        # Not longer than a second, so that a signal is soon answered.
        num_steps = min(
          steps_a_second,
          config.iterations_per_loop,
          evaluation.steps_to_next(step),
          _steps_to_next(config.log_every_steps, step),
          _steps_to_next(config.save_checkpoints_steps, step),
        )
        start = time.monotonic()
        sums = self._steps(iterator, tf.constant(num_steps))
        step += num_steps
        self._check_loss(step, float(sums["loss"][0]) / num_steps)
        pace = max(1, int(num_steps / (time.monotonic() - start)))
        steps_a_second, received = _agreed(pace, stop.received)
        report.add(step, sums)
        if evaluation.is_due(step):
          # Before it is saved: what a checkpoint follows on is all known.
          self._evaluate_in_between(evaluation, report)
        is_last = step == config.num_train_steps
        ends = is_last or received or evaluation.is_out_of_patience
        if ends or step % config.save_checkpoints_steps == 0:
          self._save()
    return step, received

  def _check_loss(self, step: int, loss: float) -> None:
    """Raises DivergedError for a loss that is not finite."""
    if not math.isfinite(loss):
      raise DivergedError(
        f"the loss became {loss} by step {step}; the last checkpoint is "
        f"{checkpoints.latest(self.config.output_dir)}. Lower "
        "--learning_rate or lengthen the warm-up."
      )

  def _evaluate_in_between(
    self,
    evaluation: periodic_evaluation.PeriodicEvaluation,
    report: progress.Progress,
  ) -> None:
    """Evaluates the weights as they are and says what came out."""
    start = time.monotonic()
    self._is_training = True
    try:
      weights = {v.path: v.value for v in self.model.weights}
      weights[checkpoints.GLOBAL_STEP] = self.optimizer.iterations.value
      line = evaluation.run(weights)
    finally:
      self._is_training = False
    report.say(line)
    report.leave_out(time.monotonic() - start)

  def evaluate(
    self,
    dataset: tf.data.Dataset,
    num_steps: int | None = None,
    on_outputs: Callable[[Tensor, Features], None] | None = None,
    more_results: Callable[[], Mapping[str, float]] | None = None,
  ) -> dict[str, float | int]:
    """Evaluates the newest checkpoint; inside `train`, the weights as they are.

    Args:
      dataset: batches.
      num_steps: how many of them; all of a finite dataset if None.
      on_outputs: called with every batch's outputs and features.
      more_results: called after the last batch; what it returns is reported
        too.

    Returns:
      `loss`, the mean over batches of the training loss; what eval_fn
      reports, as the mean over examples; `global_step`. Also written as
      events to output_dir/eval.
    """
    self.load_for_inference()
    bar = tqdm.tqdm(
      dataset.take(-1 if num_steps is None else num_steps),
      total=num_steps,
      desc="evaluating",
      unit="batch",
      leave=not self._is_training,
      disable=not sys.stderr.isatty(),
    )
    totals = None
    for features in bar:
      sums, outputs = self._evaluation_step.evaluate(features)
      if on_outputs:
        on_outputs(outputs, features)
      # Summed in float64: a data set is longer than a batch.
      sums = tf.nest.map_structure(lambda t: np.float64(t.numpy()), sums)
      totals = progress.added(totals, sums)
    if totals is None:
      raise ValueError("there is not one whole batch to evaluate on.")
    results = progress.means(totals)
    if more_results:
      results.update(more_results())
    return self.report(results)

  def report(
    self, results: Mapping[str, float | int]
  ) -> dict[str, float | int]:
    """Writes what was found of the loaded weights as events to output_dir/eval.

    Args:
      results: by name.

    Returns:
      They and `global_step`.
    """
    if self._eval_writer is None:
      events_dir = os.path.join(self.config.output_dir, "eval")
      self._eval_writer = progress.events_writer(events_dir)
    progress.write_events(self._eval_writer, self._loaded_step, results)
    return {**results, checkpoints.GLOBAL_STEP: self._loaded_step}

  def predict(self, dataset: tf.data.Dataset) -> Iterator[Tensor]:
    """Yields the newest checkpoint's outputs for each batch, as NumPy."""
    self.load_for_inference()
    for features in dataset:
      outputs = self._evaluation_step.predict(features)
      yield tf.nest.map_structure(lambda t: t.numpy(), outputs)

  def load_for_inference(self) -> int:
    """Loads the newest checkpoint, or init_checkpoint; returns its step.

    While training it loads nothing and returns the step that is reached.
    """
    config = self.config
    if self._is_training:
      self._loaded_step = int(self.optimizer.iterations.numpy())
    else:
      self._loaded_step = restore.load_for_inference(
        self.model, config.output_dir, config.init_checkpoint
      )
    return self._loaded_step

  def _save(self) -> str:
    variables = checkpoints.training_variables(self.model, self.optimizer)
    path = checkpoints.save(
      self.config.output_dir,
      {name: variable.value for name, variable in variables.items()},
      self.config.keep_checkpoint_max,
    )
    distribution.told_by_all({})  # Before another process reads it.
    logging.info("Saved %s.", path)
    return path

  def _run_steps(self, iterator: Iterator, num_steps: tf.Tensor) -> Sums:
    sums = self.train_step(next(iterator))
    for _ in tf.range(num_steps - 1):
      sums = progress.added(sums, self.train_step(next(iterator)))
    return sums


def _recompute_layers(model: keras.Model) -> None:
  """Raises ValueError if there are none."""
  if not hasattr(model, "bert"):
    raise ValueError(
      "recompute is for the layers of BERT, and this model trains none of "
      "them; leave --recompute out."
    )
  model.bert.encoder.recompute = True


def _agreed(pace: int, received: str) -> tuple[int, str]:
  """Returns the least pace and a signal, if any, of all processes."""
  told = distribution.told_by_all({"pace": pace, "received": received})
  signals = [one["received"] for one in told if one["received"]]
  return min(one["pace"] for one in told), (signals or [""])[0]


def _steps_to_next(every: int, step: int) -> int:
  return every - step % every
