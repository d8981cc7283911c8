"""Finds the weights, config, vocabulary and labels of a model in a folder.

A model's folder is one of: a released model (bert_config.json, vocab.txt,
bert_model.ckpt), a run's output_dir or its best/, a conversion, a SavedModel, a
folder with versions of a SavedModel, or a folder of Hugging Face.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Sequence

import keras
from absl import logging

from bert_tf import checkpoints, model_config, tokenization
from bert_tf.files import errors, json_files, paths
from bert_tf.formats import hugging_face, tokenizer_files
from bert_tf.hub import cache
from bert_tf.model_folder import letter_case, run_info

# Suffixes of weights that only transformers reads.
_NOT_READ = (
  *(".bin", ".pt", ".pth", ".pkl", "tf_model.h5", "flax_model.msgpack"),
  f"{hugging_face.SUFFIX}.index.json",
)

_CONVERT = "convert it by `bert-tf convert`."

# Maximum number of a folder's files that one message lists.
_MAX_NAMED = 10


@dataclasses.dataclass(frozen=True)
class ModelFolder:
  """A model's weights and the files beside them, each read when it is used.

  Attributes:
    weights: path for `checkpoints.CheckpointReader`.
    given_config_file: the user's config; None for the one in the folder.
    given_vocab_file: the user's vocabulary; None for the one in the folder.
  """

  weights: str
  given_config_file: str | None = None
  given_vocab_file: str | None = None

  @functools.cached_property
  def folder(self) -> str:
    """The folder of the weights."""
    return run_info.get_folder(self.weights)

  @property
  def is_hugging_face(self) -> bool:
    """Whether the weights are in Hugging Face's format."""
    return self.weights.endswith(hugging_face.SUFFIX)

  @functools.cached_property
  def config_file(self) -> str:
    """The file that `BertConfig.from_json_file` reads.

    Raises:
      ValueError: if it is missing or of another format than the weights.
    """
    theirs = os.path.join(self.folder, hugging_face.CONFIG)
    own = os.path.join(self.folder, run_info.CONFIG_FILE)
    path = self.given_config_file or (theirs if self.is_hugging_face else own)
    if path == own and not paths.exists(own) and paths.exists(theirs):
      path = theirs
    if not paths.exists(path):
      raise ValueError(
        f"there is no {path}; put it there or set `bert_config_file`."
      )
    config = json_files.read_object(path)
    if hugging_face.is_config(config) and not self.is_hugging_face:
      raise ValueError(
        f"{path} is Hugging Face's config, but {self.weights} are not Hugging "
        "Face's weights, and the two formats mean different functions by "
        "`gelu`. Give the model's own bert_config.json."
      )
    return path

  @functools.cached_property
  def bert_config(self) -> model_config.BertConfig:
    """The model's sizes."""
    return model_config.BertConfig.from_json_file(self.config_file)

  @functools.cached_property
  def vocab_file(self) -> str | None:
    """A vocab.txt or a tokenizer.json with word pieces; None without either."""
    return self.given_vocab_file or tokenizer_files.find_vocab(self.folder)

  def needed_vocab(self) -> str:
    """Returns the path of the vocabulary; raises ValueError without one."""
    if self.vocab_file:
      return self.vocab_file
    raise ValueError(
      f"{self.folder} has no {run_info.VOCAB_FILE}; set `vocab_file`."
    )

  def load_vocab(self) -> dict[str, int]:
    """Returns the ids by token.

    Raises:
      ValueError: if there is no vocabulary, or if it has more tokens than the
        model.
    """
    path = self.needed_vocab()
    vocab = tokenization.load_vocab(path)
    self.bert_config.check_vocab(len(vocab), path, self.config_file)
    return vocab

  @functools.cached_property
  def run(self) -> run_info.RunInfo | None:
    """What is known about the model; see `read_run`."""
    return read_run(self.weights)

  @property
  def run_file(self) -> str:
    """The file that holds the case settings of the model, for messages."""
    path = os.path.join(self.folder, tokenizer_files.TOKENIZER_CONFIG)
    if self.is_hugging_face and paths.exists(path):
      return path
    return os.path.join(self.folder, run_info.RUN_FILE)

  @functools.cached_property
  def reader(self) -> checkpoints.CheckpointReader:
    """A reader of the weights."""
    return checkpoints.CheckpointReader(self.weights)

  def num_outputs(self, task: str) -> int | None:
    """Returns the number of outputs of a head with labels; None without one."""
    if "output_bias" not in self.reader.shapes:
      return None
    if self.run and self.run.task != task:
      raise ValueError(
        f"{self.weights} has the head of another task: {self.run.task}, not "
        f"{task}."
      )
    return self.reader.shapes["output_bias"][0]


