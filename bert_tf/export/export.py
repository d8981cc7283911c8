"""Exports checkpoints as SavedModels that take word-piece ids and texts.

Serving them does not need this package. SavedModels that take texts need the
ops of tensorflow-text, which TensorFlow Serving includes.
"""

import dataclasses
import os
from typing import Any

import tensorflow as tf
from absl import logging

import bert_tf
from bert_tf import (
  checkpoint_names,
  checkpoints,
  heads,
  model_folder,
  model_inputs,
  settings,
)
from bert_tf.export import config as configs
from bert_tf.export import saved_models
from bert_tf.export.signatures import (
  attention,
  classification,
  encoders,
  masks,
  spans,
  words,
)
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.files import atomic, paths
from bert_tf.kernels import backend
from bert_tf.model_folder import run_info
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import glue
from bert_tf.tasks.squad import config as squad_config

# SQuAD's settings that choose among candidate answers. The user may set other
# values than those in run.json.
_CHOOSE_ANSWERS = (
  "n_best_size",
  "max_answer_length",
  "null_score_diff_threshold",
)

_MODELS = {model.task: model for model in heads.MODELS}

_MAX_SEQ_LENGTHS = {"squad": squad_config.DEFAULT_WINDOWS.max_seq_length}
_DEFAULT_MAX_SEQ_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class Built:
  """A model and the functions of its SavedModel."""

  files: model_folder.ModelFolder
  vocab_file: str | None  # None if no function takes texts.
  info: run_info.RunInfo  # Content of run.json.
  # Owns the variables and tables; must stay alive while functions are called.
  module: tf.Module
  signatures: saved_models.Signatures


def run(config: configs.ExportConfig, replaces: bool = False) -> str:
  """Writes a SavedModel with run.json and bert_config.json.

  A model that takes texts also gets vocab.txt, and one with labels
  label_map.json.

  Returns the exported task. An existing SavedModel is only replaced if
  `replaces` is true.

  Raises:
    ValueError: if the checkpoint lacks the head of the task; if settings,
      config, vocabulary, labels and run.json contradict each other or are
      missing; or if the folder is not empty.
  """
  if not replaces and not paths.is_free(config.export_dir):
    raise ValueError(
      f"{config.export_dir} is not empty; choose another `export_dir`."
    )
  built = build(config, config.with_text, config.with_attention)
  info = built.info
  if config.with_attention and info.task in ("encoder", configs.PREPROCESSING):
    raise ValueError(f"`attention` needs a task with a head, not {info.task}.")
  reader = built.files.reader
  if checkpoints.GLOBAL_STEP in reader.shapes:
    step = int(reader.get(checkpoints.GLOBAL_STEP))
    info = dataclasses.replace(info, global_step=step)
  classification.warn_if_cut(info)
  with atomic.folder(
    config.export_dir, last="saved_model.pb", replaces=replaces
  ) as folder:
    saved_models.save(built.module, built.signatures, folder)
    run_info.write_run(folder, info, built.files.bert_config, built.vocab_file)
  logging.info("Wrote %s.", config.export_dir)
  return info.task


