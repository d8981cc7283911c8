"""Trains, evaluates and predicts: the loop around a model and its loss."""

import contextlib
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf
import tqdm
from absl import logging

from bert_tf import checkpoints, distribution, mixed_precision, optimization
from bert_tf.losses import Sums
from bert_tf.modeling import Tensor
from bert_tf.training import config as training_config
from bert_tf.training import evaluation, progress, restore, signals, steps
from bert_tf.training import sums as sums_lib
from bert_tf.training.steps import Features, SumsFn, WeightsFn


class DivergedError(ValueError):
  """A loss that is no longer finite."""


class Estimator:
  """Runs one model.

  Args:
    model_fn: makes the model and builds all its variables.
    loss_fn: (outputs, features) to sums; the training loss is the total of
      sum / weight over their names.
    weights_fn: features to the weights of these sums, by name; needed before
      the model is run.
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
    loss_fn: SumsFn,
    weights_fn: WeightsFn,
    eval_fn: SumsFn,
    config: training_config.TrainConfig,
  ) -> None:
    mixed_precision.check_devices(config.precision)
    with (
      mixed_precision.policy_scope(config.precision),
      _initial_values_of(config.seed),
    ):
      self.model = model_fn()
    optimization.freeze(self.model.weights, config.freeze_layers)
    if config.recompute:
      _checkpoint_gradients(self.model)
    self.config = config
    self.optimizer = optimization.create_optimizer(
      config.learning_rate,
      config.num_train_steps,
      config.num_warmup_steps,
      config.optimizer,
      config.layerwise_lr_decay,
    )
    if config.precision == "float16":
      self.optimizer.loss_scale = mixed_precision.LossScale()
    self.train_step = steps.TrainingStep(
      self.model,
      self.optimizer,
      loss_fn,
      weights_fn,
      eval_fn,
      config.train_batch_size,
      config.gradient_accumulation_steps,
      config.seed,
      config.use_xla,
    )
    self._steps = tf.function(self._run_steps)
    self._evaluation_step = steps.EvaluationStep(self.model, loss_fn, eval_fn)
    self._eval_writer: tf.summary.SummaryWriter | None = None
    # Of the weights in memory; None for values that are still random.
    self._step: int | None = None
    self.was_interrupted = False

  def train(
    self,
    input_fn: Callable[[int], tf.data.Dataset],
    evaluate_fn: Callable[[], evaluation.Results] | None = None,
  ) -> int:
    """Trains until num_train_steps, or until SIGTERM or Ctrl-C.

    Starts from the newest checkpoint of output_dir, else from
    init_checkpoint, else from random values. After a signal a checkpoint is
    saved; the same call resumes from it and ends with the same weights.

    Args:
      input_fn: takes the number of steps done, returns the batches after them.
      evaluate_fn: evaluates the weights as they are, as `evaluate` does, and
        returns the results; called every eval_every_steps and after the last
        step, unless eval_every_steps is 0.

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
    step = self._restore(input_fn(0).element_spec)
    evaluations = evaluation.PeriodicEvaluation(
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
    with signals.StopSignals() as stop:
      step, received = self._train_from(
        step, iter(input_fn(step)), stop, evaluations
      )
    self._log_end(step, received, evaluations)
    return step

  def _restore(self, element_spec: dict[str, tf.TensorSpec]) -> int:
    """Builds the training step and loads weights; returns the steps done."""
    self.train_step.build(element_spec)
    self._step = restore.restore_for_training(
      self.model,
      self.optimizer,
      self.config.output_dir,
      self.config.init_checkpoint,
    )
    distribution.check_same({"the step found in output_dir": self._step})
    return self._step

  def _log_end(
    self, step: int, received: str, evaluations: evaluation.PeriodicEvaluation
  ) -> None:
    """Logs why training ended early and where the best checkpoint is."""
    num_train_steps = self.config.num_train_steps
    if evaluations.best():
      logging.info(
        "Kept in %s: %s.",
        os.path.join(self.config.output_dir, evaluation.BEST_DIR),
        evaluations.best(),
      )
    if step == num_train_steps:
      return
    if evaluations.is_out_of_patience:
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
    stop: signals.StopSignals,
    evaluations: evaluation.PeriodicEvaluation,
  ) -> tuple[int, str]:
    """Trains and saves until the end, a signal or the end of patience.

    Returns:
      The number of steps done and the name of the signal, or "".
    """
    config = self.config
    steps_per_second = 1
    received = ""
    ends = evaluations.is_out_of_patience
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
          steps_per_second,
          config.iterations_per_loop,
          evaluations.steps_to_next(step),
          _steps_to_next(config.log_every_steps, step),
          _steps_to_next(config.save_checkpoints_steps, step),
        )
        start = time.monotonic()
        sums = self._steps(iterator, tf.constant(num_steps))
        self._step = step = step + num_steps
        self._check_loss(step, float(sums["loss"][0]) / num_steps)
        pace = max(1, int(num_steps / (time.monotonic() - start)))
        steps_per_second, received = _agree(pace, stop.received)
        report.add(step, sums)
        if evaluations.is_due(step):
          # Before saving: a resumed run knows all evaluations before it.
          self._evaluate_while_training(evaluations, report)
        is_last = step == config.num_train_steps
        ends = bool(is_last or received or evaluations.is_out_of_patience)
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

  def _evaluate_while_training(
    self,
    evaluations: evaluation.PeriodicEvaluation,
    report: progress.Progress,
  ) -> None:
    """Evaluates the weights as they are and logs the results."""
    start = time.monotonic()
    weights = {v.path: v.value for v in self.model.weights}
    weights[checkpoints.GLOBAL_STEP] = self.optimizer.iterations.value
    report.say(evaluations.run(weights))
    report.leave_out(time.monotonic() - start)

  def load_for_inference(self) -> int:
    """Loads the newest checkpoint of output_dir, or else init_checkpoint.

    Returns:
      The step of the checkpoint; 0 for init_checkpoint.

    Raises:
      ValueError: if a checkpoint does not fit, or if all are damaged.
    """
    self._step = restore.load_for_inference(
      self.model, self.config.output_dir, self.config.init_checkpoint
    )
    return self._step

  def evaluate_checkpoint(
    self, dataset: tf.data.Dataset, num_steps: int | None = None
  ) -> dict[str, float | int]:
    """Evaluates the newest checkpoint; as `load_for_inference`, `evaluate`."""
    self.load_for_inference()
    return self.evaluate(dataset, num_steps)

  def evaluate(
    self,
    dataset: tf.data.Dataset,
    num_steps: int | None = None,
    on_outputs: Callable[[Tensor, Features], None] | None = None,
    more_results: Callable[[], Mapping[str, float]] | None = None,
  ) -> dict[str, float | int]:
    """Evaluates the weights as they are: trained, or loaded before.

    Args:
      dataset: batches.
      num_steps: how many of them; all of a finite dataset if None.
      on_outputs: called with every batch's outputs and features.
      more_results: called after the last batch; returns further results.

    Returns:
      `loss`, the mean of the training loss over batches; the results of
      eval_fn, means over examples; `global_step`. Also written as events to
      output_dir/eval.
    """
    bar = tqdm.tqdm(
      dataset.take(-1 if num_steps is None else num_steps),
      total=num_steps,
      desc="evaluating",
      unit="batch",
      leave=False,
      disable=not sys.stderr.isatty(),
    )
    totals = None
    for features in bar:
      sums, outputs = self._evaluation_step.evaluate(features)
      if on_outputs:
        on_outputs(outputs, features)
      # Summed in float64: a data set is longer than a batch.
      sums = tf.nest.map_structure(lambda t: np.float64(t.numpy()), sums)
      totals = sums_lib.add(totals, sums)
    if totals is None:
      raise ValueError("there is not one whole batch to evaluate on.")
    results = sums_lib.means(totals)
    if more_results:
      results.update(more_results())
    return self.report(results)

  def report(
    self, results: Mapping[str, float | int]
  ) -> dict[str, float | int]:
    """Writes results of the weights as they are as events to output_dir/eval.

    Args:
      results: by name.

    Returns:
      They and `global_step`.
    """
    step = self._weights_step()
    if self._eval_writer is None:
      events_dir = os.path.join(self.config.output_dir, "eval")
      self._eval_writer = progress.events_writer(events_dir)
    progress.write_events(self._eval_writer, step, results)
    return {**results, checkpoints.GLOBAL_STEP: step}

  def predict(self, dataset: tf.data.Dataset) -> Iterator[Tensor]:
    """Yields the outputs of the weights as they are, NumPy, for each batch."""
    self._weights_step()
    for features in dataset:
      outputs = self._evaluation_step.predict(features)
      yield tf.nest.map_structure(lambda t: t.numpy(), outputs)

  def _weights_step(self) -> int:
    """Returns the step of the weights in memory."""
    if self._step is None:
      raise RuntimeError("call train or load_for_inference before.")
    return self._step

  def _save(self) -> str:
    variables = checkpoints.training_variables(self.model, self.optimizer)
    path = checkpoints.save(
      self.config.output_dir,
      {name: variable.value for name, variable in variables.items()},
      self.config.keep_checkpoint_max,
    )
    distribution.barrier()  # Before another process reads it.
    logging.info("Saved %s.", path)
    return path

  def _run_steps(self, iterator: Iterator, num_steps: tf.Tensor) -> Sums:
    """Takes steps within one tf.function; returns the totals of their sums."""
    sums = self.train_step(next(iterator))
    for _ in tf.range(num_steps - 1):
      sums = sums_lib.add(sums, self.train_step(next(iterator)))
    return sums


@contextlib.contextmanager
def _initial_values_of(seed: int) -> Iterator[None]:
  """A scope in which new variables get the initial values of a seed.

  Keras' initializers draw their own seeds from Python's global generator. It
  goes on afterwards as if nothing had been drawn.
  """
  state = random.getstate()
  random.seed(seed)
  try:
    yield
  finally:
    random.setstate(state)


def _checkpoint_gradients(model: keras.Model) -> None:
  """Has the encoder's layers computed again for the gradient, not kept.

  Raises:
    ValueError: if the model trains no encoder.
  """
  if not hasattr(model, "bert"):
    raise ValueError(
      "recompute is for the layers of BERT, and this model trains none of "
      "them; leave --recompute out."
    )
  model.bert.encoder.recompute = True


def _agree(pace: int, received: str) -> tuple[int, str]:
  """Returns the least pace and a signal, if any, of all processes."""
  found = distribution.all_gather_objects({"pace": pace, "received": received})
  received = next((one["received"] for one in found if one["received"]), "")
  return min(one["pace"] for one in found), received


def _steps_to_next(every: int, step: int) -> int:
  """Returns the steps until the next multiple of `every`."""
  return every - step % every
