"""A folder is a model: finds its weights, config, vocabulary and labels.

Whatever takes a model asks here: a released folder (bert_config.json,
vocab.txt, bert_model.ckpt), a run or its best/, a conversion, a SavedModel or
the folder of its versions, a folder of Hugging Face.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from absl import logging

from bert_tf import checkpoints, model_config
from bert_tf.files import errors, json_files, paths
from bert_tf.formats import hugging_face, tokenizer_files
from bert_tf.layers import bilstm
from bert_tf.model_folder import label_map, run_info

# Ends of what PyTorch pickles.
_PICKLED = (".bin", ".pt", ".pth", ".pkl")

# Names of a folder that one message lists.
_MAX_NAMED = 10


@dataclasses.dataclass(frozen=True)
class ModelFolder:
  """The files of a model."""

  # What `checkpoints.CheckpointReader` opens: a prefix, the folder of a
  # SavedModel or a safetensors file.
  weights: str
  config_file: str  # What `modeling.BertConfig.from_json_file` reads.
  # The vocabulary: a vocab.txt, or a tokenizer.json of word pieces. None if
  # there is neither.
  vocab_file: str | None
  # What run.json, label_map.json or Hugging Face's files say of task, labels,
  # case and lengths; None without them.
  run: run_info.RunInfo | None
  run_file: str  # The file that says so, for messages.

  @property
  def folder(self) -> str:
    """The folder that the weights are in."""
    return run_info.folder_of(self.weights)

  def needed_vocab(self) -> str:
    """Returns the vocabulary; raises ValueError if there is none."""
    if self.vocab_file:
      return self.vocab_file
    fault = f"{self.folder} has no {run_info.VOCAB_FILE}"
    if paths.exists(os.path.join(self.folder, tokenizer_files.TOKENIZER)):
      fault += f", and its {tokenizer_files.TOKENIZER} holds no word pieces"
    raise ValueError(f"{fault}; set `vocab_file`.")


def find(
  path: str,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
) -> ModelFolder:
  """Finds the files of a model.

  Args:
    path: a folder, the prefix of a checkpoint or a safetensors file.
    bert_config_file: None for the one in the folder.
    vocab_file: None for the one in the folder.

  Raises:
    ValueError: if there is no model, or more than one; if it has no config,
      or Hugging Face's beside the original's weights; if a file is damaged or
      contradicts those of the run. Says what was found and what to do.
  """
  weights = find_weights(path)
  _check_is_original(weights)
  found = beside(weights, bert_config_file, vocab_file)
  if run_info.folder_of(path) == path:  # Beside a prefix they are defaults.
    own = _config_path(found.weights)
    if bert_config_file and paths.exists(own):
      given = json_files.read_object(bert_config_file)
      saved = json_files.read_object(own)
      # A run's copy has the defaults of keys that were left out, but for ours.
      given, saved = (
        {**model_config.OWN_KEYS, **values} for values in (given, saved)
      )
      if any(given[key] != saved[key] for key in given.keys() & saved.keys()):
        _refuse("bert_config_file", bert_config_file, own)
    _check_vocab(found)
  return found


def beside(
  weights: str,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
) -> ModelFolder:
  """Returns the files beside weights; as `find`."""
  folder = run_info.folder_of(weights)
  if vocab_file is None:
    vocab_file = tokenizer_files.find_vocab(folder)
  found = ModelFolder(
    weights,
    bert_config_file or _config_file(weights),
    vocab_file,
    run_of(weights),
    run_file_of(weights),
  )
  is_there = weights.endswith(hugging_face.SUFFIX)
  config = json_files.read_object(found.config_file)
  if hugging_face.is_config(config) and not is_there:
    raise ValueError(
      f"{found.config_file} is Hugging Face's config, but {weights} is not "
      'Hugging Face\'s: its hidden_act "gelu" is another function than that of '
      "the original. Give the bert_config.json of the model, or write one "
      "without model_type and architectures."
    )
  if paths.exists(os.path.join(folder, run_info.RUN_FILE)):
    _check_vocab(found)
  return found


def _check_vocab(found: ModelFolder) -> None:
  """Raises ValueError if the folder has another vocabulary."""
  given, own = found.vocab_file, os.path.join(found.folder, run_info.VOCAB_FILE)
  if (
    given not in (None, own)
    and paths.exists(own)
    and tokenizer_files.read_vocab(given or "") != paths.read_bytes(own)
  ):
    _refuse("vocab_file", str(given), own)


def _refuse(name: str, given: str, own: str) -> None:
  """Raises ValueError: a file is not the model's."""
  raise ValueError(
    f"{name} {given} contradicts {own}, that of the model; leave `{name}` out."
  )


def has_config(folder: str) -> bool:
  """Returns whether a folder says what its model is, such as a run's."""
  return paths.exists(os.path.join(folder, run_info.CONFIG_FILE))


