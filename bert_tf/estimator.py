"""Trains, evaluates and predicts: the loop around a model and its loss."""

import dataclasses
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
import tqdm
from absl import logging

from bert_tf import checkpoints, modeling, optimization, progress
from bert_tf.heads import Sums
from bert_tf.modeling import Tensor

Features = dict[str, tf.Tensor]

# Draws of dropout masks that one step may take: two an encoder layer and one
# more, with room to spare.
_DRAWS_PER_STEP = 1 << 10


@dataclasses.dataclass(frozen=True)
class TrainConfig:
  """How to train.

  Attributes:
    output_dir: where checkpoints, events and results go.
    train_batch_size: examples a step.
    learning_rate: the peak of the schedule.
    num_train_steps: steps in all, those of earlier runs included.
    num_warmup_steps: steps of linear warm-up.
    init_checkpoint: prefix of a checkpoint to start from, or None.
    save_checkpoints_steps: steps between two checkpoints.
    keep_checkpoint_max: how many checkpoints stay; 0 for all.
    iterations_per_loop: the most steps between two looks at the clock.
    log_every_steps: steps between two log lines.
    seed: of initial values, dropout and the order of the data.
    use_xla: whether the training step is compiled by XLA.
  """

  output_dir: str
  train_batch_size: int
  learning_rate: float
  num_train_steps: int
  num_warmup_steps: int
  init_checkpoint: str | None = None
  save_checkpoints_steps: int = 1000
  keep_checkpoint_max: int = 5
  iterations_per_loop: int = 1000
  log_every_steps: int = 100
  seed: int = 12345
  use_xla: bool = True


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
    train_step: one compiled step, from features to the sums that are logged.
  """

  def __init__(
    self,
    model_fn: Callable[[], keras.Model],
    loss_fn: Callable[[Tensor, Features], Sums],
    eval_fn: Callable[[Tensor, Features], Sums],
    config: TrainConfig,
  ):
    # Initial values are drawn from Keras' global generator.
    keras.utils.set_random_seed(config.seed)
    self.model = model_fn()
    self._loss_fn = loss_fn
    self._eval_fn = eval_fn
    self.config = config
    self.optimizer = optimization.create_optimizer(
      config.learning_rate, config.num_train_steps, config.num_warmup_steps
    )
    self.train_step = tf.function(self._train_step, jit_compile=config.use_xla)
    self._steps = tf.function(self._run_steps)
    self._evaluation_step = tf.function(self._evaluate_batch)
    self._prediction_step = tf.function(self._predict_batch)

  def train(self, input_fn: Callable[[int], tf.data.Dataset]) -> int:
    """Trains until num_train_steps, or until SIGTERM or Ctrl-C.

    Starts from the newest checkpoint of output_dir, else from
    init_checkpoint, else from random values. A signal saves a checkpoint
    before this returns; the same call goes on from it, to the same weights.

    Args:
      input_fn: from the number of steps done to the batches that follow.

    Returns:
      The number of steps done, num_train_steps unless a signal came.

    Raises:
      ValueError: if a checkpoint does not fit, or the loss is not finite.
    """
    config = self.config
    # Which variables get a gradient, and so have moments, is known once the
    # step has been traced.
    self.train_step.get_concrete_function(input_fn(0).element_spec)
    step = self._restore_for_training()
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
    with _StopSignals() as stop:
      step = self._train_from(step, iter(input_fn(step)), stop)
    if stop.received:
      logging.info(
        "Stopped by %s at step %d of %d and saved; the same command goes on.",
        stop.received,
        step,
        config.num_train_steps,
      )
    return step

  def _train_from(
    self, step: int, iterator: Iterator[Features], stop: "_StopSignals"
  ) -> int:
    """Trains to the end or to a signal, saving; returns the steps done."""
    config = self.config
    steps_a_second = 1
    with progress.Progress(
      config.output_dir,
      step,
      config.num_train_steps,
      config.train_batch_size,
      config.log_every_steps,
    ) as report:
      while step < config.num_train_steps and not stop.received:
        # Not longer than a second, so that a signal is soon answered.
        num_steps = min(
          steps_a_second,
          config.iterations_per_loop,
          config.num_train_steps - step,
          _steps_to_next(config.log_every_steps, step),
          _steps_to_next(config.save_checkpoints_steps, step),
        )
        start = time.monotonic()
        sums = self._steps(iterator, tf.constant(num_steps))
        loss = float(sums["loss"][0]) / num_steps
        elapsed = time.monotonic() - start
        steps_a_second = max(1, int(num_steps / elapsed))
        step += num_steps
        if not math.isfinite(loss):
          raise ValueError(
            f"the loss became {loss} by step {step}; the last checkpoint is "
            f"{checkpoints.latest(config.output_dir)}. Lower --learning_rate "
            "or lengthen the warm-up."
          )
        report.add(step, sums)
        is_due = step % config.save_checkpoints_steps == 0
        if is_due or stop.received or step == config.num_train_steps:
          self._save()
    return step

  def evaluate(
    self,
    dataset: tf.data.Dataset,
    num_steps: int | None = None,
    on_outputs: Callable[[Tensor, Features], None] | None = None,
  ) -> dict[str, float | int]:
    """Evaluates the newest checkpoint.

    Args:
      dataset: batches.
      num_steps: how many of them; all of a finite dataset if None.
      on_outputs: called with every batch's outputs and features.

    Returns:
      `loss`, the mean over batches of the training loss; what eval_fn
      reports, as the mean over examples; `global_step`. Also written as
      events to output_dir/eval.
    """
    step = self.load_for_inference()
    bar = tqdm.tqdm(
      dataset.take(-1 if num_steps is None else num_steps),
      total=num_steps,
      desc="evaluating",
      unit="batch",
      disable=not sys.stderr.isatty(),
    )
    totals = None
    for features in bar:
      sums, outputs = self._evaluation_step(features)
      if on_outputs:
        on_outputs(outputs, features)
      # Summed in float64: a data set is longer than a batch.
      sums = tf.nest.map_structure(lambda t: np.float64(t.numpy()), sums)
      totals = progress.added(totals, sums)
    if totals is None:
      raise ValueError("there is not one whole batch to evaluate on.")
    results = progress.means(totals)
    events_dir = os.path.join(self.config.output_dir, "eval")
    writer = tf.summary.create_file_writer(events_dir)
    progress.write_events(writer, step, results)
    return {**results, "global_step": step}

  def predict(self, dataset: tf.data.Dataset) -> Iterator[Tensor]:
    """Yields the newest checkpoint's outputs for each batch, as NumPy."""
    self.load_for_inference()
    for features in dataset:
      outputs = self._prediction_step(features)
      yield tf.nest.map_structure(lambda t: t.numpy(), outputs)

  def load_for_inference(self) -> int:
    """Loads the newest checkpoint, or init_checkpoint; returns its step."""
    for path in checkpoints.listed(self.config.output_dir):
      try:
        reader = checkpoints.CheckpointReader(path)
        checkpoints.load_variables(reader, self.model)
        return int(reader.get(checkpoints.GLOBAL_STEP))
      except checkpoints.DamagedCheckpointError as error:
        logging.warning("%s; trying the one before it.", error)
    self._initialize()
    return 0

  def _restore_for_training(self) -> int:
    """Brings back the newest whole checkpoint; returns the steps done."""
    damaged = None
    for path in checkpoints.listed(self.config.output_dir):
      try:
        step = checkpoints.restore(path, self.model, self.optimizer)
        logging.info("Resuming from %s, at step %d.", path, step)
        return step
      except checkpoints.DamagedCheckpointError as error:
        logging.warning("%s; trying the one before it.", error)
        damaged = error
    if damaged:
      raise ValueError(
        f"{damaged} No older checkpoint in {self.config.output_dir} is whole; "
        "move the folder away to start again."
      )
    self._initialize()
    return 0

  def _initialize(self) -> None:
    """Loads init_checkpoint, or says that the values are random."""
    path = self.config.init_checkpoint
    if path:
      checkpoints.init_from_checkpoint(self.model, path)
    else:
      logging.info("No checkpoint: starting from random values.")

  def _save(self) -> str:
    variables = checkpoints.training_variables(self.model, self.optimizer)
    path = checkpoints.save(
      self.config.output_dir,
      {name: variable.value for name, variable in variables.items()},
      self.config.keep_checkpoint_max,
    )
    logging.info("Saved %s.", path)
    return path

  def _train_step(self, features: Features) -> Sums:
    """Takes one step; returns the sums of what is logged."""
    self._seed_dropout()
    variables = self.model.trainable_variables
    with tf.GradientTape() as tape:
      outputs = self.model(features, training=True)
      loss = _total(self._loss_fn(outputs, features))
    gradients = tape.gradient(loss, variables)
    trained = [
      (gradient, variable)
      for gradient, variable in zip(gradients, variables)
      if gradient is not None
    ]
    gradients, variables = zip(*trained)
    with tf.init_scope():
      self.optimizer.build(variables)
    one = tf.ones([])
    sums = {
      "loss": (loss, one),
      **self._eval_fn(outputs, features),
      "learning_rate": (self.optimizer.learning_rate * one, one),
      "gradient_norm": (optimization.global_norm(gradients), one),
    }
    self.optimizer.apply(gradients, variables)
    return sums

  def _seed_dropout(self) -> None:
    """Makes the step's dropout a function of the seed and the step alone."""
    weights = {id(variable) for variable in self.model.weights}
    states = [v for v in self.model.variables if id(v) not in weights]
    first_draw = self.optimizer.iterations.value * _DRAWS_PER_STEP
    for i, state in enumerate(states):
      seed = tf.constant(self.config.seed + i, first_draw.dtype)
      state.assign(tf.stack([seed, first_draw]))

  def _evaluate_batch(self, features: Features) -> tuple[Sums, Tensor]:
    outputs = self.model(features, training=False)
    loss = _total(self._loss_fn(outputs, features))
    sums = {
      "loss": (loss, tf.ones([])),
      **self._eval_fn(outputs, features),
    }
    return sums, outputs

  def _predict_batch(self, features: Features) -> Tensor:
    return self.model(features, training=False)

  def _run_steps(self, iterator: Iterator, num_steps: tf.Tensor) -> Sums:
    sums = self.train_step(next(iterator))
    for _ in tf.range(num_steps - 1):
      sums = progress.added(sums, self.train_step(next(iterator)))
    return sums


