"""Trains, evaluates and predicts: the loop around a model and its loss."""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import (
  checkpoints,
  distribution,
  optimization,
)
from bert_tf.kernels import backend
from bert_tf.layers import lora, mixed_precision
from bert_tf.losses import Sums
from bert_tf.model_folder import run_folder
from bert_tf.modeling import Tensor
from bert_tf.training import (
  adapters,
  budget,
  divergence,
  evaluation,
  model_setup,
  progress,
  restore,
  signals,
  tuning,
)
from bert_tf.training import config as training_config
from bert_tf.training import objective as objective_lib
from bert_tf.training import step as step_lib
from bert_tf.training.objective import Features


class Estimator:
  """Runs one model.

  Args:
    model_fn: makes the model and builds all its variables.
    objective: the loss to train and the metrics to report.
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
    objective: objective_lib.Objective,
    config: training_config.TrainConfig,
  ) -> None:
    # First: making the model takes seconds, in which they may be deleted.
    self._run_files = run_folder.RunFiles(config.output_dir)
    backend.check_tensorflow()
    mixed_precision.check_devices(config.precision)
    with (
      mixed_precision.policy_scope(config.precision),
      model_setup.initial_values_of(config.seed),
    ):
      self.model = model_fn()
      distribution.hide_first_notes()
      if config.lora_rank:
        lora.enable(self.model, config.lora_rank, config.lora_alpha)
    optimization.freeze(self.model.weights, config.freeze_layers)
    if config.recompute:
      model_setup.checkpoint_gradients(self.model)
    self.config = config
    self.optimizer = optimization.create_optimizer(
      config.learning_rate,
      config.num_train_steps,
      config.num_warmup_steps,
      config.optimizer,
      config.layerwise_lr_decay,
      budget.schedule_of(config),
    )
    self._budget = budget.of_run(config, self.optimizer)
    if config.precision == "float16":
      self.optimizer.loss_scale = mixed_precision.LossScale()
    self.train_step = step_lib.TrainingStep(
      self.model,
      self.optimizer,
      objective,
      config.train_batch_size,
      config.gradient_accumulation_steps,
      config.seed,
      step_lib.Form(bool(config.use_xla)),
    )
    self._steps = tf.function(self._run_steps, autograph=False)
    self._evaluation_step = step_lib.EvaluationStep(self.model, objective)
    self._eval_writer: tf.summary.SummaryWriter | None = None
    # Of the weights in memory; None for values that are still random.
    self._step: int | None = None
    # The newest checkpoint of output_dir, once it is written or read.
    self._newest: str | None = None
    self.was_interrupted = False

  def train(
    self,
    input_fn: Callable[[int], tf.data.Dataset],
    evaluate_fn: Callable[[], evaluation.Results] | None = None,
  ) -> int:
    """Trains to the end of the budget, or until SIGTERM or Ctrl-C.

    Starts from the newest checkpoint of output_dir, else from
    init_checkpoint, else from random values. After a signal a checkpoint is
    saved; the same call resumes from it and ends with the same weights.

    Args:
      input_fn: takes the number of steps done, returns the batches after them.
      evaluate_fn: evaluates the weights as they are, as `evaluate` does, and
        returns the results; called every eval_every_steps and after the last
        step, unless eval_every_steps is 0.

    Returns:
      The number of steps done, num_train_steps unless there is a time, a signal
      came or early_stopping_patience was exhausted.

    Raises:
      ValueError: if a checkpoint does not fit, or there is no best_metric
        among the results.
      DivergedError: if the loss, the gradients or the weights are not finite,
        or the loss is far from where it began; nothing is saved.
    """
    config = self.config
    self.was_interrupted = False
    element_spec = input_fn(0).element_spec
    form = tuning.known(config, element_spec)
    self._set_form(form or step_lib.Form.PLAIN)
    step = self._restore(element_spec)
    evaluations = evaluation.PeriodicEvaluation(
      evaluate_fn,
      config.output_dir,
      config.eval_every_steps,
      config.best_metric,
      config.early_stopping_patience,
      step,
    )
    self._budget.begin(step)
    if not self._budget.steps_left(step):
      logging.info(
        "%s is at step %s: nothing is left to train; raise `%s` to go on.",
        config.output_dir,
        self._budget.describe(step),
        "train_hours" if config.train_seconds else "num_train_steps",
      )
      return step
    iterator = iter(input_fn(step))
    if not checkpoints.listed(config.output_dir):
      tensors = self._tensors()
      # Meanwhile TensorFlow works on the graph of the steps, which it does when
      # it is first called, even for none.
      self._save(tensors, lambda: self._steps(iterator, tf.constant(0)))
    if form is None:
      self._choose_form(step, iter(input_fn(step)))
    with signals.StopSignals() as stop:
      step, received = self._train_from(step, iterator, stop, evaluations)
    self._log_end(step, received, evaluations)
    return step

  def _set_form(self, form: step_lib.Form) -> None:
    """Makes the next step one of this form."""
    self.train_step = self.train_step.in_form(form)
    self._steps = tf.function(self._run_steps, autograph=False)

  def _choose_form(self, step: int, iterator: Iterator[Features]) -> None:
    """Times forms of the step, keeps the fastest, undoes what was timed."""
    variables = restore.training_variables(self.model, self.optimizer)
    values = [variable.numpy() for variable in variables.values()]
    forms: dict[step_lib.Form, tuple[step_lib.TrainingStep, Callable]] = {}

    def step_in_form(form: step_lib.Form) -> Callable[[], object]:
      if forms:  # It is plain before.
        self._set_form(form)
      forms[form] = self.train_step, self._steps
      run, one = self._steps, tf.constant(1)
      return lambda: float(run(iterator, one)["loss"][0])

    chosen = tuning.measure(
      self.config.output_dir,
      lambda seconds: self._budget.seconds_left(step, seconds),
      step_in_form,
    )
    self.train_step, self._steps = forms[chosen]
    for variable, value in zip(variables.values(), values, strict=True):
      variable.assign(value)

  def _restore(self, element_spec: dict[str, tf.TensorSpec]) -> int:
    """Builds the training step and loads weights; returns the steps done."""
    self.train_step.build(element_spec)
    self._step = restore.restore_for_training(
      self.model,
      self.optimizer,
      self.config,
    )
    distribution.check_same({"the step found in output_dir": self._step})
    return self._step

  def _log_end(
    self, step: int, received: str, evaluations: evaluation.PeriodicEvaluation
  ) -> None:
    """Logs why training ended early and where the best checkpoint is."""
    if evaluations.best():
      logging.info(
        "Kept in %s: %s.",
        os.path.join(self.config.output_dir, evaluation.BEST_DIR),
        evaluations.best(),
      )
    reached = self._budget.describe(step)
    if received:
      self.was_interrupted = True
      logging.info(
        "Stopped by %s at step %s and saved; the same command goes on.",
        received,
        reached,
      )
    elif self._budget.steps_left(step):
      logging.info(
        "Stopped early at step %s: nothing better in early_stopping_patience "
        "%d evaluations.",
        reached,
        self.config.early_stopping_patience,
      )

  def _train_from(
    self,
    step: int,
    iterator: Iterator[Features],
    stop: signals.StopSignals,
    evaluations: evaluation.PeriodicEvaluation,
  ) -> tuple[int, str]:
    """Trains and saves until the end or a signal; returns steps and signal."""
    config = self.config
    steps_per_second, received = 1, ""
    loss_check = divergence.LossCheck(config.output_dir)
    ends = evaluations.is_out_of_patience
    with progress.Progress(
      config.output_dir,
      step,
      self._budget,
      config.train_batch_size,
      config.log_every_steps,
    ) as report:
      while not ends:
        # Not longer than a second, so that a signal is soon answered.
        num_steps = min(
          steps_per_second,
          self._budget.steps_left(step),
          config.iterations_per_loop,
          evaluations.steps_to_next(step),
          _steps_to_next(report.log_every_steps, step),
          _steps_to_next(config.save_checkpoints_steps, step),
        )
        start = time.monotonic()
        sums = self._steps(iterator, tf.constant(num_steps))
        self._step = step = step + num_steps
        norm = float(sums["gradient_norm"][0])
        if self.optimizer.loss_scale:
          norm = 0.0  # Such a step changes nothing, and the scale is lowered.
        loss_check.add(step, float(sums["loss"][0]) / num_steps, norm)
        seconds = time.monotonic() - start
        pace = max(1, int(num_steps / seconds))
        steps_per_second, received = _agree(pace, stop.received)
        self._budget.count(step, seconds / num_steps)
        report.add(step, sums)
        is_last = not self._budget.steps_left(step)
        is_saved = step % config.save_checkpoints_steps == 0
        is_evaluated = evaluations.is_due(step, is_last)
        if is_last or received or is_saved or is_evaluated:
          tensors = self._tensors()
          loss_check.check_weights(step, tensors)
        if is_evaluated:
          # Before saving: a resumed run knows all evaluations before it.
          self._evaluate_while_training(evaluations, report)
        ends = bool(is_last or received or evaluations.is_out_of_patience)
        if ends or is_saved:
          self._save(tensors)
    # One that came while the last weights were evaluated and saved counts too.
    return step, _agree(1, stop.received)[1]

  def _evaluate_while_training(
    self,
    evaluations: evaluation.PeriodicEvaluation,
    report: progress.Progress,
  ) -> None:
    """Evaluates the weights as they are and logs the results."""
    start = time.monotonic()
    self._run_files.put_back()  # They are copied beside the best checkpoint.
    weights = lora.tensors(self.model)
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
    self._newest = checkpoints.latest(self.config.output_dir)
    self._step = restore.load_for_inference(self.model, self.config)
    return self._step

  def check_files(self) -> None:
    """Checks at the end of a run that its folder holds what was trained.

    Raises:
      OSError: if the newest checkpoint was deleted meanwhile.
    """
    self._run_files.check(self._newest)

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
      `loss`, the mean of the training loss over batches; the objective's
      metrics; `global_step`. Also written as events to output_dir/eval.
    """
    batches = dataset.take(-1 if num_steps is None else num_steps)
    totals = None
    for features in _track(batches, "evaluating"):
      sums, outputs = self._evaluation_step.evaluate(features)
      if on_outputs:
        on_outputs(outputs, features)
      # Summed in float64: a data set is longer than a batch.
      sums = tf.nest.map_structure(lambda t: np.float64(t.numpy()), sums)
      totals = objective_lib.add(totals, sums)
    if totals is None:
      raise ValueError("there is not one whole batch to evaluate on.")
    results = objective_lib.means(totals)
    if not math.isfinite(results["loss"]):
      raise divergence.DivergedError(
        f"the loss of the evaluation is {results['loss']}: weights or examples "
        "hold what is no number; give an older checkpoint as "
        "`init_checkpoint`, with another `output_dir`."
      )
    if more_results:
      results.update(more_results())
    return self.report(results)

  def report(
    self, results: Mapping[str, float | int]
  ) -> dict[str, float | int]:
    """Writes results as they are to output_dir/eval; adds `global_step`."""
    step = self._weights_step()
    if self._eval_writer is None:
      events_dir = os.path.join(self.config.output_dir, "eval")
      self._eval_writer = progress.events_writer(events_dir)
    progress.write_events(self._eval_writer, step, results)
    return {**results, checkpoints.GLOBAL_STEP: step}

  def predict(self, dataset: tf.data.Dataset) -> Iterator[Tensor]:
    """Yields the outputs of the weights as they are, NumPy, for each batch."""
    self._weights_step()
    for features in _track(dataset, "predicting"):
      outputs = self._evaluation_step.predict(features)
      yield tf.nest.map_structure(lambda t: t.numpy(), outputs)

  def _weights_step(self) -> int:
    """Returns the step of the weights in memory."""
    if self._step is None:
      raise RuntimeError("call train or load_for_inference before.")
    return self._step

  def _tensors(self) -> dict[str, tf.Tensor]:
    """Returns what a checkpoint holds, by name."""
    variables = restore.training_variables(self.model, self.optimizer)
    tensors = {name: variable.value for name, variable in variables.items()}
    return tensors | lora.tensors(self.model)

  def _save(
    self,
    tensors: Mapping[str, tf.Tensor],
    meanwhile: Callable[[], object] = lambda: None,
  ) -> None:
    """Saves a checkpoint, which afterwards every process may read."""
    path = distribution.run_beside(lambda: self._write(tensors), meanwhile)
    distribution.barrier()
    self._newest = path
    logging.info("Saved %s.", path)

  def _write(self, tensors: Mapping[str, tf.Tensor]) -> str:
    """Writes a checkpoint if this process is the chief; returns its path."""
    output_dir = self.config.output_dir
    self._run_files.put_back()
    run_folder.write_scores(output_dir, {})  # They are an older checkpoint's.
    adapters.save(output_dir, tensors)
    keep = self.config.keep_checkpoint_max
    return checkpoints.save(output_dir, tensors, keep)

  def _run_steps(self, data: tf.data.Iterator, num_steps: tf.Tensor) -> Sums:
    """Takes steps within one tf.function; returns the totals of their sums."""
    step = self.train_step
    # From nothing, not from a first step: TensorFlow would optimize the step
    # twice, once in the loop and once before it.
    return objective_lib.add_calls(
      step.no_sums(), lambda _: step(data.get_next()), 0, num_steps
    )


def _track(batches: tf.data.Dataset, what: str) -> Iterator[Features]:
  """Yields batches and shows how many were."""
  total = int(batches.cardinality())
  return progress.track(batches, what, "batch", total if total > 0 else None)


def _agree(pace: int, received: str) -> tuple[int, str]:
  """Returns the least pace and a signal, if any, of all processes."""
  found = distribution.all_gather_objects({"pace": pace, "received": received})
  received = next((one["received"] for one in found if one["received"]), "")
  return min(one["pace"] for one in found), received


def _steps_to_next(every: int, step: int) -> int:
  """Returns the steps until the next multiple of `every`."""
  return every - step % every
