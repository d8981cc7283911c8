"""Opens a model in a folder or a checkpoint of any format.

A model's folder is one of: a released model (bert_config.json, vocab.txt,
bert_model.ckpt), a run's output_dir or its best/, a conversion, a SavedModel, a
folder with versions of a SavedModel, or a folder of Hugging Face.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any, TypeVar

import keras
from absl import logging

import bert_tf
from bert_tf import settings, task_registry, tokenization
from bert_tf.checkpoint import checkpoint_names, checkpoints, run_info
from bert_tf.checkpoint.checkpoints import is_saved_model
from bert_tf.files import json_files, paths, tokenizer_files
from bert_tf.model import heads, hugging_face_config
from bert_tf.model.heads import HeadModel
from bert_tf.model.layers import lora
from bert_tf.model.model_config import BertConfig
from bert_tf.text import letter_case

Settings = TypeVar("Settings", bound=settings.Dataclass)
_Shapes = Mapping[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class ModelFolder:
  """A model in a folder or a checkpoint of any format: what it is.

  Everything else asks it instead of the files, which `open` reads once. The
  vocabulary is read when it is first needed.

  Attributes:
    config: the model's sizes, from `config_file`.
    folder: the folder of the weights; "" for a new model.
    weights: the path of the weights; None for a new model.
    reader: reads the weights; None for a new model and for a file of ONNX or
      LiteRT.
    vocab_file: a vocab.txt or a tokenizer.json; None without either.
    saved: what the files beside the weights say about the model, in run.json,
      label_map.json or Hugging Face's config.json; None if they say nothing.
    task: the task that the user asks for; None for the model's own.
    given: the settings that the user gives, by name.
  """

  config: BertConfig
  config_file: str
  vocab_file: str | None = None
  folder: str = ""
  weights: str | None = None
  reader: checkpoints.CheckpointReader | None = None
  saved: run_info.RunInfo | None = None
  task: str | None = None
  given: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  @classmethod
  def open(
    cls,
    path: str | None,
    *,
    bert_config_file: str | None = None,
    vocab_file: str | None = None,
    task: str | None = None,
    output_dir: str | None = None,
    **overrides: Any,
  ) -> "ModelFolder":
    """Finds a model and reads the files beside its weights.

    Args:
      path: a folder, the prefix of a checkpoint, a safetensors file or the name
        of a downloaded model; None for a new model, which has only a config
        and a vocabulary.
      bert_config_file: config of the model; None for the one in the folder.
      vocab_file: vocabulary of the model; None for the one in the folder.
      task: the task to use the model for; None for its own.
      output_dir: the folder of a training. Without a path, the config and the
        vocabulary are by default those of the run in it, which is resumed.
      **overrides: settings of the task by name; None for those of the model.

    Raises:
      ValueError: if there is no such model, or more than one, if a file is
        missing or damaged, or if `vocab_file` differs from that of a folder.
    """
    folder, found, reader, saved = "", None, None, None
    own_config = os.path.join(output_dir or "", run_info.CONFIG_FILE)
    if output_dir and not path and paths.exists(own_config):
      bert_config_file = bert_config_file or own_config
      vocab_file = vocab_file or tokenizer_files.find_vocab(output_dir)
    if path:
      found = checkpoints.find_weights(path)
      folder = run_info.get_folder(found)
      if not checkpoints.is_runtime_file(found):
        reader = checkpoints.CheckpointReader(found)
      saved = _read_saved(found, folder, reader)
      # Beside the prefix of a checkpoint, the vocabulary is only a default.
      has_run = paths.exists(os.path.join(folder, run_info.RUN_FILE))
      if found != path or has_run or is_saved_model(found):
        run_info.check_vocab(folder, vocab_file)
      # TF Hub's SavedModels have their vocabulary among the assets.
      find, assets = tokenizer_files.find_vocab, os.path.join(folder, "assets")
      vocab_file = vocab_file or find(folder) or find(assets)
    config, config_file = _read_config(bert_config_file, found, folder)
    return cls(
      config,
      config_file,
      vocab_file,
      folder,
      found,
      reader,
      saved,
      task,
      {name: v for name, v in overrides.items() if v is not None},
    )

  @functools.cached_property
  def shapes(self) -> _Shapes:
    """The shapes of the tensors, by the original's names.

    Raises ValueError if they are not those of a BERT.
    """
    if not self.weights:
      return {}
    # A file of another runtime has no tensors, which raises ValueError.
    shapes = (self.reader or checkpoints.CheckpointReader(self.weights)).shapes
    if shapes or not is_saved_model(self.weights):  # It may only prepare texts.
      checkpoint_names.check_is_bert(self.weights, shapes)
    return shapes

  @property
  def is_runtime_file(self) -> bool:
    """Whether the weights are a file for ONNX or LiteRT, without variables."""
    return checkpoints.is_runtime_file(self.weights or "")

  @functools.cached_property
  def heads(self) -> tuple[heads.Head, ...]:
    """The heads that have variables among the weights."""
    saved_task = self.saved.task if self.saved else None
    return heads.find_heads(self.shapes, saved_task)

  @functools.cached_property
  def task_name(self) -> str:
    """The user's task, else that of the files and the head, else "encoder".

    Raises:
      ValueError: if the model has the heads of several tasks, or not that of
        the user's task.
    """
    saved_task = self.saved.task if self.saved else None
    # The tasks whose heads are complete, first that of the files.
    models = heads.list_model_classes(saved_task)
    tasks = [m.task for m in models if self._has_head(m.task)]
    if self.task and not self._has_head(self.task):
      advice = "Set `output_dir` to train one."
      if tasks:
        advice = f"It has {' and '.join(tasks)}."
      elif self.task == task_registry.PRETRAINING.name:
        advice = "Take a pre-trained model, which can predict masked words."
      raise ValueError(f"{self.weights} has no head for {self.task}. {advice}")
    task = self.task or saved_task
    if task and self._has_head(task):
      return task
    if len(tasks) > 1:
      raise ValueError(
        f"{self.weights} has heads of several tasks: {', '.join(tasks)}. Set "
        "`task` to one."
      )
    return tasks[0] if tasks else task_registry.ENCODER.name

  def _has_head(self, task: str) -> bool:
    """Returns whether there are all variables of a task's head, if any."""
    if self.is_runtime_file:  # It computes the outputs of one head.
      return self.saved is not None and self.saved.task == task
    spec = task_registry.TASKS.get(task)
    model = task_registry.load(spec.model) if spec else None
    return not model or not model.missing_variables(self.shapes)

  @functools.cached_property
  def labels(self) -> run_info.LabelSpec | None:
    """The labels of the task; None for a task without labels.

    Raises:
      ValueError: if the files do not tell them, or tell those of another head.
    """
    spec = task_registry.TASKS.get(self.task_name)
    if spec and not spec.label_defaults:
      return None
    saved = self.saved
    labels = saved.labels if saved and saved.task == self.task_name else None
    if not labels:
      raise ValueError(
        f"The labels of {self.weights} are unknown, because {self.folder} has "
        f"no {run_info.LABEL_MAP_FILE} of a model of `task={self.task_name}`. "
        "Copy the file of its run there."
      )
    if self.is_runtime_file:
      return labels
    if (size := self.shapes["output_weights"][0]) != labels.num_outputs:
      raise ValueError(
        f"{self.weights} has a head of {size} labels, but its labels file has "
        f"{len(labels.labels)}: {', '.join(labels.labels)}."
      )
    return labels

  @functools.cached_property
  def settings(self) -> Any:
    """The settings of the task, an instance of its settings class.

    Raises:
      ValueError: if the user gives a setting that the task does not have, or a
        value that does not fit the model.
    """
    given = _as_settings(self.task_name, {**self.given, **vars(self.case)})
    return self.resolve(given, self.task_name, labels=self.labels)

  @functools.cached_property
  def info(self) -> run_info.RunInfo:
    """What a run.json should say about the model with these settings."""
    info = run_info.RunInfo(task=self.task_name)
    if self.saved and self.saved.task == self.task_name:
      info = self.saved
    return dataclasses.replace(
      info,
      settings=self.settings,
      labels=self.labels,
      bert_tf_version=bert_tf.__version__,
    )

  def resolve(
    self,
    given: Settings,
    task: str,
    resumed: run_info.RunInfo | None = None,
    output_dir: str = "",
    labels: run_info.LabelSpec | None = None,
  ) -> Settings:
    """Returns settings with a value for everything that the user left open.

    A value is the user's, else that of the resumed run, else that of the run
    that trained this model if it had the same task, else a guess.

    Args:
      given: the user's settings: an instance of the task's settings class or of
        its command's config, with None for what the user left open.
      task: the task of the settings, which may be another one than this
        model's if they are those of a training.
      resumed: the run in output_dir that a training resumes, if any.
      output_dir: the folder of the resumed run, for the log.
      labels: the labels of the task, if they are known.

    Raises:
      ValueError: if a value does not fit the vocabulary or the model.
    """
    run, where = self.saved, self.folder
    if resumed:
      run, where = resumed, os.path.join(output_dir, run_info.RUN_FILE)
    case = self._resolve_case(given, run)
    if self.vocab_file and case.do_lower_case is None:
      case = dataclasses.replace(case, do_lower_case=True)
    config: Any = dataclasses.replace(given, **vars(case))
    if run and run.task == task:
      saved = {**vars(run.training), **vars(run.settings)}
      config = settings.fill(config, saved, where)
    config = config.resolved(
      self.folder, self.config.max_position_embeddings, labels
    )
    self.config.check_lengths(config.max_seq_length, self.config_file)
    return config

  def _resolve_case(
    self, given: Any, run: run_info.RunInfo | None
  ) -> letter_case.Case:
    vocabulary = (self.vocab_file, self.vocab) if self.vocab_file else None
    return letter_case.resolve(given, run and run.settings, vocabulary)

  def needed_vocab(self) -> str:
    """Returns the path of the vocabulary; raises ValueError without one."""
    if self.vocab_file:
      return self.vocab_file
    raise ValueError(
      f"There is no {os.path.join(self.folder, run_info.VOCAB_FILE)}. Set "
      "`vocab_file`."
    )

  @functools.cached_property
  def vocab_content(self) -> bytes | None:
    """The content of vocab.txt; None without a vocabulary."""
    path = self.vocab_file
    return tokenizer_files.read_vocab(path) if path else None

  @functools.cached_property
  def vocab(self) -> dict[str, int]:
    """The ids by token; raises ValueError if there are none or too many."""
    path = self.needed_vocab()
    vocab = tokenization.parse_vocab(self.vocab_content or b"", path)
    self.config.check_vocab(len(vocab), path, self.config_file)
    return vocab

  @functools.cached_property
  def case(self) -> letter_case.Case:
    """How to treat upper case and accents: the user's choice or a guess."""
    names = ("do_lower_case", "strip_accents")
    given = letter_case.Case(*map(self.given.get, names))
    return self._resolve_case(given, self.saved)

  @functools.cached_property
  def tokenizer(self) -> tokenization.FullTokenizer:
    """The tokenizer for texts; raises as `make_tokenizer`."""
    return self.make_tokenizer(self.case)

  def make_tokenizer(self, case: Any) -> tokenization.FullTokenizer:
    """Returns a tokenizer with the letter case of a Case or of settings.

    Raises:
      ValueError: without a vocabulary, if the letter case contradicts it or a
        released checkpoint, or if it lacks [UNK].
    """
    lower = case.do_lower_case is not False
    tokenization.validate_case_matches_checkpoint(lower, self.weights)
    path = self.needed_vocab()
    tokenizer_files.warn_of_differing(path)
    return tokenization.FullTokenizer(
      path, lower, case.strip_accents, vocab=self.vocab
    )

  def load_model(
    self, model_class: type[HeadModel] | None, required: str = ""
  ) -> keras.Model:
    """Returns a Keras model of a class, for None a BertModel, with the weights.

    Raises:
      ValueError: as `load`, and if the class has labels that are not known.
    """
    spec = task_registry.TASKS[model_class.task] if model_class else None
    labels = self.labels if spec and spec.label_defaults else None
    num_outputs = labels.num_outputs if labels else 0
    config = self.config.without_random_values()
    model = heads.build_model(model_class, config, num_outputs)
    self.load(model, required)
    return model

  def load(
    self, model: keras.Model, required: str = "bert/", prefix: str = ""
  ) -> None:
    """Sets the variables of a Keras model whose names begin with `prefix`.

    A warning names those that the weights lack, which stay random.

    Raises:
      ValueError: for variables of another shape, or missing ones whose names
        begin with `required`.
    """
    _ = self.shapes  # Raises ValueError if they are not those of a BERT.
    assert self.reader
    missing = checkpoints.load_variables(self.reader, model, required, prefix)
    model.vocab_file, model.run = self.vocab_file, self.saved
    if prefix and self.saved:  # It describes another head.
      model.run = dataclasses.replace(
        self.saved, task=task_registry.ENCODER.name
      )
    elif missing and not prefix:
      logging.warning(
        "%s has no %s. These variables start from random values.",
        self.weights,
        ", ".join(missing),
      )