def build(
  config: configs.ModelConfig,
  with_text: bool = True,
  with_attention: bool = False,
) -> Built:
  """Builds in memory the model that `run` writes.

  `with_text` adds functions that take texts, `with_attention` those that return
  the attention.

  Raises:
    ValueError: as `run`, except for the folder.
  """
  if with_attention and not with_text:
    raise ValueError("`attention` needs texts, which `text=False` excludes.")
  if config.task != configs.PREPROCESSING:
    backend.check_tensorflow()
  files = model_folder.find(
    config.init_checkpoint, config.bert_config_file, config.vocab_file
  )
  vocab_file = None
  if with_text or config.task == configs.PREPROCESSING:
    vocab_file = files.needed_vocab()
  spec = files.run.label_spec if files.run else None
  task = config.task or _infer_task(files, spec)
  if task == configs.PREPROCESSING and not with_text:
    raise ValueError("`task=preprocessing` takes texts; leave `text` true.")
  if task != configs.PREPROCESSING:
    _check_head(files.reader, task)
  if task == "pretraining":
    direction = files.bert_config.attention_direction
    if direction != model_inputs.BOTH:
      raise ValueError(
        f"{files.weights} was pre-trained {direction.replace('_', ' ')} to "
        "predict the next word piece, so it cannot predict [MASK]. Fine-tune "
        "it, or export it with `task=encoder`."
      )
  tokenizer = None
  if vocab_file:
    tokenizer = bert_tokenizer.load(
      files, config.do_lower_case, config.strip_accents
    )
  config.check_used(task)
  run = files.run  # Ignored if it is of another task.
  saved = run.saved(config) if run and run.task == task else {}
  for name in _CHOOSE_ANSWERS:
    if getattr(config, name) is not None:
      saved.pop(name, None)
  if task == "pretraining":  # The length of its records does not limit texts.
    saved.pop("max_seq_length", None)
  config = settings.resolve(config, saved, files.run_file)
  if task == "encoder" and tokenizer:
    config = encoders.resolve_settings(files, config)
  has_labels = task in ("classification", "ner")
  spec = _check_labels(files, task, spec) if has_labels else None
  length = _max_seq_length(files, task, config.max_seq_length)
  config = dataclasses.replace(config, max_seq_length=length)
  info = _run_info(files, task, config, tokenizer, spec)
  module, signatures = _module(files, config, info, tokenizer, with_attention)
  return Built(files, vocab_file, info, module, signatures)


def _module(
  files: model_folder.ModelFolder,
  config: configs.ModelConfig,
  info: run_info.RunInfo,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  with_attention: bool,
) -> tuple[tf.Module, saved_models.Signatures]:
  assert config.max_seq_length is not None
  length = config.max_seq_length
  if info.task == configs.PREPROCESSING:
    assert tokenizer is not None
    preprocessor = encoders.Preprocessor(tokenizer, length)
    return preprocessor, preprocessor.signatures()
  bert_config = files.bert_config
  num_outputs = len(info.labels or ()) or 1  # A regression has no labels.
  model = heads.build(
    _MODELS.get(info.task), bert_config.without_random_values(), num_outputs
  )
  model_folder.load(files, model, required="")
  named = saved_models.NamedModel(model, bert_config.max_position_embeddings)
  if info.task == "encoder":
    encoder = encoders.Encoder(
      named,
      files.vocab_file if tokenizer else None,
      info.do_lower_case is not False,
    )
    signatures = encoder.signatures()
    if tokenizer:
      assert config.pooling and config.normalize is not None
      signatures |= encoder.text_signature(
        tokenizer, length, config.pooling, config.normalize
      )
    return encoder, signatures
  signatures = _signatures(info, named, tokenizer, length, config.top_k)
  if with_attention:
    assert tokenizer is not None
    keeps_masks = info.task == "pretraining"
    signatures |= attention.signatures(
      model.bert, named, tokenizer, length, keeps_masks
    )
  served = tf.Module(name="served")
  served.model, served.tokenizer = named, tokenizer
  return served, signatures


def _signatures(
  info: run_info.RunInfo,
  model: saved_models.NamedModel,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  length: int,
  top_k: int,
) -> saved_models.Signatures:
  labels = info.labels or ()
  if info.task == "classification":
    problem_type, is_pair = info.problem_type, bool(info.is_pair)
    assert problem_type is not None
    return classification.signatures(
      model, problem_type, labels, is_pair, tokenizer, length
    )
  if info.task == "ner":
    return words.signatures(model, labels, tokenizer, length)
  if info.task == "swag":
    return classification.choice_signatures(model, tokenizer, length)
  if info.task == "pretraining":
    return masks.signatures(model, tokenizer, length, top_k)
  return spans.signatures(
    model,
    tokenizer,
    settings.extract(info, squad_config.WindowConfig),
    settings.extract(info, squad_config.DecodingConfig),
  )