def read_run(weights: str) -> run_info.RunInfo | None:
  """Returns task, labels, case and lengths of a model; None if not known.

  They come from run.json, else label_map.json, or from Hugging Face's files.

  Args:
    weights: path for `checkpoints.CheckpointReader`.
  """
  folder = run_info.get_folder(weights)
  if weights.endswith(hugging_face.SUFFIX):
    config = hugging_face.read_config(folder)
    task = hugging_face.find_task(config)
    num_labels = 0
    if task in ("classification", "ner"):
      num_labels = len(config.id2label or range(2))
    return read_hugging_face_run(folder, task, num_labels)
  if run := run_info.read_run(folder):
    newest = checkpoints.find_latest(folder) or weights
    is_newest = os.path.basename(newest) == os.path.basename(weights)
    if paths.exists(f"{weights}.index") and not is_newest:
      # The scores in run.json are those of the newest checkpoint.
      return dataclasses.replace(run, scores=None)
    return run
  labels = run_info.read_labels(folder)
  return labels.to_run() if labels else None


def read_hugging_face_run(
  folder: str, task: str, num_labels: int
) -> run_info.RunInfo:
  """Returns the run of a model in Hugging Face's files.

  Args:
    folder: the folder of the files.
    task: the task of the model's head. A run.json of this task adds the
      settings that Hugging Face's files lack.
    num_labels: the number of outputs of the classifier; 0 without one.
  """
  run = run_info.read_run(folder)
  if not run or run.task != task:
    run = run_info.RunInfo(task=task)
  settings = tokenizer_files.read_settings(folder)
  case = dataclasses.asdict(letter_case.get_case(settings))
  known = {name: value for name, value in case.items() if value is not None}
  run = dataclasses.replace(run, **known)
  config = hugging_face.read_config(folder)
  return run_info.with_hugging_face_labels(run, config, num_labels)


def find(
  path: str,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
) -> ModelFolder:
  """Finds the files of a model.

  Args:
    path: a folder, the prefix of a checkpoint, a safetensors file or the name
      of a downloaded model.
    bert_config_file: config of the model; None for the one in the folder.
    vocab_file: vocabulary of the model; None for the one in the folder.

  Raises:
    ValueError: if there is no such model, or more than one; if its config is
      missing or of another format; if a file is damaged, or `vocab_file`
      differs from that of a folder.
  """
  weights = find_weights(path)
  is_saved_model = checkpoints.is_saved_model(weights)
  if not is_saved_model and not weights.endswith(hugging_face.SUFFIX):
    # A damaged checkpoint is reported when its weights are read.
    with contextlib.suppress(checkpoints.DamagedCheckpointError):
      names = checkpoints.CheckpointReader(weights).shapes
      if checkpoints.OBJECT_GRAPH in names:
        raise ValueError(
          f"{weights} is an object-based checkpoint, such as TF Model "
          f"Garden's; {_CONVERT}"
        )
  files = find_files_beside(weights, bert_config_file, vocab_file)
  if weights != path or is_saved_model:
    _check_vocab(files)
  # Beside the prefix of a checkpoint, the vocabulary is only a default.
  return files


def find_files_beside(
  weights: str,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
) -> ModelFolder:
  """Returns the files beside weights; arguments and errors as in `find`."""
  files = ModelFolder(weights, bert_config_file, vocab_file)
  # Reads the files now, so that a fault is reported before any computation.
  _ = files.vocab_file, files.config_file, files.run
  if paths.exists(os.path.join(files.folder, run_info.RUN_FILE)):
    _check_vocab(files)
  return files