def save(
  model: Any, folder: str, vocab_file: str | None, changes: Mapping[str, Any]
) -> None:
  """Writes the model folder of `PretrainedModel.save_pretrained`."""
  run_info.check_own_files(folder, (*run_info.FILES, checkpoints.RELEASED))
  given, spec, run = dict(changes), task_registry.TASKS[model.task], model.run
  if not run or run.task != spec.name:
    run = run_info.RunInfo(task=spec.name)
  labels = run.labels
  if spec.label_defaults:
    names = {field.name for field in dataclasses.fields(run_info.LabelSpec)}
    named = {name: given.pop(name) for name in names & given.keys()}
    numbered = hugging_face_config.numbered_labels(model.num_labels)
    labels = labels or run_info.LabelSpec(*spec.label_defaults, numbered)
    labels = dataclasses.replace(labels, **named)
    classifies = labels.problem_type == run_info.CLASSIFICATION
    if classifies and model.num_labels == 1:
      labels = dataclasses.replace(labels, problem_type="regression", labels=())
    if labels.num_outputs != model.num_labels:
      raise ValueError(
        f"{len(labels.labels)} labels do not fit {model.num_labels} outputs."
      )
  files = ModelFolder(
    model.config,
    os.path.join(folder, run_info.CONFIG_FILE),
    vocab_file or model.vocab_file,
    saved=model.run,
  )
  settings = _as_settings(spec.name, given)
  # The examples and scores are those of other weights.
  info = run_info.RunInfo(
    task=spec.name,
    settings=files.resolve(settings, spec.name, labels=labels),
    labels=labels,
    training=run.training,
  )
  vocab_content = files.vocab_content
  if vocab_content is None and model.preprocessor:
    tokens = model.preprocessor.tokenizer.vocab
    vocab_content = "".join(f"{token}\n" for token in tokens).encode()
  all_tensors, state = lora.tensors(model), lora.STATE_SUFFIXES
  tensors = {n: t for n, t in all_tensors.items() if not n.endswith(state)}
  if quantized := [n for n in tensors if n.endswith("/kernel_scale")]:
    raise ValueError(
      f"a quantized model is saved by `model.save` only: it has {quantized[0]}."
    )
  described = run_info.describe(info, model.config, vocab_content)
  run_info.write_files(folder, described)
  checkpoints.write(os.path.join(folder, checkpoints.RELEASED), tensors)


