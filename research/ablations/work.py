"""Executes a run: a pre-training, or the fine-tuning of one."""

import gc
import json
import os
from collections.abc import Collection
from typing import Any

import keras

from bert_tf.checkpoint import checkpoints
from bert_tf.files import atomic, json_files, paths
from bert_tf.tasks.pretraining import (
  pretraining,
  pretraining_config,
  pretraining_start,
)
from bert_tf.training import config as training_config
from bert_tf.training import curves, evaluation
from research import rows
from research.ablations import config as config_lib
from research.ablations import cooccurrence, objectives, runs, scales, tasks
from research.ablations import text as text_lib

_NUM_POINTS = 40  # Logged points of a training curve.

# Columns of a curve, if the run logs them.
_TRAINING = (
  "loss",
  "masked_lm_loss",
  "masked_lm_accuracy",
  "next_sentence_loss",
  "next_sentence_accuracy",
  "learning_rate",
)
_HELD_OUT = (*_TRAINING[:-1], "perplexity")

Outcome = tuple[dict[str, float], runs.Curve]


class Worker:
  """Executes runs in a folder.

  Args:
    config: the scale, the text and the output folder.
    task_files: files of the tasks that have data.
    all_runs: runs of all experiments, even if this command runs only some.
      Pre-trainings keep the checkpoints that any of these runs needs.
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
    self._keeps_checkpoints = {
      run.source
      for run in all_runs
      if run.fine_tuning and run.fine_tuning.step is not None
    }
    # Files by task and number of examples, kept because cutting hashes the full
    # files.
    self._cut_files: dict[tuple[str, int | None], tasks.TaskFiles] = {}

  def hash_data(self, run: runs.Run) -> dict[str, str]:
    """Returns the hashes of the files that a run reads."""
    hashes = dict(self._text.hashes)
    if run.fine_tuning:
      hashes |= self._cut(run.fine_tuning).hashes
    return hashes

  def execute(self, run: runs.Run) -> Outcome:
    """Executes a run, or the rest of one that was interrupted.

    Returns:
      The results, and the curve of a pre-training.

    Raises:
      KeyboardInterrupt: if a signal ended the run; the next start resumes it.
    """
    try:
      if run.fine_tuning:
        return self._fine_tune(run, run.fine_tuning)
      return self._pretrain(run)
    finally:
      # Otherwise the model and its graphs would stay in memory.
      keras.utils.clear_session()
      gc.collect()

  def _cut(self, fine_tuning: runs.FineTuning) -> tasks.TaskFiles:
    """Returns the data files of a fine-tuning, with its number of examples."""
    key = task, num_examples = fine_tuning.task, fine_tuning.num_examples
    if key not in self._cut_files:
      self._cut_files[key] = tasks.cut(
        task, self._task_files[task], num_examples, self._data_dir
      )
    return self._cut_files[key]

  def _folder(self, run: runs.Run) -> str:
    return os.path.join(self._runs_dir, run.name)

  def _pretrain(self, run: runs.Run) -> Outcome:
    source, scale = run.pretraining, self._scale
    files, pieces_per_record = self._text.records(source)
    folder = self._folder(run)
    config_file = os.path.join(folder, "sizes.json")
    sizes = source.bert_config(self._text.vocab_size)
    atomic.write_lines(config_file, [json.dumps(sizes, indent=2)])
    is_masked = source.objective == "mlm"
    counts = source.initial_values == cooccurrence.NAME
    num_steps = source.num_train_steps
    masking: dict[str, Any] = {}
    if is_masked and not source.is_static:
      names = "do_whole_word_mask", "mask_prob", "random_prob", "keep_prob"
      masking = {name: getattr(source, name) for name in names}
    config = pretraining_config.PretrainingConfig(
      bert_config_file=config_file,
      vocab_file=self._text.vocab_file,
      input_file=files,
      eval_input_file=self._text.held_out(source),
      max_seq_length=source.max_seq_length,
      max_predictions_per_seq=source.max_predictions_per_seq,
      no_nsp=source.no_nsp,
      do_train=True,
      do_eval=True,
      eval_batch_size=source.train_batch_size,
      max_eval_steps=scale.max_eval_steps,
      # Counting replaces the function that sets the values of neighbours.
      initial_values=(
        pretraining_config.NEIGHBOURS if counts else source.initial_values
      ),
      train=training_config.PretrainingTrainConfig(
        output_dir=folder,
        train_batch_size=source.train_batch_size,
        learning_rate=source.learning_rate,
        num_train_steps=num_steps,
        num_warmup_steps=round(source.warmup_proportion * num_steps),
        save_checkpoints_steps=max(1, num_steps // scales.NUM_MARKS),
        keep_checkpoint_max=0 if run in self._keeps_checkpoints else 1,
        log_every_steps=max(1, num_steps // _NUM_POINTS),
        eval_every_steps=max(1, num_steps // scale.num_evaluations),
        seed=run.seed,
      ),
      **masking,
    )
    metrics = pretraining.run(
      config,
      pretraining.mask if is_masked else objectives.label,
      cooccurrence.set_values if counts else pretraining_start.set_values,
    )
    if metrics is None:
      raise KeyboardInterrupt
    results = {name: rows.rounded(value) for name, value in metrics.items()}
    pieces_per_step = source.train_batch_size * pieces_per_record
    return results, _read_curve(folder, pieces_per_step)

  def _fine_tune(self, run: runs.Run, fine_tuning: runs.FineTuning) -> Outcome:
    """Fine-tunes a pre-trained model; first pre-trains it if it is missing."""
    source = self._folder(run.source)
    step = fine_tuning.step
    checkpoint = _find_checkpoint(source, run.pretraining, step)
    if not checkpoint:
      if _find_checkpoint(source, run.pretraining, None):
        paths.remove(source)  # Finished, but without this checkpoint.
      self._pretrain(run.source)
      keras.utils.clear_session()
      checkpoint = _find_checkpoint(source, run.pretraining, step)
    if not checkpoint:
      raise ValueError(f"{source} has no checkpoint of step {step}.")
    folder = self._folder(run)
    metrics = tasks.train(
      fine_tuning,
      run.seed,
      self._cut(fine_tuning),
      os.path.join(source, "bert_config.json"),
      self._text.vocab_file,
      checkpoint,
      folder,
    )
    if metrics is None:
      raise KeyboardInterrupt
    results = {name: rows.rounded(float(v)) for name, v in metrics.items()}
    score = float(metrics[tasks.TASKS[fine_tuning.task].result])
    if fine_tuning.task != "SQuAD":  # Its F1 is a percentage already.
      score *= 100
    results["score"] = rows.rounded(score)
    paths.remove(folder)  # Nothing reads the fine-tuned weights.
    return results, {}


def _find_checkpoint(
  folder: str, source: runs.Pretraining, step: int | None
) -> str | None:
  """Returns the checkpoint of a step (None: the last), if it exists."""
  step = source.num_train_steps if step is None else step
  path = os.path.join(folder, f"model.ckpt-{step}")
  return path if path in checkpoints.list_checkpoints(folder) else None


def _read_curve(folder: str, pieces_per_step: float) -> runs.Curve:
  """Returns the training curve of a run and, if any, the held-out curve."""
  training = curves.read(folder)
  steps = sorted(training["loss"])
  curve = {
    "training": _axes(steps, pieces_per_step)
    | {
      name: [rows.rounded(training[name][step]) for step in steps]
      for name in _TRAINING
      if name in training
    }
  }
  path = os.path.join(folder, evaluation.BEST_DIR, evaluation.HISTORY_FILE)
  if paths.exists(path):
    history = json_files.read_object(path)["evaluations"]
    steps = [results[checkpoints.GLOBAL_STEP] for results in history]
    curve["held_out"] = _axes(steps, pieces_per_step) | {
      name: [rows.rounded(results[name]) for results in history]
      for name in _HELD_OUT
      if name in history[0]
    }
  return curve


def _axes(steps: list[int], pieces_per_step: float) -> dict[str, list[float]]:
  """Returns the steps of a curve, and the word pieces read until each step."""
  return {
    "step": list(steps),
    "word_pieces": [round(step * pieces_per_step) for step in steps],
  }
