"""A run's folder, its output_dir. A run opens it once and passes it down."""

import contextlib
import dataclasses
import functools
import glob
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping

from bert_tf import distribution
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import atomic, paths
from bert_tf.model import model_config


@dataclasses.dataclass(frozen=True)
class RunFolder:
  """An output_dir and the files that describe its run.

  Each file is read once, when it is needed. `exclusive` opens the folder again,
  because another process may have changed it before the lock was taken. The
  folder may not exist yet.
  """

  path: str
  task: str  # One of registry.TASKS.
  # Whether this process trains the run. Another one keeps its settings.
  is_training: bool = True
  records_dir: str = ""  # Where `exclusive` lets this process write records.

  @functools.cached_property
  def info(self) -> run_info.RunInfo | None:
    """The content of run.json; None for a new run.

    Raises:
      ValueError: as `run_info.read_run`, and for a run of another task.
    """
    info = run_info.read_run(self.path)
    if info and info.task != self.task:
      raise ValueError(
        f"{self.path} already holds a run for {info.task}, not for "
        f"{self.task}. Choose another `output_dir`."
      )
    return info

  @functools.cached_property
  def labels(self) -> run_info.LabelSpec | None:
    """The labels of the run's model; None for a new run or without labels."""
    labels = self.info.labels if self.info else None
    return labels or run_info.read_labels(self.path)

  @property
  def is_begun(self) -> bool:
    """Whether the run has a checkpoint, which fixes its files."""
    return bool(checkpoints.list_checkpoints(self.path))

  @functools.cached_property
  def is_writable(self) -> bool:
    """Whether files can be written; if not, the run can still be evaluated."""
    return atomic.can_write(self.path)

  def check_labels(self, labels: run_info.LabelSpec) -> None:
    """Raises ValueError if the run has other labels."""
    if self.labels is not None and self.labels != labels:
      there, here = (json.dumps(s.label_map()) for s in (self.labels, labels))
      raise ValueError(
        f"{self.path} already holds a run with the labels {there}, not "
        f"{here}. Choose another `output_dir`."
      )

  @contextlib.contextmanager
  def exclusive(self, do_train: bool) -> Iterator["RunFolder"]:
    """Locks the folder for training; yields the folder, opened again.

    Removes unfinished files of killed processes. A run may be evaluated while
    it trains, by several processes, so each of them has a temporary folder for
    its records. Raises OSError if another process trains here.
    """
    with contextlib.ExitStack() as stack:
      records_dir = self.path
      if not do_train:
        records_dir = stack.enter_context(tempfile.TemporaryDirectory())
      elif distribution.is_chief():
        stack.enter_context(atomic.lock_folder(self.path))
        for folder in (self.path, os.path.join(self.path, "best")):
          atomic.remove_unfinished(os.path.join(glob.escape(folder), "*"))
      distribution.barrier()  # Else the chief removes what others write.
      yield RunFolder(self.path, self.task, do_train, records_dir)

  def prepare(self, info: run_info.RunInfo, model: ModelFolder) -> None:
    """Writes the files that describe the run, which trains the model.

    Evaluating a trained model, for instance with another max_seq_length, does
    not change the settings in run.json, only counts, examples and scores.

    Raises:
      ValueError: if the folder holds a run of another task, config, vocabulary
        or other labels, or if no model can be built from the config.
    """
    model.config.check_sizes()
    saved = self.info  # Raises ValueError for the run of another task.
    if info.labels:
      self.check_labels(info.labels)
    config_file = os.path.join(self.path, run_info.CONFIG_FILE)
    if config_file != model.config_file and paths.exists(config_file):
      there = vars(model_config.BertConfig.from_json_file(config_file))
      here = vars(model.config)
      differing = [name for name in here if there[name] != here[name]]
      if faults := [f"{n} {there[n]}, not {here[n]}" for n in differing]:
        raise ValueError(
          f"{self.path} holds a run of another config, with "
          f"{'; '.join(faults)}. Choose another `output_dir`."
        )
    if self.is_begun:
      run_info.check_vocab(self.path, model.vocab_file)
    if saved and self.is_begun and not self.is_training:
      info = dataclasses.replace(
        saved, examples=info.examples, scores=info.scores
      )
    if self.is_writable:
      files = run_info.describe(info, model.config, model.vocab_content)
      run_info.write_files(self.path, files)


def write_scores(folder: str, results: Mapping[str, float | int]) -> None:
  """Writes the results of an evaluation into a folder's run.json, if any.

  They replace the earlier scores except for the temperature, which belongs to
  the checkpoint; {} removes all. global_step and values that are not finite are
  left out. Does nothing in a folder that can only be read.
  """
  can_write = distribution.is_chief() and atomic.can_write(folder)
  info = run_info.read_run(folder) if can_write else None
  if not info:
    return
  scores = {
    name: float(value)
    for name, value in results.items()
    if name != checkpoints.GLOBAL_STEP and math.isfinite(value)
  }
  if scores and info.temperature != 1:
    scores.setdefault("temperature", info.temperature)
  if scores != info.scores:
    run_info.write_json(folder, dataclasses.replace(info, scores=scores))
