"""The files beside a model's weights: config, vocabulary, labels, run.json."""

import dataclasses
import os
import tempfile
from collections.abc import Mapping

import numpy as np

from bert_tf import model_folder
from bert_tf.convert import pretrained
from bert_tf.files import paths
from bert_tf.formats import tokenizer_files
from bert_tf.model_folder import letter_case, run_info


@dataclasses.dataclass(frozen=True)
class Source:
  """A model to read, and what its user says of it."""

  # Prefix of a checkpoint or folder of a run (original, model_garden), folder
  # (hf) or .weights.h5 (keras).
  path: str
  # None for the bert_config.json beside it.
  bert_config_file: str | None = None
  vocab_file: str | None = None  # None for the vocab.txt beside it.
  # Whether the vocabulary is lower-cased; None for what the files beside it
  # say.
  do_lower_case: bool | None = None


def read(
  source: Source, path: str, needs_vocab: bool = False
) -> model_folder.ModelFolder:
  """Returns the files beside a model's weights, a prefix or a file.

  Raises:
    ValueError: without a config, or a vocabulary that is needed; if the
      vocabulary is of another model, or a file is damaged.
  """
  files = model_folder.beside(path, source.bert_config_file, source.vocab_file)
  if needs_vocab or files.vocab_file:
    files.load_vocab()
  return files


def describe(
  source: Source,
  files: model_folder.ModelFolder,
  run: run_info.RunInfo | None,
  tensors: Mapping[str, np.ndarray],
  said_by: str = run_info.RUN_FILE,
) -> pretrained.Pretrained:
  """Returns a model with all that is known of it.

  The heads decide the task. Where nobody says whether the vocabulary is
  lower-cased, its tokens decide. `said_by` is the file that `run` is
  from.

  Raises:
    ValueError: if the source's do_lower_case contradicts the file's, or the
      labels are of another number than the head's.
  """
  run = run or run_info.RunInfo(task="encoder")
  task = pretrained.task_of(pretrained.heads_of(tensors, run.task))
  case = letter_case.settle(
    letter_case.Case(source.do_lower_case),
    letter_case.of(run),
    said_by,
    files.vocab_file,
  )
  run = dataclasses.replace(run, task=task, **dataclasses.asdict(case))
  if task not in ("classification", "ner"):
    run = dataclasses.replace(
      run, task_name=None, problem_type=None, labels=None
    )
  notes: tuple[str, ...] = ()
  if files.vocab_file:
    folder = paths.split(files.vocab_file)[0]
    notes = tokenizer_files.read_settings(folder).notes()
  model = pretrained.Pretrained(
    files.bert_config, tensors, run, files.vocab_file, notes
  )
  if run.labels and len(run.labels) != model.num_labels:
    raise ValueError(
      f"{len(run.labels)} labels are saved beside {source.path}, but its head "
      f"has {model.num_labels}."
    )
  return model


def write(folder: str, model: pretrained.Pretrained) -> None:
  """Writes what belongs beside a model's weights into their folder.

  Raises:
    ValueError: if another model's files lie there.
    OSError: if it cannot be written.
  """
  with tempfile.TemporaryDirectory() as staged:
    run_info.write_run(staged, model.run, model.config, model.vocab_file)
    labels = model.run.label_spec
    if labels:
      run_info.write_labels(staged, labels)
    copy(staged, folder)


def copy(folder: str, other_folder: str) -> None:
  """Copies what lies beside a model's weights; as `write`."""
  for name in run_info.FILES[:-1]:
    path = os.path.join(folder, name)
    if paths.exists(path):
      check_content(os.path.join(other_folder, name), paths.read_bytes(path))
  runs = [run_info.read_run(place) for place in (folder, other_folder)]
  first, other = (run and (run.task, run.saved()) for run in runs)
  if first and other and first != other:
    _refuse(os.path.join(other_folder, run_info.RUN_FILE))
  run_info.copy_run(folder, other_folder)


def check_content(path: str, content: bytes) -> None:
  """Raises ValueError if a file is there with other content."""
  if paths.exists(path) and paths.read_bytes(path) != content:
    _refuse(path)


def _refuse(path: str) -> None:
  """Raises ValueError: a file must not be written over."""
  raise ValueError(
    f"{path} is another model's; choose another folder for `output_checkpoint`."
  )
