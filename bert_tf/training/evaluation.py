"""Evaluates during training, saves the best checkpoint and stops early."""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from bert_tf import distribution
from bert_tf.checkpoint import checkpoints, run_folder, run_info
from bert_tf.files import atomic, json_files, paths
from bert_tf.training import adapters
from bert_tf.training.config import TrainConfig
from bert_tf.training.objective import select_shown

Results = Mapping[str, float | int]

# Folder in output_dir for the best checkpoint, its results and HISTORY_FILE,
# which holds all evaluations.
BEST_DIR = "best"
HISTORY_FILE = "evaluations.json"


def is_better(metric: str, value: float, other: float) -> bool:
  """Whether a value of a metric is better than another, or than NaN.

  Lower is better for losses and the perplexity, higher for all others.
  """
  if metric.endswith("loss") or metric == "perplexity":
    value, other = -value, -other
  return value > other or (value == value and other != other)


def find_best_folder(output_dir: str) -> str | None:
  """The folder of a run's best checkpoint; None without one."""
  folder = os.path.join(output_dir, BEST_DIR)
  return folder if checkpoints.list_checkpoints(folder) else None


def read_best_results(folder: str) -> dict[str, float | int]:
  """Reads the results of the checkpoint in a folder of `find_best_folder`."""
  path = os.path.join(folder, HISTORY_FILE)
  results = _find_results(folder, json_files.read(path, _History).evaluations)
  if results is None:
    raise ValueError(f"{path} has no results for the checkpoint next to it.")
  return results


@dataclasses.dataclass(frozen=True)
class _History:
  """The content of HISTORY_FILE."""

  metric: str
  evaluations: list[dict[str, int | float]]


def _find_results(
  folder: str, evaluations: Sequence[dict[str, float | int]]
) -> dict[str, float | int] | None:
  step = (checkpoints.find_latest(folder) or "").rpartition("-")[2]
  return next(
    (r for r in evaluations if str(r.get(checkpoints.GLOBAL_STEP)) == step),
    None,
  )


class PeriodicEvaluation:
  """Evaluates during training and saves the best checkpoint in best/.

  Evaluations up to `first_step` are read from the folder of the run, so a
  resumed run has the same best checkpoint and stops at the same step.
  """

  def __init__(
    self,
    evaluate: Callable[[], Results] | None,
    config: TrainConfig,
    first_step: int,
  ) -> None:
    self._evaluate = evaluate
    self._output_dir = config.output_dir
    self._folder = os.path.join(config.output_dir, BEST_DIR)
    self._metric = config.best_metric or ""
    self._patience = config.early_stopping_patience
    self._evaluations: list[dict[str, float | int]] = []
    path = os.path.join(self._folder, HISTORY_FILE)
    if config.eval_every_steps and paths.exists(path):
      history = json_files.read(path, _History)
      if history.metric != self._metric:
        raise ValueError(
          f"{self._folder} holds the best checkpoint by {history.metric}, not "
          f"by `best_metric={self._metric}`; choose another `output_dir`."
        )
      self._evaluations = [
        results
        for results in history.evaluations
        if results[checkpoints.GLOBAL_STEP] <= first_step
      ]
    # Results of the checkpoint in best/. None without one, or if this run takes
    # its step again.
    self._best = _find_results(self._folder, self._evaluations)

  @property
  def is_out_of_patience(self) -> bool:
    """Whether the last `patience` evaluations did not improve the best."""
    values = [results[self._metric] for results in self._evaluations]
    best = 0
    for i, value in enumerate(values):
      if is_better(self._metric, value, values[best]):
        best = i
    return 0 < self._patience <= len(values) - 1 - best

  def run(self, tensors: Mapping[str, tf.Tensor]) -> str:
    """Evaluates and saves the best tensors so far; returns a line to log."""
    assert self._evaluate is not None
    results = dict(self._evaluate())
    if self._metric not in results:
      raise ValueError(
        f"best_metric {self._metric!r} is not a result of this evaluation, but "
        f"{', '.join(sorted(results.keys() - {checkpoints.GLOBAL_STEP}))} are."
      )
    self._evaluations.append(results)
    is_best = self._best is None or is_better(
      self._metric, results[self._metric], self._best[self._metric]
    )
    if is_best:
      self._best = results
    if distribution.is_chief():
      if is_best:
        # Before the checkpoint, which must never be without these files.
        files = run_info.read_files(self._output_dir)
        run_info.write_files(self._folder, files)
        run_folder.write_scores(self._folder, {})  # Those of output_dir.
        run_folder.write_scores(self._folder, results)
        adapters.save_adapter(self._folder, tensors)
        checkpoints.save(self._folder, tensors, keep_checkpoint_max=1)
      history = _History(self._metric, self._evaluations)
      atomic.write_lines(
        os.path.join(self._folder, HISTORY_FILE),
        [json.dumps(dataclasses.asdict(history), indent=1)],
      )
    distribution.barrier()  # Other processes read the files afterwards.
    step, best = checkpoints.GLOBAL_STEP, self._best or results
    shown = select_shown(results)
    parts = [f"{n} {value:.4g}" for n, value in shown.items() if n != step]
    return (
      f"evaluation at step {results[step]}: {', '.join(parts)}; best "
      f"{self._metric} {best[self._metric]:.4g} at step {best[step]}"
    )