class _StopSignals:
  """Notes SIGTERM and Ctrl-C instead of dying of them; a second one kills.

  Attributes:
    received: the signal's name, or "".
  """

  def __init__(self):
    self.received = ""
    self._handlers = {}

  def __enter__(self) -> "_StopSignals":
    if threading.current_thread() is threading.main_thread():
      for number in (signal.SIGTERM, signal.SIGINT):
        self._handlers[number] = signal.signal(number, self._note)
    return self

  def __exit__(self, *unused_error: object) -> None:
    for number, handler in self._handlers.items():
      signal.signal(number, handler)

  def _note(self, number: int, unused_frame: object) -> None:
    self.received = signal.Signals(number).name
    logging.info("%s: saving, then stopping.", self.received)
    signal.signal(number, self._handlers[number])


def _total(sums: Sums) -> tf.Tensor:
  """Returns the training loss: the total of sum / weight."""
  return tf.add_n([loss / weight for loss, weight in sums.values()])


def _steps_to_next(every: int, step: int) -> int:
  return every - step % every


def claim_output_dir(output_dir: str, bert_config: modeling.BertConfig) -> None:
  """Makes the folder of a run and writes `bert_config.json` into it.

  Raises:
    ValueError: if the folder holds a run of another config.
    OSError: if it cannot be written.
  """
  path = os.path.join(output_dir, "bert_config.json")
  tf.io.gfile.makedirs(output_dir)
  if tf.io.gfile.exists(path):
    found = modeling.BertConfig.from_json_file(path).to_dict()
    given = bert_config.to_dict()
    differing = [
      f"{name} is {found.get(name)} there and {given.get(name)} here"
      for name in sorted({*found, *given})
      if found.get(name) != given.get(name)
    ]
    if differing:
      raise ValueError(
        f"{output_dir} holds a run of another config: {'; '.join(differing)}; "
        "choose another --output_dir."
      )
    return
  with tf.io.gfile.GFile(path + ".tmp", "w") as writer:
    writer.write(bert_config.to_json_string())
  tf.io.gfile.rename(path + ".tmp", path, overwrite=True)


def write_results(
  path: str, results: Mapping[str, float | int], first: Sequence[str] = ()
) -> None:
  """Writes and logs `key = value` lines; whole or not at all.

  Args:
    path: file to write.
    results: by name; written in the order of their names.
    first: names that go before all others, where `results` has them.
  """
  lines = []
  for name in sorted(results, key=lambda name: (name not in first, name)):
    value = results[name]
    # The digits of a float32, as the original printed.
    text = str(value) if isinstance(value, int) else str(np.float32(value))
    lines.append(f"{name} = {text}\n")
    logging.info("  %s = %s", name, text)
  unfinished = path + ".tmp"
  with tf.io.gfile.GFile(unfinished, "w") as writer:
    writer.write("".join(lines))
  tf.io.gfile.rename(unfinished, path, overwrite=True)
  logging.info("Wrote %s.", path)