def _check_vocab(files: ModelFolder) -> None:
  path = files.vocab_file
  if path and run_info.has_other_vocab(files.folder, path):
    own = os.path.join(files.folder, run_info.VOCAB_FILE)
    raise ValueError(f"vocab_file {path} contradicts the model's {own}.")


def load(
  files: ModelFolder, model: keras.Model, required: str = "bert/"
) -> None:
  """Sets the variables of a model.

  A warning names variables without a value, which stay random.

  Raises:
    ValueError: for variables that differ in shape, or whose names begin with
      `required` and that are missing.
  """
  reader = files.reader
  if missing := checkpoints.load_variables(reader, model, required):
    logging.warning(
      "%s has no %s: initialized at random.", reader.path, ", ".join(missing)
    )


def resolve_case(
  files: ModelFolder, user: letter_case.Case
) -> letter_case.Case:
  """Returns the letter case of a model: the user's, else that of its files.

  Raises:
    ValueError: if there is no vocabulary, or the user's case contradicts it.
  """
  return letter_case.resolve(
    user, letter_case.get_case(files.run), files.needed_vocab()
  )


def load_tokenizer(
  files: ModelFolder,
  do_lower_case: bool | None = None,
  strip_accents: bool | None = None,
) -> tokenization.FullTokenizer:
  """Loads the tokenizer of a model.

  Without do_lower_case and strip_accents it has those of run.json or, if there
  is none, of the vocabulary.

  Raises:
    ValueError: as `resolve_case`; or if the case contradicts a released
      checkpoint, or the vocabulary lacks [UNK] or has more tokens than the
      model.
  """
  files.load_vocab()  # Checks the size of the vocabulary.
  case = resolve_case(files, letter_case.Case(do_lower_case, strip_accents))
  tokenization.validate_case_matches_checkpoint(
    case.do_lower_case is not False, files.reader.path
  )
  return letter_case.make_tokenizer(files.needed_vocab(), case)


def has_config(folder: str) -> bool:
  """Returns whether a folder has a bert_config.json."""
  return paths.exists(os.path.join(folder, run_info.CONFIG_FILE))


def find_weights(path: str) -> str:
  """Returns the weights at a path, as `ModelFolder.weights`.

  Raises:
    ValueError: if there is no such model, or more than one.
  """
  path = cache.resolve_model(path)
  if paths.is_file(path):
    if not path.endswith(hugging_face.SUFFIX):
      raise ValueError(f"{path} is not a model: {_list([path])}")
    return path
  if run_info.get_folder(path) != path:
    checkpoints.prefix_to_read(path)  # Raises if there is no checkpoint.
    return path
  names = paths.list_folder(path)
  # The folder, else the newest version below it.
  versions = sorted(filter(str.isdecimal, names), key=int, reverse=True)
  saved_models = [path, *(os.path.join(path, version) for version in versions)]
  models = list(filter(checkpoints.is_saved_model, saved_models))[:1]
  if newest := checkpoints.find_latest(path):
    models.append(newest)
  else:
    prefixes = [n.removesuffix(".index") for n in names if n.endswith(".index")]
    models += [os.path.join(path, prefix) for prefix in prefixes]
  if hugging_face.WEIGHTS in names:
    models.append(os.path.join(path, hugging_face.WEIGHTS))
  if len(models) == 1:
    return models[0]
  if models:
    raise ValueError(f"{path} holds several models: {', '.join(models)}.")
  raise ValueError(f"{path} holds no model that can be read: {_list(names)}")


def _list(files: Sequence[str]) -> str:
  """Describes files that are no model, and how to get one from them."""
  names = [os.path.basename(path) for path in files]
  found = f"there is {errors.join_names(names, _MAX_NAMED) or 'nothing'}"
  if any(path.endswith(".weights.h5") for path in files):
    return f"{found}; {_CONVERT}"
  if any(path.endswith(_NOT_READ) for path in files):
    return (
      f"{found}; load the model with transformers and save it by "
      "save_pretrained(folder, max_shard_size='100GB')."
    )
  return (
    f"{found}. A model is bert_config.json, vocab.txt and bert_model.ckpt, the "
    "output_dir of a run, a SavedModel, or config.json and model.safetensors."
  )
