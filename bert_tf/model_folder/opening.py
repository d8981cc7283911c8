"""Reads the weights, config, vocabulary and labels of a model in a folder.

A model's folder is one of: a released model (bert_config.json, vocab.txt,
bert_model.ckpt), a run's output_dir or its best/, a conversion, a SavedModel, a
folder with versions of a SavedModel, or a folder of Hugging Face.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from absl import logging

from bert_tf import checkpoint_names, checkpoints, model_config, tokenization
from bert_tf.files import json_files, messages, paths, recognize
from bert_tf.formats import hugging_face, tokenizer_files
from bert_tf.hub import cache
from bert_tf.model_folder import letter_case, run_info
from bert_tf.tasks import registry

_RELEASED = "bert_model.ckpt"  # The prefix in the folders of 2018.
_warn_once = functools.cache(logging.warning)  # A model may be read repeatedly.


@dataclasses.dataclass(frozen=True)
class ModelFolder:
  """A model: its weights, and what the files beside them say."""

  weights: str  # Path for `checkpoints.CheckpointReader`.
  folder: str  # The folder of the weights.
  config_file: str  # The file of `bert_config`.
  bert_config: model_config.BertConfig  # The model's sizes.
  # A vocab.txt or a tokenizer.json with word pieces; None without either.
  vocab_file: str | None
  # Task, labels, case and lengths; None if they are not known.
  run: run_info.RunInfo | None

  @functools.cached_property
  def reader(self) -> checkpoints.CheckpointReader:
    """A reader of the weights."""
    return checkpoints.CheckpointReader(self.weights)

  def needed_vocab(self) -> str:
    """Returns the path of the vocabulary; raises ValueError without one."""
    if self.vocab_file:
      return self.vocab_file
    raise ValueError(
      f"{self.folder} has no {run_info.VOCAB_FILE}. Set `vocab_file`."
    )

  def load_vocab(self) -> dict[str, int]:
    """Returns the ids by token; raises ValueError if the model has fewer."""
    path = self.needed_vocab()
    vocab = tokenization.load_vocab(path)
    self.bert_config.check_vocab(len(vocab), path, self.config_file)
    return vocab

  def num_outputs(self, task: str) -> int | None:
    """Returns the number of outputs of a head with labels; None without one."""
    if "output_bias" not in self.reader.shapes:
      return None
    if self.run and self.run.task != task:
      raise ValueError(
        f"{self.weights} has the head of another task: {self.run.task}, not "
        f"{task}; set `encoder_only` and `num_labels` to start a new one."
      )
    return self.reader.shapes["output_bias"][0]


def read_run(weights: str) -> run_info.RunInfo | None:
  """Returns task, labels, case and lengths of a model; None if not known.

  They come from run.json, else label_map.json, or from Hugging Face's files.
  `weights` is a path for `checkpoints.CheckpointReader`.

  Raises:
    ValueError: if a file is damaged, or has labels that do not fit the weights.
  """
  folder = run_info.get_folder(weights)
  if hugging_face.is_weights(weights):
    return _read_hugging_face_run(weights, folder)
  if run := run_info.read_run(folder):
    newest = checkpoints.find_latest(folder) or weights
    is_newest = os.path.basename(newest) == os.path.basename(weights)
    if paths.exists(f"{weights}.index") and not is_newest:
      # The scores in run.json are those of the newest checkpoint.
      return dataclasses.replace(run, scores={})
    return run
  if not (labels := run_info.read_labels(folder)):
    return None
  is_of_words = labels.problem_type == run_info.WORDS
  task = registry.NER if is_of_words else registry.CLASSIFICATION
  return run_info.RunInfo(task=task.name, labels=labels)


def _read_hugging_face_run(weights: str, folder: str) -> run_info.RunInfo:
  config = hugging_face.read_config(folder)
  task = hugging_face.find_task(config)
  shapes = hugging_face.Reader(weights).get_variable_to_shape_map()
  num_labels = shapes.get("output_bias", (0,))[0]
  if num_labels and not task.label_defaults:
    task = registry.CLASSIFICATION
  # A run.json of this task adds the settings that Hugging Face's files lack.
  run = run_info.read_run(folder)
  if not run or run.task != task.name:
    run = run_info.RunInfo(task=task.name)
  case = letter_case.get_case(tokenizer_files.read_settings(folder))
  known = {
    name: value for name, value in vars(case).items() if value is not None
  }
  settings = dataclasses.replace(run.settings, **known)
  run = dataclasses.replace(run, settings=settings)
  if not num_labels:
    return run
  path = os.path.join(folder, hugging_face.CONFIG)
  ids = [str(i) for i in range(num_labels)]
  names = config.id2label
  if names is None:
    names = dict(zip(ids, hugging_face.numbered_labels(num_labels)))
  if sorted(names) != sorted(ids):
    raise ValueError(
      f"id2label of {path} has the ids {', '.join(sorted(names))}, but the "
      f"classifier has {num_labels} labels."
    )
  labels = tuple(names[i] for i in ids)
  problem_type = None
  if task is registry.CLASSIFICATION:
    there = {value: key for key, value in hugging_face.PROBLEM_TYPES.items()}
    problem_type = there.get(config.problem_type or "")
    if problem_type is None:
      # transformers leaves id2label out if there are two labels without names.
      if config.id2label is None and num_labels != 2:
        return run
      # The problem type that transformers would infer.
      problem_type = run_info.CLASSIFICATION
      if num_labels == 1:
        problem_type = run_info.REGRESSION
    if problem_type == run_info.REGRESSION:
      labels = ()
      given = (config.sentence_transformers or {}).get("activation_fn")
      given = given or config.sbert_ce_default_activation_function
      if given and not str(given).endswith("Identity"):
        _warn_once(f"{path}: predictions are logits, without its {given}.")
  task_name, default = task.label_defaults or ("", run_info.CLASSIFICATION)
  if run.labels:
    task_name, default = run.labels.task_name, run.labels.problem_type
  spec = run_info.LabelSpec(task_name, problem_type or default, labels)
  run_info.check_labels(f"id2label of {path}", spec)
  return dataclasses.replace(run, labels=spec)


def read(
  path: str,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
) -> ModelFolder:
  """Finds a model and reads the files beside its weights.

  Args:
    path: a folder, the prefix of a checkpoint, a safetensors file or the name
      of a downloaded model.
    bert_config_file: config of the model; None for the one in the folder.
    vocab_file: vocabulary of the model; None for the one in the folder.

  Raises:
    ValueError: if there is no such model, or more than one, if a file is
      missing or damaged, or if `vocab_file` differs from that of a folder.
  """
  weights = find_weights(path)
  is_saved_model = checkpoints.is_saved_model(weights)
  if not hugging_face.is_weights(weights):
    names = checkpoints.CheckpointReader(weights).shapes
    if names or not is_saved_model:  # A SavedModel may only prepare texts.
      checkpoint_names.check_is_bert(weights, names)
  files = read_beside(weights, bert_config_file, vocab_file)
  # Beside the prefix of a checkpoint, the vocabulary is only a default.
  if weights != path or is_saved_model:
    run_info.check_vocab(files.folder, vocab_file)
  return files


def read_beside(
  weights: str,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
) -> ModelFolder:
  """Reads the files beside weights in any format, or in the folder of a run.

  Arguments and errors are those of `read`.
  """
  folder = run_info.get_folder(weights)
  is_theirs = hugging_face.is_weights(weights)
  config_file = bert_config_file
  if not config_file:
    theirs = os.path.join(folder, hugging_face.CONFIG)
    config_file = os.path.join(folder, run_info.CONFIG_FILE)
    if is_theirs or (not paths.exists(config_file) and paths.exists(theirs)):
      config_file = theirs
    if not paths.exists(config_file):
      raise ValueError(f"There is no {config_file}. Set `bert_config_file`.")
  values = json_files.read_object(config_file)
  if not is_theirs and hugging_face.is_config(values, config_file):
    raise ValueError(
      f"{config_file} is Hugging Face's config, whose `gelu` is a different "
      f"function, but {weights} does not hold Hugging Face's weights. Give the "
      "model's own bert_config.json."
    )
  if paths.exists(os.path.join(folder, run_info.RUN_FILE)):
    run_info.check_vocab(folder, vocab_file)
  return ModelFolder(
    weights,
    folder,
    config_file,
    model_config.BertConfig.from_json_file(config_file),
    vocab_file or tokenizer_files.find_vocab(folder),
    read_run(weights),
  )


def load(
  files: ModelFolder,
  model: keras.Model,
  required: str = "bert/",
  prefix: str = "",
) -> None:
  """Sets the variables of a model whose names begin with `prefix`.

  A warning names those that the files lack, which stay random.

  Raises:
    ValueError: for variables of another shape, or missing ones whose names
      begin with `required`.
  """
  reader = files.reader
  missing = checkpoints.load_variables(reader, model, required, prefix)
  model.vocab_file, model.run = files.vocab_file, files.run
  if prefix and files.run:  # It describes another head.
    model.run = dataclasses.replace(files.run, task=registry.ENCODER.name)
  elif missing and not prefix:
    logging.warning(
      "%s has no %s. These variables start from random values.",
      reader.path,
      ", ".join(missing),
    )


def save(
  model: Any, folder: str, vocab_file: str | None, changes: Mapping[str, Any]
) -> None:
  """Writes the model folder of `PretrainedModel.save_pretrained`."""
  there = paths.list_folder(folder) if paths.exists(folder) else []
  own = (*run_info.FILES, _RELEASED)
  if others := [name for name in there if not name.startswith(own)]:
    raise ValueError(f"{folder} holds other files, such as {others[0]}.")
  task, saved = registry.TASKS[model.task], model.run
  vocab_file = vocab_file or model.vocab_file
  names = {field.name for field in dataclasses.fields(run_info.LabelSpec)}
  named = {n: value for n, value in changes.items() if n in names}
  known = {n: value for n, value in changes.items() if n not in names}
  given = registry.settings_class(task.name)(**known)
  case = letter_case.resolve(given, saved and saved.settings, vocab_file)
  run = run_info.RunInfo(task=task.name)
  if saved and saved.task == task.name:
    run = dataclasses.replace(saved, examples=run_info.Examples(), scores={})
  settings = dataclasses.replace(
    run.settings,
    **vars(case),
    **{n: v for n, v in known.items() if n not in vars(case)},
  )
  run = dataclasses.replace(run, settings=settings)
  if task.label_defaults:
    num = model.num_labels
    spec = run.labels or run_info.LabelSpec(
      *task.label_defaults, hugging_face.numbered_labels(num)
    )
    spec = dataclasses.replace(spec, **named)
    labels, kind = tuple(spec.labels), spec.problem_type
    if num == 1 and kind == run_info.CLASSIFICATION:
      kind = run_info.REGRESSION
    if kind != run_info.REGRESSION and len(labels) != num:
      raise ValueError(f"{len(labels)} labels do not fit {num} outputs.")
    labels = () if kind == run_info.REGRESSION else labels
    spec = dataclasses.replace(spec, problem_type=kind, labels=labels)
    run = dataclasses.replace(run, labels=spec)
  run_info.write_run(folder, run, model.config, vocab_file)
  weights = {variable.path: variable for variable in model.weights}
  checkpoints.write(os.path.join(folder, _RELEASED), weights)


def load_tokenizer(
  files: ModelFolder,
  do_lower_case: bool | None = None,
  strip_accents: bool | None = None,
) -> tokenization.FullTokenizer:
  """Loads the tokenizer of a model.

  Raises:
    ValueError: if the case contradicts the vocabulary or a released checkpoint,
      or if the vocabulary lacks [UNK] or has more tokens than the model.
  """
  path = files.needed_vocab()
  user = letter_case.Case(do_lower_case, strip_accents)
  saved = files.run.settings if files.run else None
  case = letter_case.resolve(user, saved, path)
  tokenization.validate_case_matches_checkpoint(
    case.do_lower_case is not False, files.reader.path
  )
  tokenizer = letter_case.make_tokenizer(path, case)
  files.bert_config.check_vocab(len(tokenizer.vocab), path, files.config_file)
  return tokenizer


def has_config(folder: str) -> bool:
  """Returns whether a folder has a bert_config.json."""
  return paths.exists(os.path.join(folder, run_info.CONFIG_FILE))


def hash_weights(path: str) -> str:
  """Returns a SHA-256 of a model's weights, in hexadecimal digits.

  Hashes only the index of a TensorFlow checkpoint, which has a checksum per
  tensor. A safetensors file has none, so all of it is hashed.
  """
  weights = checkpoints.CheckpointReader(path).path
  if not hugging_face.is_weights(weights):
    weights = f"{checkpoints.prefix_to_read(weights)}.index"
  return paths.sha256(weights)


def find_weights(path: str) -> str:
  """Returns the weights at a path, as `ModelFolder.weights`.

  Raises:
    ValueError: if there is no such model, or more than one.
  """
  path = cache.resolve_model(path)
  if paths.is_file(path):
    if not hugging_face.is_weights(path):
      # A file of Keras is a zip archive, but there is better advice.
      form = "" if path.endswith(".keras") else recognize.form_of(path)
      fault = f"it is {form}." if form else _list([path])
      raise ValueError(f"{path} is not a model: {fault}")
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
  models += _find_hugging_face(path, names, has_others=bool(models))
  if len(models) == 1:
    return models[0]
  if models:
    raise ValueError(f"{path} holds several models: {', '.join(models)}.")
  raise ValueError(
    f"{path} holds no model that can be read: {_list(names, path)}"
  )


def _find_hugging_face(
  path: str, names: Sequence[str], has_others: bool
) -> list[str]:
  if "adapter_config.json" in names:
    raise ValueError(f"{path} is a LoRA adapter; {hugging_face.MERGE}")
  if "snapshots" in names:
    folder = os.path.join(path, "snapshots")
    raise ValueError(
      f"{path} is a folder of Hugging Face's cache. Give one of the folders in "
      f"{folder}: {', '.join(paths.list_folder(folder))}."
    )
  files = [hugging_face.WEIGHTS]
  if files[0] not in names and not has_others:
    files = [name for name in names if hugging_face.is_weights(name)]
  return [os.path.join(path, name) for name in files if name in names]


def _list(files: Sequence[str], folder: str = "") -> str:
  names = [os.path.basename(path) for path in files]
  found = f"there is {messages.join_names(names, 10) or 'nothing'}"
  if any(path.endswith(".keras") for path in files):
    return f"{found}. Load it with Keras and call its `save_pretrained`."
  if weights := [path for path in files if path.endswith(".weights.h5")]:
    path = os.path.join(folder, weights[0])
    return f"{found}. Convert {path} with `bert-tf convert`."
  return (
    f"{found}. A model is a checkpoint with bert_config.json, the output_dir "
    "of a run, a SavedModel, or model.safetensors or tf_model.h5 of "
    "transformers' save_pretrained."
  )