def _as_settings(task: str, given: Mapping[str, Any]) -> Any:
  """Returns the user's settings as the task's class, None for all others."""
  settings_class = task_registry.settings_class(task)
  names = [field.name for field in dataclasses.fields(settings_class)]
  for name, value in given.items():
    if name not in names:
      raise ValueError(
        f"{name} {value!r} is not a setting of {task}, which has "
        f"{', '.join(names)}. Leave out `{name}`."
      )
  return settings_class(**{name: given.get(name) for name in names})


def _read_config(
  config_file: str | None, path: str | None, folder: str
) -> tuple[BertConfig, str]:
  """Reads the user's config, else the one beside the weights, and its path."""
  is_hugging_face = hugging_face_config.is_weights(path or "")
  if not config_file:
    if not path:
      raise ValueError(
        "There is no model. Set `model` to the folder of one, or set "
        "`bert_config_file` and `vocab_file`."
      )
    config_file = os.path.join(folder, run_info.CONFIG_FILE)
    theirs = os.path.join(folder, hugging_face_config.CONFIG)
    if is_hugging_face or (
      not paths.exists(config_file) and paths.exists(theirs)
    ):
      config_file = theirs
    if not paths.exists(config_file):
      raise ValueError(f"There is no {config_file}. Set `bert_config_file`.")
  values = json_files.read_object(config_file)
  if not is_hugging_face and hugging_face_config.is_config(values, config_file):
    raise ValueError(
      f"{config_file} is Hugging Face's config, whose `gelu` is a different "
      f"function, but {path} does not hold Hugging Face's weights. Give the "
      "model's own bert_config.json."
    )
  return BertConfig.from_json_object(values, config_file), config_file


