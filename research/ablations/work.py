"""Does one run: a pre-training, or the fine-tuning of one."""

import dataclasses
import gc
import json
import os
from collections.abc import Collection
from typing import Any

import keras

from bert_tf import checkpoints
from bert_tf.files import atomic, json_files, paths
from bert_tf.tasks import pretraining, pretraining_config
from bert_tf.training import config as training_config
from bert_tf.training import curves, evaluation
from research.ablations import config as config_lib
from research.ablations import rows, runs, scales, tasks
from research.ablations import text as text_lib

_NUM_POINTS = 40  # Of a curve.

# What a curve has, if the run has it.
_TRAINING = (
  "loss",
  "masked_lm_loss",
  "masked_lm_accuracy",
  "next_sentence_loss",
  "next_sentence_accuracy",
  "learning_rate",
)
_HELD_OUT = (*_TRAINING[:-1], "perplexity")


class StoppedError(Exception):
  """A signal ended a run, which goes on when it is started again."""


@dataclasses.dataclass(frozen=True)
class Found:
  """What a run found."""

  results: dict[str, float]
  curve: rows.Curve


class Worker:
  """Does runs in a folder.

  Args:
    config: names the data.
    task_files: of the tasks whose data are there.
    all_runs: of all experiments, so that no checkpoint is missing when others
      than those of this command are run.
  """

  def __init__(
    self,
    config: config_lib.AblationsConfig,
    task_files: dict[str, tasks.TaskFiles],
    all_runs: Collection[runs.Run],
  ) -> None:
    self._scale = config.chosen_scale
    self._runs_dir = os.path.join(config.output_dir, "runs")
    self._data_dir = os.path.join(config.output_dir, "data")
    self._text = text_lib.Text(config, self._data_dir)
    self._task_files = task_files
    self._with_steps = {
      run.source
      for run in all_runs
      if run.fine_tuning and run.fine_tuning.step is not None
    }
    # By task and number of examples, since whole files are read for each.
    self._cuts: dict[tuple[str, int | None], tasks.TaskFiles] = {}
    self._hashes: dict[tasks.TaskFiles, dict[str, str]] = {}

  def data_of(self, run: runs.Run) -> dict[str, str]:
    """Returns the hashes of what a run reads."""
    found = dict(self._text.hashes)
    if run.fine_tuning:
      files = self._files(run.fine_tuning)
      if files not in self._hashes:
        self._hashes[files] = files.hashes
      found |= self._hashes[files]
    return found

  def do(self, run: runs.Run) -> Found:
    """Does a run, or what is left of it.

    Raises:
      StoppedError: if a signal ended it.
      ValueError: for what cannot be run.
    """
    try:
      if run.fine_tuning:
        return self._fine_tune(run, run.fine_tuning)
      return self._pretrain(run)
    finally:
      # The run's model and programs would stay in memory otherwise.
      keras.utils.clear_session()
      gc.collect()

  def _files(self, fine_tuning: runs.FineTuning) -> tasks.TaskFiles:
    """Returns the files of a fine-tuning."""
    key = fine_tuning.task, fine_tuning.num_examples
    if key not in self._cuts:
      files = self._task_files[fine_tuning.task]
      self._cuts[key] = tasks.cut(
        fine_tuning.task, files, fine_tuning.num_examples, self._data_dir
      )
    return self._cuts[key]

  def _folder(self, run: runs.Run) -> str:
    return os.path.join(self._runs_dir, run.name)

  def _pretrain(self, run: runs.Run) -> Found:
    """Pre-trains."""
    records = self._text.records(run.pretraining)
    folder = self._folder(run)
    config_file = os.path.join(folder, "sizes.json")
    sizes = run.pretraining.bert_config(self._text.vocab_size)
    atomic.write_lines(config_file, [json.dumps(sizes, indent=2)])
    found = pretraining.run(self._settings(run, config_file, records.files))
    if found is None:
      raise StoppedError
    batch_size = run.pretraining.train_batch_size
    curve = _curve(folder, batch_size * records.pieces_per_record)
    results = {name: rows.rounded(value) for name, value in found.items()}
    return Found(results, curve)

  def _settings(
    self, run: runs.Run, config_file: str, input_file: str
  ) -> pretraining_config.PretrainingConfig:
    """Returns the settings of a pre-training."""
    one, scale = run.pretraining, self._scale
    num_steps = one.num_train_steps
    more: dict[str, Any] = {}
    if not one.is_static and one.objective == "mlm":
      more["do_whole_word_mask"] = one.do_whole_word_mask
      if (one.mask_prob, one.random_prob) != (0.8, 0.1):
        more["mask_prob"] = one.mask_prob
        more["random_prob"] = one.random_prob
        more["keep_prob"] = round(1 - one.mask_prob - one.random_prob, 6)
    if one.objective != "mlm":
      more["objective"] = one.objective
    return pretraining_config.PretrainingConfig(
      bert_config_file=config_file,
      vocab_file=self._text.vocab_file,
      input_file=input_file,
      eval_input_file=self._text.held_out(one),
      max_seq_length=one.max_seq_length,
      max_predictions_per_seq=one.max_predictions_per_seq,
      no_nsp=one.no_nsp,
      do_train=True,
      do_eval=True,
      eval_batch_size=one.train_batch_size,
      max_eval_steps=scale.max_eval_steps,
      initial_values=one.initial_values,
      train=training_config.PretrainingTrainConfig(
        output_dir=self._folder(run),
        train_batch_size=one.train_batch_size,
        learning_rate=one.learning_rate,
        num_train_steps=num_steps,
        num_warmup_steps=round(one.warmup_proportion * num_steps),
        save_checkpoints_steps=_steps_between_checkpoints(one),
        keep_checkpoint_max=0 if run in self._with_steps else 1,
        log_every_steps=max(1, num_steps // _NUM_POINTS),
        eval_every_steps=max(1, num_steps // scale.num_evaluations),
        seed=run.seed,
      ),
      **more,
    )

  def _fine_tune(self, run: runs.Run, one: runs.FineTuning) -> Found:
    """Fine-tunes a pre-trained model, which is made again if it is gone."""
    source = self._folder(run.source)
    checkpoint = self._checkpoint(source, run.pretraining, one.step)
    if not checkpoint:
      _check_mark(run.pretraining, one.step)
      if self._checkpoint(source, run.pretraining, None):
        paths.remove(source)  # It is whole, but without that checkpoint.
      self._pretrain(run.source)
      keras.utils.clear_session()
      checkpoint = self._checkpoint(source, run.pretraining, one.step)
    if not checkpoint:
      raise ValueError(f"{source} has no checkpoint of step {one.step}.")
    folder = self._folder(run)
    found = tasks.train(
      one,
      run.seed,
      self._files(one),
      tasks.Model(
        bert_config_file=os.path.join(source, "bert_config.json"),
        vocab_file=self._text.vocab_file,
        init_checkpoint=checkpoint,
        feature_dir=os.path.join(source, "features"),
      ),
      folder,
    )
    if found is None:
      raise StoppedError
    results = {name: rows.rounded(float(v)) for name, v in found.items()}
    results["score"] = rows.rounded(tasks.score(one, found))
    paths.remove(folder)  # The weights are of no more use.
    return Found(results, {})

  def _checkpoint(
    self, folder: str, one: runs.Pretraining, step: int | None
  ) -> str | None:
    """Returns the checkpoint of a step, the last by default, if it is there."""
    step = one.num_train_steps if step is None else step
    path = os.path.join(folder, f"model.ckpt-{step}")
    return path if path in checkpoints.listed(folder) else None


def _steps_between_checkpoints(one: runs.Pretraining) -> int:
  return max(1, one.num_train_steps // scales.NUM_MARKS)


def _check_mark(one: runs.Pretraining, step: int | None) -> None:
  """Raises ValueError for a step that no pre-training has a checkpoint of."""
  every = _steps_between_checkpoints(one)
  if step is not None and step % every:
    raise ValueError(
      f"there is no checkpoint of step {step} of {one.num_train_steps}: one is "
      f"kept every {every} steps; use a multiple of {scales.NUM_MARKS} steps."
    )


def _curve(folder: str, pieces_per_step: float) -> rows.Curve:
  """Returns the curves of a run: the losses and accuracies by step."""
  training = curves.read(folder)
  steps = sorted(training["loss"])
  found = {
    "training": _columns(steps, pieces_per_step)
    | {
      name: [rows.rounded(training[name][step]) for step in steps]
      for name in _TRAINING
      if name in training
    }
  }
  path = os.path.join(folder, evaluation.BEST_DIR, evaluation.HISTORY_FILE)
  if paths.exists(path):
    history = json_files.read_object(
      path, {"evaluations": list}, ("evaluations",), allows_nan=True
    )["evaluations"]
    steps = [results[checkpoints.GLOBAL_STEP] for results in history]
    found["held_out"] = _columns(steps, pieces_per_step) | {
      name: [rows.rounded(results[name]) for results in history]
      for name in _HELD_OUT
      if name in history[0]
    }
  return found


def _columns(
  steps: list[int], pieces_per_step: float
) -> dict[str, list[float]]:
  """Returns the two axes of a curve."""
  return {
    "step": list(steps),
    "word_pieces": [round(step * pieces_per_step) for step in steps],
  }