def _run_info(
  files: model_folder.ModelFolder,
  task: str,
  config: configs.ModelConfig,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  spec: run_info.LabelSpec | None,
) -> run_info.RunInfo:
  info = run_info.RunInfo(task=task)
  if files.run and files.run.task == task:
    info = files.run
  changes: dict[str, Any] = {"bert_tf_version": bert_tf.__version__}
  # Pre-trained models and the function `ids` of encoders accept any length.
  if task != "pretraining" and (task != "encoder" or tokenizer):
    changes["max_seq_length"] = config.max_seq_length
  if task == "encoder":
    changes |= {"pooling": config.pooling, "normalize": config.normalize}
  if tokenizer:
    changes["do_lower_case"] = tokenizer.do_lower_case
    changes["strip_accents"] = tokenizer.strip_accents
  if spec:
    changes["task_name"] = spec.name
    changes["problem_type"] = spec.problem_type
    changes["labels"] = spec.labels
    if task == "classification" and info.is_pair is None:
      is_glue = spec.name in classification_config.TASK_NAMES
      changes["is_pair"] = is_glue and glue.get_task(spec.name).is_pair
  if task == "squad":
    changes |= vars(settings.extract(config, squad_config.WindowConfig))
    changes |= vars(settings.extract(config, squad_config.DecodingConfig))
  return dataclasses.replace(info, **changes)


def _max_seq_length(
  files: model_folder.ModelFolder, task: str, length: int | None
) -> int:
  """Returns the user's length, else the task's default, cut to the model."""
  bert_config = files.bert_config
  if length:
    bert_config.check_lengths(length, files.config_file)
    return length
  num_positions = bert_config.max_position_embeddings
  if task == "pretraining":
    return num_positions
  default = _MAX_SEQ_LENGTHS.get(task, _DEFAULT_MAX_SEQ_LENGTH)
  return min(default, num_positions)


def _infer_task(
  files: model_folder.ModelFolder, spec: run_info.LabelSpec | None
) -> str:
  """Returns the task in run.json, else of the head; "encoder" without one."""
  names = files.reader.shapes
  if files.run:
    model = _MODELS.get(files.run.task)
    if model is None or not model.missing_variables(names):
      return files.run.task
  labels_words = spec is not None and spec.problem_type == run_info.WORDS
  try:
    model = heads.find_kind(names, labels_words)
  except ValueError as error:
    raise ValueError(
      f"{files.reader.path}: {error} Set `task` to one."
    ) from error
  return model.task if model else "encoder"


def _check_head(reader: checkpoints.CheckpointReader, task: str) -> None:
  names = checkpoint_names.parameters(reader.shapes)
  checkpoint_names.check_is_bert(reader.path, names)
  model = _MODELS.get(task)
  missing = model.missing_variables(names) if model else []
  if missing:
    tasks = [m.task for m in heads.MODELS if not m.missing_variables(names)]
    raise ValueError(
      f"{reader.path} has no head for {task}: it lacks {missing[0]}. It has "
      f"heads for {' and '.join(tasks) or 'no task'}."
    )


def _check_labels(
  files: model_folder.ModelFolder, task: str, spec: run_info.LabelSpec | None
) -> run_info.LabelSpec:
  path = os.path.join(files.folder, run_info.LABEL_MAP_FILE)
  reader = files.reader
  if spec is None:
    raise ValueError(
      f"the labels of {reader.path} are unknown: there is no {path}; copy the "
      "file of the run there."
    )
  if (task == "ner") != (spec.problem_type == run_info.WORDS):
    raise ValueError(
      f"{reader.path} is not a model of `task={task}`: its labels file has "
      f"problem_type {spec.problem_type}."
    )
  head = reader.shapes["output_weights"][0]
  if head != spec.num_outputs:
    raise ValueError(
      f"{reader.path} has a head of {head} labels, but its labels file has "
      f"{len(spec.labels)}: {', '.join(spec.labels)}."
    )
  return spec