def _read_saved(
  path: str, folder: str, reader: checkpoints.CheckpointReader | None
) -> run_info.RunInfo | None:
  """Returns what the files beside weights say; None if they say nothing.

  It comes from run.json, else label_map.json, or from Hugging Face's files.
  """
  run = run_info.read_run(folder)
  if reader and reader.format == "hf":
    return _read_hugging_face(run, folder, reader.shapes)
  if run:
    newest = checkpoints.find_latest(folder) or path
    is_newest = os.path.basename(newest) == os.path.basename(path)
    if paths.exists(f"{path}.index") and not is_newest:
      # The scores in run.json are those of the newest checkpoint.
      return dataclasses.replace(run, scores={})
    return run
  labels = run_info.read_labels(folder)
  if not labels and reader and reader.labels_words:
    num_labels = reader.shapes["output_bias"][0]
    names = hugging_face_config.numbered_labels(num_labels)
    labels = run_info.LabelSpec("ner", run_info.WORDS, names)
  if not labels:
    return None
  is_of_words = labels.problem_type == run_info.WORDS
  task = task_registry.NER if is_of_words else task_registry.CLASSIFICATION
  return run_info.RunInfo(task=task.name, labels=labels)


def _read_hugging_face(
  run: run_info.RunInfo | None, folder: str, shapes: _Shapes
) -> run_info.RunInfo:
  config = hugging_face_config.read_config(folder)
  task = hugging_face_config.find_task(config)
  num_labels = shapes.get("output_bias", (0,))[0]
  if num_labels and not task.label_defaults:
    task = task_registry.CLASSIFICATION
  # A run.json of this task adds the settings that Hugging Face's files lack.
  if not run or run.task != task.name:
    run = run_info.RunInfo(task=task.name)
  case = vars(tokenizer_files.read_case(folder)).items()
  known = {name: value for name, value in case if value is not None}
  known_settings = dataclasses.replace(run.settings, **known)
  run = dataclasses.replace(run, settings=known_settings)
  if not num_labels:
    return run
  path = os.path.join(folder, hugging_face_config.CONFIG)
  ids = [str(i) for i in range(num_labels)]
  numbered = dict(zip(ids, hugging_face_config.numbered_labels(num_labels)))
  names = numbered if config.id2label is None else config.id2label
  if sorted(names) != sorted(ids):
    raise ValueError(
      f"id2label of {path} has the ids {', '.join(sorted(names))}, but the "
      f"classifier has {num_labels} labels."
    )
  labels = {
    **dict(zip(("task_name", "problem_type"), task.label_defaults or ())),
    **(run.labels.label_map() if run.labels else {}),
    "labels": [names[i] for i in ids],
  }
  if task is task_registry.CLASSIFICATION:
    theirs = hugging_face_config.PROBLEM_TYPES.items()
    ours = {v: k for k, v in theirs if k != run_info.RANKING}
    problem_type = ours.get(config.problem_type or "")
    if not problem_type:
      # transformers leaves id2label out if there are two labels without names.
      if config.id2label is None and num_labels != 2:
        return run
      # As transformers infers it.
      problem_type = "regression" if num_labels == 1 else "classification"
    labels["problem_type"] = problem_type
    if problem_type == run_info.REGRESSION:
      labels["labels"] = []
      given = (config.sentence_transformers or {}).get("activation_fn")
      given = given or config.sbert_ce_default_activation_function
      activation = str(given or "Identity").rpartition(".")[2]
      if activation == "Sigmoid":  # A cross-encoder of sentence-transformers.
        labels["problem_type"] = run_info.RANKING
      elif activation != "Identity":
        logging.warning(f"{path}: predictions are logits, without its {given}.")
  where = f"id2label of {path}"
  spec = json_files.check(labels, run_info.LabelSpec, where)
  return dataclasses.replace(run, labels=spec)
