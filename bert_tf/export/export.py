"""Exports checkpoints as SavedModels, which TensorFlow Serving can serve.

All take word-piece ids. Those of classifiers and encoders also take texts, with
the operations of tensorflow-text, which TensorFlow Serving includes.
"""

import dataclasses
from typing import Any

import tensorflow as tf
from absl import logging

import bert_tf
from bert_tf import (
  checkpoint_names,
  checkpoints,
  heads,
  model_folder,
  settings,
  tokenization,
)
from bert_tf.export import config as configs
from bert_tf.export import encoders, saved_models, text
from bert_tf.files import atomic, paths
from bert_tf.kernels import backend
from bert_tf.model_folder import run_info
from bert_tf.tasks import registry
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import glue

PREPROCESSING = registry.PREPROCESSING.name

_DEFAULT_MAX_SEQ_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class Built:
  """A model and the functions of its SavedModel."""

  files: model_folder.ModelFolder
  tokenizer: tokenization.FullTokenizer | None  # None without a vocabulary.
  info: run_info.RunInfo  # Content of run.json.
  # Owns the variables and tables; must stay alive while functions are called.
  module: tf.Module
  signatures: saved_models.Signatures


def run(config: configs.ExportConfig, replaces: bool = False) -> str:
  """Writes a SavedModel with run.json, bert_config.json and vocab.txt.

  A model with labels also gets label_map.json, and one exported without texts
  vocab.txt only if it has a vocabulary.

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
  if config.with_attention and not _model(info.task):
    raise ValueError(f"`attention` needs a task with a head, not {info.task}.")
  reader = built.files.reader
  if checkpoints.GLOBAL_STEP in reader.shapes:
    step = int(reader.get(checkpoints.GLOBAL_STEP))
    training = dataclasses.replace(info.training, global_step=step)
    info = dataclasses.replace(info, training=training)
  long_text = getattr(info.settings, "long_text", None)
  if config.with_text and long_text not in (None, "truncate"):
    logging.warning(
      "The run reads long texts with long_text=%s, but the SavedModel's own "
      "functions cut them to %s word pieces, so their scores will differ. "
      "bert_tf.load and `bert-tf serve` read long texts as the run did.",
      long_text,
      info.settings.max_seq_length,
    )
  with atomic.folder(
    config.export_dir, last="saved_model.pb", replaces=replaces
  ) as folder:
    tf.saved_model.save(built.module, folder, signatures=built.signatures)
    run_info.write_run(
      folder, info, built.files.bert_config, built.files.vocab_file
    )
  logging.info("Wrote %s.", config.export_dir)
  return info.task


def build(
  config: configs.ModelConfig,
  with_text: bool = True,
  with_attention: bool = False,
) -> Built:
  """Builds in memory the model that `run` writes.

  `with_text` adds the functions that take texts, for tasks that have them, and
  `with_attention` the one that returns the attention. Raises the errors of
  `run`.
  """
  if config.task != PREPROCESSING:
    backend.check_tensorflow()
  files = config.read()
  if with_text or config.task == PREPROCESSING:
    files.needed_vocab()
  task = config.task or _infer_task(files)
  if task == PREPROCESSING and not with_text:
    raise ValueError("`task=preprocessing` takes texts, so it needs `text`.")
  if task != PREPROCESSING:
    _check_head(files, task)
  if task == "pretraining":
    files.bert_config.check_bidirectional(files.config_file)
  info, tokenizer = describe(files, task, config)
  text_tokenizer = None
  if task == PREPROCESSING or (
    with_text and registry.TASKS[task].text_signatures
  ):
    assert tokenizer is not None
    case = tokenizer.basic_tokenizer
    text_tokenizer = text.BertTokenizer(
      tokenizer.vocab, case.do_lower_case, case.strip_accents
    )
  module, functions = _module(files, info, text_tokenizer, with_attention)
  return Built(files, tokenizer, info, module, functions)


def describe(
  files: model_folder.ModelFolder,
  task: str,
  config: configs.ModelConfig,
) -> tuple[run_info.RunInfo, tokenization.FullTokenizer | None]:
  """Returns what run.json should say about a model, and the tokenizer.

  A setting is the user's, else that of the model's folder, else the default.
  There is no tokenizer without a vocabulary. Raises ValueError for a setting
  that does not fit the task, the model or the labels.
  """
  tokenizer = None
  if files.vocab_file:
    tokenizer = model_folder.load_tokenizer(
      files, config.do_lower_case, config.strip_accents
    )
  for name in ("pooling", "normalize"):
    value = getattr(config, name)
    if value is not None and task != "encoder":
      raise ValueError(f"{name} {value!r} is for `task=encoder`, not {task}.")
  run = files.run if files.run and files.run.task == task else None
  saved = vars(run.settings) if run else {}
  has_stride = config.doc_stride or saved.get("doc_stride")
  config = settings.resolve(config, saved, files.folder)
  if task == "encoder":
    config = encoders.resolve_settings(files, config)
  known = registry.load(registry.TASKS[task].config)
  default = longest = files.bert_config.max_position_embeddings
  if known:
    default = settings.of_field(known, "max_seq_length").fallback
  elif task != "pretraining":
    default = _DEFAULT_MAX_SEQ_LENGTH
  length = config.max_seq_length or min(default, longest)
  files.bert_config.check_lengths(length, files.config_file)
  changes: dict[str, Any] = {}
  if task == "encoder":
    changes |= {"pooling": config.pooling, "normalize": config.normalize}
  if task == "pretraining":
    changes["top_k"] = config.top_k
  if known:
    kinds = registry.settings_class(task), configs.ModelConfig
    names = set.intersection(*({*k.__dataclass_fields__} for k in kinds))
    changes |= {name: getattr(config, name) for name in names}
  if "doc_stride" in changes and not has_stride:
    room = length - changes["max_query_length"] - 3
    changes["doc_stride"] = max(1, min(changes["doc_stride"], room))
  changes["max_seq_length"] = length
  for name in ("do_lower_case", "strip_accents"):
    changes[name] = tokenizer and getattr(tokenizer.basic_tokenizer, name)
  spec = None
  if registry.TASKS[task].label_defaults:
    spec = _labels(files, task)
    if run and getattr(run.settings, "is_pair", False) is None:
      is_glue = spec.task_name in classification_config.TASK_NAMES
      changes["is_pair"] = is_glue and glue.get_task(spec.task_name).is_pair
  run = run or run_info.RunInfo(task=task)
  info = dataclasses.replace(
    run,
    settings=dataclasses.replace(run.settings, **changes),
    labels=spec,
    bert_tf_version=bert_tf.__version__,
  )
  return info, tokenizer


def _module(
  files: model_folder.ModelFolder,
  info: run_info.RunInfo,
  tokenizer: text.BertTokenizer | None,
  with_attention: bool,
) -> tuple[tf.Module, saved_models.Signatures]:
  if info.task == PREPROCESSING:
    assert tokenizer is not None
    length = info.settings.max_seq_length
    preprocessor = encoders.Preprocessor(tokenizer, length)
    return preprocessor, preprocessor.signatures()
  bert_config = files.bert_config
  num_outputs = info.labels.num_outputs if info.labels else 0
  model = heads.build_model(
    _model(info.task), bert_config.without_random_values(), num_outputs
  )
  model_folder.load(files, model, required="")
  named = saved_models.NamedModel(model, bert_config.max_position_embeddings)
  module: tf.Module
  if info.task == "encoder":
    module = encoders.Encoder(
      named, files.vocab_file, info.settings.do_lower_case is not False
    )
    functions = module.signatures()
  else:
    module = tf.Module(name="served")
    module.model = named
    functions = saved_models.head_functions(named, info)
    if with_attention:
      functions |= saved_models.attention_function(model.bert, named)
  if tokenizer:
    make = registry.load(registry.TASKS[info.task].text_signatures)
    functions |= make(named, tokenizer, info)
  module.tokenizer = tokenizer  # Its vocabulary is saved with the module.
  return module, functions


def _infer_task(files: model_folder.ModelFolder) -> str:
  """Returns the task in run.json, else of the head; "encoder" without one."""
  names, run = files.reader.shapes, files.run
  if run and not _model(run.task):
    return run.task
  try:
    model = heads.find_model(names, run.task if run else None)
  except ValueError as error:
    raise ValueError(
      f"{files.reader.path}: {error} Set `task` to one."
    ) from error
  return model.task if model else "encoder"


def _model(task: str) -> type[heads.HeadModel] | None:
  return registry.load(registry.TASKS[task].model)


def _check_head(files: model_folder.ModelFolder, task: str) -> None:
  reader = files.reader
  names = checkpoint_names.parameters(reader.shapes)
  checkpoint_names.check_is_bert(reader.path, names)
  model = _model(task)
  missing = model.missing_variables(names) if model else []
  if missing:
    models = heads.list_models(files.run.task if files.run else None)
    tasks = [m.task for m in models if not m.missing_variables(names)]
    raise ValueError(
      f"{reader.path} has no head for {task}: it lacks {missing[0]}. It has "
      f"heads for {' and '.join(tasks) or 'no task'}."
    )


def _labels(files: model_folder.ModelFolder, task: str) -> run_info.LabelSpec:
  run, reader = files.run, files.reader
  spec = run.labels if run else None
  if run is None or spec is None:
    raise ValueError(
      f"the labels of {reader.path} are unknown: {files.folder} has no "
      f"{run_info.LABEL_MAP_FILE}; copy the file of the run there."
    )
  if run.task != task:
    raise ValueError(
      f"{reader.path} is not a model of `task={task}`, but of {run.task}."
    )
  head = reader.shapes["output_weights"][0]
  if head != spec.num_outputs:
    raise ValueError(
      f"{reader.path} has a head of {head} labels, but its labels file has "
      f"{len(spec.labels)}: {', '.join(spec.labels)}."
    )
  return spec