def load(found: ModelFolder, model: keras.Model) -> None:
  """Sets the variables of a model; those without a value stay random.

  A warning names what is missing beside the encoder.

  Raises:
    ValueError: naming each variable of the encoder that is missing and each one
      that differs in shape.
  """
  reader = checkpoints.CheckpointReader(found.weights)
  bilstm.check_is_loaded(model, reader.path, reader.shapes)
  missing = checkpoints.load_variables(reader, model, required="bert/")
  if missing:
    logging.warning(
      "%s has no %s: initialized at random.", reader.path, ", ".join(missing)
    )


def num_outputs(found: ModelFolder, task: str) -> int | None:
  """Returns the outputs of a head with labels; None without one.

  Raises:
    ValueError: if the head is another task's.
  """
  shapes = checkpoints.CheckpointReader(found.weights).shapes
  if "output_bias" not in shapes:
    return None
  if found.run and found.run.task != task:
    raise ValueError(
      f"{found.weights} has the head of another task, {found.run.task}; open "
      f"it with the model of that, or start {task} from another model."
    )
  return shapes["output_bias"][0]


def run_of(path: str) -> run_info.RunInfo | None:
  """Returns what is said of the model at a path, None if nothing.

  Args:
    path: of weights, as `ModelFolder.weights`, or a folder.

  Raises:
    ValueError: if a file is damaged.
  """
  folder = run_info.folder_of(path)
  if path.endswith(hugging_face.SUFFIX):
    config = hugging_face.read_config(folder)
    task = hugging_face.task_of(config)
    num_labels = 0
    if task in ("classification", "ner"):
      num_labels = len(config.get("id2label") or range(2))
    return read_hugging_face_run(folder, task, num_labels)
  if run := run_info.read_run(folder):
    if run.scores and not _are_scored(path):
      return dataclasses.replace(run, scores=None)
    return run
  labels = label_map.read(folder)
  return label_map.to_run(labels) if labels else None


def read_hugging_face_run(
  folder: str, task: str, num_labels: int
) -> run_info.RunInfo:
  """Returns what the files of a folder say of a model.

  Args:
    folder: of the model; a run.json in it says what the others do not.
    task: of the model's head.
    num_labels: outputs of its classifier; 0 without one.

  Raises:
    ValueError: for a damaged file, or if there are not num_labels labels.
  """
  run = run_info.read_run(folder)
  if not run or run.task != task:
    run = run_info.RunInfo(task=task)
  found = tokenizer_files.read_settings(folder)
  case = {n: getattr(found, n) for n in ("do_lower_case", "strip_accents")}
  known = {name: value for name, value in case.items() if value is not None}
  run = dataclasses.replace(run, **known)
  return _with_labels(run, hugging_face.read_config(folder), num_labels)


def _with_labels(
  run: run_info.RunInfo, config: Mapping[str, Any], num_labels: int
) -> run_info.RunInfo:
  """Returns a run with its labels and problem type, as far as they are known.

  Raises:
    ValueError: if there are not num_labels of them.
  """
  if not num_labels:
    return run
  names = config.get("id2label")
  ids = [str(i) for i in range(num_labels)]
  if names is not None and sorted(names) != sorted(ids):
    raise ValueError(
      f"id2label of config.json has the ids {', '.join(sorted(names))}, but "
      f"the classifier has {num_labels} labels."
    )
  labels = hugging_face.numbered_labels(num_labels)
  if names is not None:
    labels = tuple(names[i] for i in ids)
  if run.task == "ner":
    return dataclasses.replace(run, labels=labels)
  there = {value: key for key, value in hugging_face.PROBLEM_TYPES.items()}
  problem_type = there.get(config.get("problem_type") or "")
  # transformers leaves id2label out where there are two labels without names.
  if problem_type is None and names is None and num_labels != 2:
    return run
  if problem_type is None:
    # As transformers decides it.
    problem_type = "regression" if num_labels == 1 else "classification"
  if problem_type == "regression":
    labels = ()
  return dataclasses.replace(run, problem_type=problem_type, labels=labels)


def _are_scored(path: str) -> bool:
  """Whether run.json's scores are of these weights: a run's newest ones are."""
  if not paths.exists(f"{path}.index"):
    return True
  newest = checkpoints.latest(run_info.folder_of(path))
  return newest is None or os.path.normpath(path) == os.path.normpath(newest)


def run_file_of(path: str) -> str:
  """Returns the file that says the case of the model, for messages."""
  folder = run_info.folder_of(path)
  there = os.path.join(folder, tokenizer_files.TOKENIZER_CONFIG)
  if path.endswith(hugging_face.SUFFIX) and paths.exists(there):
    return there
  return os.path.join(folder, run_info.RUN_FILE)


