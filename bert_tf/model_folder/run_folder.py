"""What the folder of a run says about it: task, settings, vocabulary.

`run.json`, `bert_config.json` and `vocab.txt` stand in every output_dir, in
its `best/`, and in what is exported or converted from it.
"""

import contextlib
import dataclasses
import glob
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from absl import logging

from bert_tf import checkpoints, distribution, modeling
from bert_tf.files import atomic, lock, paths
from bert_tf.formats import tokenizer_files
from bert_tf.model_folder import run_info


def prepare_output_dir(
  output_dir: str,
  info: run_info.RunInfo,
  bert_config: modeling.BertConfig,
  vocab_file: str | None,
) -> None:
  """Makes the folder of a run and writes what the run is, as `write_run`.

  Raises:
    ValueError: if the folder holds a run of another task, config or
      vocabulary, or no model can be built of the config.
    OSError: if it cannot be written.
  """
  bert_config.check_sizes()
  _check_same_run(output_dir, info, bert_config, vocab_file)
  run_info.write_run(output_dir, info, bert_config, vocab_file)


@contextlib.contextmanager
def exclusive(output_dir: str, do_train: bool) -> Iterator[None]:
  """A scope in which no other process trains in a folder.

  What killed processes left there is removed. Evaluating beside a training is
  allowed.

  Raises:
    OSError: naming the host and the process that trains there.
  """
  if not do_train or not distribution.is_chief():
    yield
    return
  with lock.hold(output_dir):
    for folder in (output_dir, os.path.join(output_dir, "best")):
      atomic.remove_unfinished(os.path.join(glob.escape(folder), "*"))
    yield


class RunFiles:
  """The files that describe a run, in case its folder is deleted.

  Args:
    output_dir: folder of the run; files that are missing are left out.
  """

  def __init__(self, output_dir: str) -> None:
    names = (*run_info.FILES, run_info.COMMANDS_FILE)
    files = [os.path.join(output_dir, name) for name in names]
    self._contents = {p: paths.read_bytes(p) for p in files if paths.exists(p)}
    self._output_dir = output_dir

  def put_back(self) -> None:
    """Writes what is missing, and warns of it."""
    missing = [path for path in self._contents if not paths.exists(path)]
    if not missing or not distribution.is_chief():
      return
    logging.warning(
      "%s are gone: somebody deleted %s or files of it during the run. They "
      "are written again; earlier checkpoints, evaluations and all events are "
      "lost.",
      ", ".join(os.path.basename(path) for path in missing),
      self._output_dir,
    )
    for path in missing:
      atomic.write_bytes(path, self._contents[path])

  def check(self, checkpoint: str | None) -> None:
    """Writes what is missing; raises OSError if a checkpoint is gone."""
    self.put_back()
    if checkpoint and distribution.is_chief():
      if not checkpoints.is_there(checkpoint):
        raise OSError(
          f"{checkpoint} is gone: somebody deleted {self._output_dir} or files "
          "of it during the run. Its results are written, but not of a model "
          "that is there; train again."
        )


def write_scores(folder: str, results: Mapping[str, float | int]) -> None:
  """Writes the results of an evaluation into a folder's run.json.

  Args:
    folder: whose checkpoint was evaluated; without a run.json it stays so.
    results: by name; none to remove those that are there.
  """
  info = run_info.read_run(folder) if distribution.is_chief() else None
  if not info:
    return
  scores = {
    name: float(value)
    for name, value in results.items()
    if name != checkpoints.GLOBAL_STEP and math.isfinite(value)
  }
  run_info.write_json(folder, dataclasses.replace(info, scores=scores or None))


def read_run_of_task(output_dir: str, task: str) -> run_info.RunInfo | None:
  """Returns what run.json says of a run of this task, None without one.

  Raises:
    ValueError: as `run_info.read_run`, and for a run of another task.
  """
  found = run_info.read_run(output_dir)
  if found and found.task != task:
    raise ValueError(
      f"{output_dir} holds another task's run, one of {found.task}; this is "
      f"one of {task}. Choose another `output_dir`; its checkpoint can be the "
      "`init_checkpoint`."
    )
  return found


def check_same_config(path: str, bert_config: modeling.BertConfig) -> None:
  """Raises ValueError naming the values that differ from a run's file."""
  found = _values(modeling.BertConfig.from_json_file(path))
  given = _values(bert_config)
  differing = [
    f"{name} is {found.get(name)} there and {given.get(name)} here"
    for name in sorted({*found, *given})
    if found.get(name) != given.get(name)
  ]
  if differing:
    raise ValueError(
      f"{os.path.dirname(path)} holds a run of another config: "
      f"{'; '.join(differing)}; choose another `output_dir`."
    )


def _check_same_run(
  output_dir: str,
  info: run_info.RunInfo,
  bert_config: modeling.BertConfig,
  vocab_file: str | None,
) -> None:
  """Raises ValueError if a folder holds a run of another kind."""
  read_run_of_task(output_dir, info.task)
  path = os.path.join(output_dir, run_info.CONFIG_FILE)
  if paths.exists(path):
    check_same_config(path, bert_config)
  path = os.path.join(output_dir, run_info.VOCAB_FILE)
  if (
    vocab_file is not None
    and checkpoints.listed(output_dir)
    and paths.exists(path)
    and paths.read_bytes(path) != tokenizer_files.read_vocab(vocab_file)
  ):
    raise ValueError(
      f"{output_dir} holds a run of another vocabulary: {path} differs from "
      f"{vocab_file}; choose another `output_dir`."
    )


def _values(config: modeling.BertConfig) -> dict[str, Any]:
  """Returns all keys, those of ours too that files leave out."""
  return {**vars(config), **config.to_dict()}
