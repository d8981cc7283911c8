"""The files beside a model's weights: config, vocabulary, labels, run.json."""

import dataclasses
import os
import tempfile
from collections.abc import Mapping

import numpy as np

from bert_tf import letter_case, modeling, tokenization
from bert_tf.convert import pretrained
from bert_tf.files import paths
from bert_tf.tasks import label_map
from bert_tf.training import run_dir


@dataclasses.dataclass(frozen=True)
class Source:
  """A model to read, and what its user says of it.

  Attributes:
    path: prefix of a checkpoint or folder of a run (original, model_garden),
      folder (hf) or .weights.h5 (keras).
    bert_config_file: None for the bert_config.json beside it.
    vocab_file: None for the vocab.txt beside it.
    do_lower_case: whether the vocabulary is lower-cased; None for what the
      files beside it say.
  """

  path: str
  bert_config_file: str | None = None
  vocab_file: str | None = None
  do_lower_case: bool | None = None


@dataclasses.dataclass(frozen=True)
class ModelFiles:
  """What was found beside a model's weights.

  Attributes:
    config: sizes.
    vocab_file: None if there is none.
    run: what run.json says, or without one label_map.json; None without both.
  """

  config: modeling.BertConfig
  vocab_file: str | None
  run: run_dir.RunInfo | None

  @property
  def labels_words(self) -> bool:
    """Whether `output_weights` is known to give labels to words."""
    return self.run is not None and self.run.task == "ner"


def read(source: Source, path: str) -> ModelFiles:
  """Reads what lies beside a model's weights.

  Args:
    source: of the model.
    path: prefix or file of the weights.

  Raises:
    ValueError: without a config, if the vocabulary is of another model, or a
      file is damaged.
  """
  folder = run_dir.folder_of(path)
  config_file = source.bert_config_file or os.path.join(
    folder, run_dir.CONFIG_FILE
  )
  if not paths.exists(config_file):
    raise ValueError(
      f"there is no {config_file}; give the model's --bert_config_file."
    )
  config = modeling.BertConfig.from_json_file(config_file)
  vocab_file = find_vocab(source, folder)
  if vocab_file:
    check_vocab(vocab_file, config, config_file)
  return ModelFiles(config, vocab_file, find_run(folder))


def find_vocab(source: Source, folder: str) -> str | None:
  """Returns the vocabulary that is given or in the folder, None without."""
  path = source.vocab_file or os.path.join(folder, run_dir.VOCAB_FILE)
  return path if source.vocab_file or paths.exists(path) else None


def check_vocab(
  vocab_file: str, config: modeling.BertConfig, config_file: str
) -> None:
  """Raises ValueError if a vocabulary is of another size than the config."""
  num_tokens = len(tokenization.load_vocab(vocab_file))
  config.check_vocab(num_tokens, vocab_file, config_file)


def find_run(folder: str) -> run_dir.RunInfo | None:
  """Returns what run.json says, else label_map.json, None without both."""
  run = run_dir.read_run(folder)
  if run:
    return run
  labels = label_map.read(folder)
  if labels is None:
    return None
  is_of_words = labels.problem_type == label_map.WORDS
  return run_dir.RunInfo(
    task="ner" if is_of_words else "classification",
    task_name=labels.name,
    problem_type=None if is_of_words else labels.problem_type,
    labels=labels.labels,
  )


def describe(
  source: Source,
  files: ModelFiles,
  tensors: Mapping[str, np.ndarray],
  said_by: str = run_dir.RUN_FILE,
) -> pretrained.Pretrained:
  """Returns a model with all that is known of it.

  The heads decide the task. Where nobody says whether the vocabulary is
  lower-cased, its tokens decide, and a note says so.

  Args:
    source: of the model.
    files: that lie beside it.
    tensors: by the original's names.
    said_by: the file that `files.run` is from, for messages.

  Raises:
    ValueError: if the source's do_lower_case contradicts the file's, or the
      labels are of another number than the head's.
  """
  run = files.run or run_dir.RunInfo(task="encoder")
  task = pretrained.task_of(pretrained.heads_of(tensors, run.task))
  do_lower_case, notes = settle_case(
    source.do_lower_case, run.do_lower_case, said_by, files.vocab_file
  )
  run = dataclasses.replace(run, task=task, do_lower_case=do_lower_case)
  if task not in ("classification", "ner"):
    run = dataclasses.replace(
      run, task_name=None, problem_type=None, labels=None
    )
  model = pretrained.Pretrained(
    files.config, tensors, run, files.vocab_file, notes
  )
  if run.labels and len(run.labels) != model.num_labels:
    raise ValueError(
      f"{len(run.labels)} labels are saved beside {source.path}, but its head "
      f"has {model.num_labels}."
    )
  return model


def settle_case(
  given: bool | None, saved: bool | None, said_by: str, vocab_file: str | None
) -> tuple[bool | None, tuple[str, ...]]:
  """Returns whether a vocabulary is lower-cased, and notes on that.

  Args:
    given: what the user says.
    saved: what the file `said_by` says. Either can be None for nothing.
    said_by: name of a file.
    vocab_file: whose tokens decide where nobody says; None for no vocabulary.

  Raises:
    ValueError: if what the user says contradicts the file.
  """
  if None not in (given, saved) and given != saved:
    raise ValueError(
      f"do_lower_case {given} contradicts {said_by}, which says {saved}; leave "
      "--do_lower_case out."
    )
  if given is not None or saved is not None or not vocab_file:
    return (saved if given is None else given), ()
  guess = letter_case.guess(tokenization.load_vocab(vocab_file))
  if guess is None:
    return None, ()
  said = "no capital letters" if guess else "capital letters"
  note = f"The vocabulary has {said}, so do_lower_case is {str(guess).lower()}."
  return guess, (note,)


def write(folder: str, model: pretrained.Pretrained) -> None:
  """Writes what belongs beside a model's weights into their folder.

  Raises:
    ValueError: if another model's files lie there.
    OSError: if it cannot be written.
  """
  with tempfile.TemporaryDirectory() as staged:
    run_dir.write_run(staged, model.run, model.config, model.vocab_file)
    labels = _labels(model.run)
    if labels:
      label_map.write(staged, labels)
    copy(staged, folder)


def copy(folder: str, other_folder: str) -> None:
  """Copies what lies beside a model's weights; as `write`."""
  for name in (run_dir.CONFIG_FILE, run_dir.VOCAB_FILE, label_map.FILE):
    path = os.path.join(folder, name)
    if paths.exists(path):
      check_content(os.path.join(other_folder, name), paths.read_bytes(path))
  runs = [run_dir.read_run(place) for place in (folder, other_folder)]
  first, other = (run and (run.task, run.saved()) for run in runs)
  if first and other and first != other:
    _refuse(os.path.join(other_folder, run_dir.RUN_FILE))
  run_dir.copy_run(folder, other_folder)


def check_content(path: str, content: bytes) -> None:
  """Raises ValueError if a file is there with other content."""
  if paths.exists(path) and paths.read_bytes(path) != content:
    _refuse(path)


def _refuse(path: str) -> None:
  """Raises ValueError: a file must not be written over."""
  raise ValueError(
    f"{path} is another model's; choose another folder for --output_checkpoint."
  )


def _labels(run: run_dir.RunInfo) -> label_map.LabelSpec | None:
  """Returns the labels of a run, None if they are not known."""
  if run.labels is None:
    return None
  is_of_words = run.task == "ner"
  return label_map.LabelSpec(
    run.task_name or ("ner" if is_of_words else "own data"),
    label_map.WORDS if is_of_words else run.problem_type or "classification",
    run.labels,
  )
