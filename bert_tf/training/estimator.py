"""Trains, evaluates and predicts: the loop around a training step."""

import collections
import functools
import math
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import distribution, optimization
from bert_tf.checkpoint import checkpoints, run_folder
from bert_tf.files import messages
from bert_tf.model.layers import layer_norm, lora, mixed_precision
from bert_tf.model.losses import Sums
from bert_tf.model.model_config import BertConfig
from bert_tf.training import (
  adapters,
  budget,
  compilation,
  evaluation,
  progress,
  restore,
)
from bert_tf.training.config import TrainConfig
from bert_tf.training.objective import (
  BatchSums,
  Features,
  Objective,
  add_sums,
  compute_means,
)
from bert_tf.training.step import TrainingStep
from bert_tf.training.update import Update


class DivergedError(ValueError):
  """A loss, a gradient or a weight is not finite."""


class Estimator:
  """Trains, evaluates and saves one model in one folder.

  The objective builds the model from `bert_config`. `start` reads
  config.init_checkpoint, if that is open already.
  """

  def __init__(
    self,
    objective: Objective,
    bert_config: BertConfig,
    config: TrainConfig,
    start: checkpoints.CheckpointReader | None = None,
  ) -> None:
    self.model = _build_model(objective, bert_config, config)
    self.objective = objective
    self.config = config
    self._start = start
    # The schedule of a run whose number of steps is planned.
    self._planned: budget.PlannedWarmupLinearDecay | None = None
    if config.train_seconds:
      self._planned = budget.PlannedWarmupLinearDecay(config.learning_rate)
    optimizer = config.optimizer or optimization.create_optimizer(
      config.learning_rate,
      config.num_train_steps,
      config.num_warmup_steps,
      schedule=self._planned,
    )
    is_scaled = config.precision == "float16"
    self.update = Update(
      optimizer, mixed_precision.LossScale() if is_scaled else None
    )
    self.train_step = TrainingStep(
      self.model,
      self.update,
      objective,
      config.train_batch_size,
      config.gradient_accumulation_steps,
      config.seed,
    )
    self._strategy = tf.distribute.get_strategy()
    self._num_rows = 0  # Size of the largest evaluation batch so far.
    # With dynamic padding, TensorFlow would otherwise trace each width.
    self._evaluate_batch, self._predict_batch = (
      tf.function(
        functools.partial(self._run_replicas, has_loss),
        reduce_retracing=True,
        autograph=False,
      )
      for has_loss in (True, False)
    )
    self._step = 0  # The step of the weights in memory.
    self.was_interrupted = False  # Whether Ctrl-C ended `train`.

  def train(
    self,
    input_fn: Callable[[int], tf.data.Dataset],
    evaluate_fn: Callable[[], evaluation.Results] | None = None,
  ) -> int:
    """Trains to the last step, or until SIGTERM or Ctrl-C.

    Training starts from the newest checkpoint of output_dir, else from
    init_checkpoint, else from random values. After a signal it saves a
    checkpoint, from which the same call resumes to the weights of an
    uninterrupted run. SIGTERM, with which clusters preempt jobs, then ends the
    process with its usual status, 143.

    Args:
      input_fn: returns the batches after a number of steps.
      evaluate_fn: evaluates the current weights and returns the results, as
        `evaluate` does. It is called every eval_every_steps and after the last
        step, unless eval_every_steps is 0.

    Returns:
      The step reached: the last, unless Ctrl-C came or early_stopping_patience
      was exhausted.

    Raises:
      ValueError: if a checkpoint does not fit, or if the results lack
        best_metric.
      DivergedError: if a value is not finite. These weights are not saved.
      SystemExit: with status 143, after SIGTERM.
    """
    config = self.config
    self.was_interrupted = False
    # All processes look before any of them saves: `check_same` waits for all.
    is_new = not checkpoints.list_checkpoints(config.output_dir)
    self.build_step(input_fn(0).element_spec)
    step = restore.restore_for_training(
      self.model, self.update, config, self._start
    )
    self._step = step
    distribution.check_same({"the step found in output_dir": step})
    evaluations = evaluation.PeriodicEvaluation(evaluate_fn, config, step)
    num_steps = config.num_train_steps
    if self._planned:
      num_steps = budget.plan_steps(
        config,
        step,
        is_new,
        self.train_step,
        restore.training_variables(self.model, self.update),
        iter(input_fn(step).repeat()),  # Timing may take more than remain.
      )
      self._planned.num_train_steps.assign(num_steps)
    last_step = min(num_steps, config.stop_at_step or num_steps)
    if step >= last_step:
      logging.info(
        "%s is at step %d/%d, so nothing is left to train.",
        *(config.output_dir, step, num_steps),
      )
      return step
    logging.info("Training on %s.", distribution.describe_devices())
    batches = iter(input_fn(step))
    if is_new:
      self._save(self._tensors())
    steps_per_second, received = 1, ""
    ends = evaluations.is_out_of_patience
    with (
      StopSignals() as stop,
      progress.Progress(config, step, num_steps) as report,
    ):
      intervals = (
        config.eval_every_steps or sys.maxsize,
        report.log_every_steps,
        config.save_checkpoints_steps,
      )
      while not ends:
        group_size = min(
          # A group lasts at most a second, so that a signal is soon answered.
          steps_per_second,
          last_step - step,
          config.iterations_per_loop,
          *(interval - step % interval for interval in intervals),
        )
        start = time.monotonic()
        sums = self.train_step.run(batches, group_size)
        self._step = step = step + group_size
        means = compute_means(sums)
        # An infinite gradient makes every weight NaN, which the loss shows a
        # step later. With a loss scale, such a step is only counted.
        names = (
          ("loss",) if self.update.loss_scale else ("loss", "gradient_norm")
        )
        self._check_finite(step, {n: math.isfinite(means[n]) for n in names})
        pace = int(group_size / (time.monotonic() - start))
        steps_per_second, received = _agree(max(1, pace), stop.received)
        report.add(step, sums)
        is_last = step == last_step
        is_saved = step % config.save_checkpoints_steps == 0
        is_evaluated = config.eval_every_steps and (
          is_last or step % config.eval_every_steps == 0
        )
        if is_last or received or is_saved or is_evaluated:
          tensors = self._tensors()
          floats = {n: t for n, t in tensors.items() if t.dtype.is_floating}
          # One call, since reading each result would wait for the device.
          are_finite = tf.stack(
            [tf.reduce_all(tf.math.is_finite(t)) for t in floats.values()]
          ).numpy()
          self._check_finite(step, dict(zip(floats, are_finite)))
        if is_evaluated:
          # Before saving, so that a resumed run knows all earlier evaluations.
          start = time.monotonic()
          iterations = self.update.optimizer.iterations.value
          weights = {checkpoints.GLOBAL_STEP: iterations}
          report.say(evaluations.run(lora.tensors(self.model) | weights))
          report.exclude(time.monotonic() - start)
        ends = bool(is_last or received or evaluations.is_out_of_patience)
        if ends or is_saved:
          self._save(tensors)
    # A signal that came during the last evaluation or save counts too.
    _, received = _agree(1, stop.received)
    self.was_interrupted = bool(received)
    if step < num_steps:
      why = f"by {received}" if received else "early"
      more = " The same command continues from there." if received else ""
      logging.info("Stopped %s at step %d/%d.%s", why, step, num_steps, more)
    if received == signal.SIGTERM.name:
      sys.exit(128 + signal.SIGTERM)
    return step

  def build_step(
    self, element_spec: dict[str, tf.TensorSpec]
  ) -> Callable[[Features], Sums]:
    """Builds the training step in the run's mode, as `TrainingStep.build`."""
    encoder = getattr(self.model, "bert", None)
    hidden_size = encoder.config.hidden_size if encoder else None
    mode = compilation.choose_mode(self.config, hidden_size, element_spec)
    return self.train_step.build(element_spec, mode)

  def load_for_inference(self) -> int:
    """Loads weights as `restore.load_for_inference` and returns their step."""
    self._step = restore.load_for_inference(
      self.model, self.config, self._start
    )
    return self._step

  def evaluate(
    self,
    batches: tf.data.Dataset,
    score: Callable[[Iterator[Any]], Mapping[str, float]] | None = None,
  ) -> dict[str, float | int]:
    """Evaluates the current weights, which were trained or loaded before.

    Args:
      batches: finite batches.
      score: takes the NumPy outputs of each batch, which are computed while it
        reads them, and returns further results.

    Returns:
      `loss`, the mean of the training loss over batches, and the objective's
      metrics, if it has a loss; `global_step`. Also written as events to
      output_dir/eval.

    Raises:
      ValueError: if there is no batch, or the loss is not finite.
    """
    totals: Sums | None = None
    has_loss = self.objective.has_loss
    compute = self._evaluate_batch if has_loss else self._predict_batch

    def compute_outputs() -> Iterator[Any]:
      nonlocal totals
      for outputs, sums in self._run(compute, batches, "evaluating"):
        # Adds up in float64, since a data set has far more terms than a batch.
        totals = add_sums(totals, tf.nest.map_structure(np.float64, sums))
        yield outputs

    stream = compute_outputs()
    scores = score(stream) if score else {}
    collections.deque(stream, maxlen=0)  # What `score` did not need.
    if has_loss and totals is None:
      raise ValueError("there is no whole batch of examples to evaluate on.")
    means = compute_means(totals or {})
    if not math.isfinite(means.get("loss", 0.0)):
      raise DivergedError(f"the evaluation's loss is {means['loss']}.")
    results = {**means, **scores}
    progress.write_events(self._eval_writer, self._step, results)
    return {**results, checkpoints.GLOBAL_STEP: self._step}

  def predict(self, batches: tf.data.Dataset) -> Iterator[Any]:
    """Yields the NumPy outputs of each batch, with the current weights."""
    for outputs, _ in self._run(self._predict_batch, batches, "predicting"):
      yield outputs

  @functools.cached_property
  def _eval_writer(self) -> tf.summary.SummaryWriter:
    return progress.events_writer(os.path.join(self.config.output_dir, "eval"))

  def _run(
    self, function: Callable[..., Any], batches: tf.data.Dataset, what: str
  ) -> Iterator[tuple[Any, Sums]]:
    """Yields the outputs and sums of each batch, in NumPy.

    TPUs need batches of one shape. There, smaller batches are filled up with
    zeros, which have no weight in losses and metrics.
    """
    for features in progress.track(batches, what, "batch"):
      full, num_rows = features, None
      if distribution.needs_full_batches():
        num_rows = next(iter(features.values())).shape[0]
        self._num_rows = max(self._num_rows, num_rows)
        full = {
          name: tf.pad(
            value,
            [(0, self._num_rows - num_rows)]
            + [(0, 0)] * (value.shape.rank - 1),
          )
          for name, value in features.items()
        }
      outputs, sums = tf.nest.map_structure(lambda t: t.numpy(), function(full))
      yield (
        tf.nest.map_structure(lambda value, n=num_rows: value[:n], outputs),
        sums,
      )

  def _run_replicas(self, has_loss: bool, features: Features) -> Any:
    """Returns the outputs and the sums of a batch, on all devices."""

    def run_replica(features: Features) -> BatchSums:
      features = distribution.select_replica_part(features)
      with layer_norm.fused():
        if has_loss:
          return self.objective.loss_sums(self.model, features, training=False)
        outputs = self.model(features, training=False)
        return BatchSums({}, {}, outputs)

    replicas = self._strategy.run(run_replica, (features,))
    losses, sums = tf.nest.map_structure(
      lambda v: self._strategy.reduce(tf.distribute.ReduceOp.SUM, v, axis=None),
      (replicas.losses, replicas.metrics),
    )
    if has_loss:
      loss = tf.add_n([total / weight for total, weight in losses.values()])
      sums = {"loss": (loss, tf.ones([])), **sums}
    return distribution.gather_outputs(replicas.outputs), sums

  def _tensors(self) -> dict[str, tf.Tensor]:
    variables = restore.training_variables(self.model, self.update)
    tensors = {name: variable.value for name, variable in variables.items()}
    return tensors | lora.tensors(self.model)

  def _check_finite(self, step: int, are_finite: Mapping[str, bool]) -> None:
    if bad := [n for n, is_finite in are_finite.items() if not is_finite]:
      path = checkpoints.find_latest(self.config.output_dir)
      raise DivergedError(
        f"{messages.join_names(bad, 3)} stopped being finite by step {step}, "
        f"which is not saved; the last checkpoint is {path}. Lower "
        "`learning_rate`."
      )

  def _save(self, tensors: Mapping[str, tf.Tensor]) -> None:
    output_dir = self.config.output_dir
    # The scores in the folder belong to an older checkpoint.
    run_folder.write_scores(output_dir, {})
    adapters.save_adapter(output_dir, tensors)
    path = checkpoints.save(
      output_dir, tensors, self.config.keep_checkpoint_max
    )
    distribution.barrier()
    logging.info("Saved %s.", path)