def find_weights(path: str) -> str:
  """Returns the weights at a path, as `ModelFolder.weights`; as `find`."""
  if paths.is_file(path):
    if not path.endswith(hugging_face.SUFFIX):
      raise ValueError(f"{path} is no model: {_said([path])}")
    return path
  if run_info.folder_of(path) != path:
    checkpoints.prefix_to_read(path)  # Raises if there is no checkpoint.
    return path
  names = paths.list_folder(path)
  found = _saved_models(path, names)
  newest = checkpoints.latest(path)
  indexes = [name for name in names if name.endswith(".index")]
  found += (
    [newest]
    if newest
    else [os.path.join(path, n.removesuffix(".index")) for n in indexes]
  )
  if hugging_face.WEIGHTS in names:
    found.append(os.path.join(path, hugging_face.WEIGHTS))
  if len(found) == 1:
    return found[0]
  if found:
    raise ValueError(
      f"{path} holds {len(found)} models; name one of them: {', '.join(found)}."
    )
  said = _said([os.path.join(path, name) for name in names])
  raise ValueError(f"{path} holds no model that can be read: {said}")


def _saved_models(path: str, names: Sequence[str]) -> list[str]:
  """Returns the SavedModel of a folder, or the newest of its versions."""
  if checkpoints.is_saved_model(path):
    return [path]
  versions = [
    name
    for name in names
    if name.isdecimal() and checkpoints.is_saved_model(os.path.join(path, name))
  ]
  newest = sorted(versions, key=int)[-1:]
  return [os.path.join(path, name) for name in newest]


def _check_is_original(weights: str) -> None:
  """Raises ValueError for a checkpoint of objects that is no SavedModel."""
  if weights.endswith(hugging_face.SUFFIX) or checkpoints.is_saved_model(
    weights
  ):
    return
  try:
    names = checkpoints.CheckpointReader(weights).shapes
  except checkpoints.DamagedCheckpointError:
    return  # Whoever reads it says so.
  if checkpoints.OBJECT_GRAPH in names:
    raise ValueError(
      f"{weights} is a checkpoint of objects, as TF Model Garden's are; "
      f"{_convert(weights)}"
    )


def _convert(path: str) -> str:
  """Returns the command that makes the original's format of a model."""
  folder = os.path.join(os.path.dirname(path), "original")
  return (
    f"convert it by `bert-tf convert --model={path} --output_checkpoint="
    f"{folder}/bert_model.ckpt`, with --bert_config_file and --vocab_file "
    f"where these do not lie beside it, and give {folder}."
  )


def _said(found: Sequence[str]) -> str:
  """Returns which files were found and what to do."""
  names = [os.path.basename(path) for path in found]
  listed = errors.listed(names, _MAX_NAMED)
  for path in found:
    if path.endswith(".weights.h5"):
      return f"there is {listed}; {_convert(path)}"
  for ends, remedy in (
    (".zip", "unpack it and give the folder that comes out."),
    (
      f"{hugging_face.SUFFIX}.index.json",
      "the weights are in several files; save the model again by "
      "save_pretrained(folder, max_shard_size='100GB').",
    ),
    (
      _PICKLED,
      "weights that are pickled can run any code when they are read, so they "
      "are not. Where you trust them, load them with transformers and save the "
      "model again by save_pretrained(folder); it writes safetensors.",
    ),
    ("tf_model.h5", hugging_face.from_other("from_tf")),
    ("flax_model.msgpack", hugging_face.from_other("from_flax")),
    (
      ".keras",
      "a whole Keras model can run any code when it is read. Where you trust "
      "it, write its weights in Python, by keras.saving.load_model(path)."
      "save_weights('bert.weights.h5'), then use `bert-tf convert`.",
    ),
    (
      (".index", ".data-00000-of-00001"),
      "give the part of a checkpoint's name before that.",
    ),
  ):
    if any(name.endswith(ends) for name in names):
      return f"there is {listed}; {remedy}"
  return (
    f"there is {listed or 'nothing'}. Give a folder with bert_config.json, "
    "vocab.txt and bert_model.ckpt, the output_dir of a run, a SavedModel, or "
    "a folder with config.json and model.safetensors."
  )


def _config_path(weights: str) -> str:
  """Returns where the config of a model lies."""
  is_there = weights.endswith(hugging_face.SUFFIX)
  name = hugging_face.CONFIG if is_there else run_info.CONFIG_FILE
  return os.path.join(run_info.folder_of(weights), name)


def _config_file(weights: str) -> str:
  """Returns the config of a model; raises ValueError without one."""
  path = _config_path(weights)
  if paths.exists(path):
    return path
  other = os.path.join(run_info.folder_of(weights), hugging_face.CONFIG)
  if paths.exists(other):
    return other  # Which `beside` refuses, with the reason.
  raise ValueError(
    f"there is no {path}; put the model's there or set `bert_config_file`."
  )