def _build_model(
  objective: Objective, bert_config: BertConfig, config: TrainConfig
) -> keras.Model:
  mixed_precision.check_devices(config.precision)
  mixed_precision.set_tf32(config.precision)
  if config.deterministic:
    # There is no public way back. An operation without a deterministic form
    # raises UnimplementedError when it runs.
    tf.config.experimental.enable_op_determinism()
  # Keras' initializers draw their seeds from Python's global generator.
  generator_state = random.getstate()
  random.seed(config.seed)
  try:
    with mixed_precision.policy_scope(config.precision):
      model = objective.build_model(bert_config)
      if config.lora_rank:
        lora.enable(model, config.lora_rank, config.lora_alpha)
  finally:
    random.setstate(generator_state)
  optimization.freeze(model.weights, config.freeze_layers)
  if config.recompute:
    model.bert.encoder.recompute = True
  return model


class StopSignals:
  """Records the first SIGTERM or Ctrl-C; a second signal ends the process."""

  def __init__(self) -> None:
    self.received = ""  # The name of the signal.
    self._handlers: dict[int, Any] = {}

  def __enter__(self) -> "StopSignals":
    if threading.current_thread() is threading.main_thread():
      for number in (signal.SIGTERM, signal.SIGINT):
        self._handlers[number] = signal.signal(number, self._record)
    return self

  def __exit__(self, *unused_error: object) -> None:
    for number, handler in self._handlers.items():
      signal.signal(number, handler)

  def _record(self, number: int, unused_frame: object) -> None:
    self.received = signal.Signals(number).name
    logging.info("Received %s; saving and stopping.", self.received)
    self.__exit__()  # A second signal has its usual meaning.


def _agree(pace: int, received: str) -> tuple[int, str]:
  # The slowest process sets the pace; a signal to any of them stops all.
  own = {"pace": pace, "received": received}
  processes = distribution.all_gather_objects(own)
  signals = (process["received"] for process in processes)
  return min(p["pace"] for p in processes), next(filter(None, signals), "")
