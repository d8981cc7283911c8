"""Exports checkpoints as SavedModels: word-piece ids in, or raw text in.

They are served without this package; those that take text need the operations
of tensorflow-text, which TensorFlow Serving has.
"""

import dataclasses
import os
from collections.abc import Sequence

import keras
import tensorflow as tf
from absl import logging

from bert_tf import checkpoints, heads, modeling, tokenization
from bert_tf.export import saved_models
from bert_tf.export.signatures import (
  attention,
  choices,
  classification,
  encoders,
  masks,
  spans,
  words,
)
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.tasks import label_map
from bert_tf.tasks.squad import decoding, windows
from bert_tf.training import evaluation

# The variables of a checkpoint that a task needs beside BERT's.
_HEADS = {
  "pretraining": (
    "cls/predictions/output_bias",
    "cls/seq_relationship/output_weights",
  ),
  "classification": ("output_weights", "output_bias"),
  "ner": ("output_weights", "output_bias"),
  "squad": ("cls/squad/output_weights", "cls/squad/output_bias"),
  "swag": ("choice_weights",),
  "encoder": (),
}

# What can be exported; the last is made of the vocabulary alone.
PREPROCESSING = "preprocessing"
TASKS = (*_HEADS, PREPROCESSING)

_MAX_SEQ_LENGTHS = {"squad": windows.WindowConfig.max_seq_length}
_DEFAULT_MAX_SEQ_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class ExportConfig:
  """What `export_savedmodel.py` is asked for.

  Attributes:
    export_dir: folder of the SavedModel; new or empty.
    init_checkpoint: prefix of a checkpoint, or the output_dir of a run, whose
      newest is taken.
    task: one of TASKS; None for that of the checkpoint's head.
    bert_config_file: None for bert_config.json beside the checkpoint.
    vocab_file: None for vocab.txt beside the checkpoint.
    do_lower_case: whether the vocabulary is of lower-cased text.
    max_seq_length: word pieces of a text or pair, as in training; what is
      longer is cut, or has several windows. None for 384 for squad and 128 for
      all else, or what the model has positions for.
    with_text: whether texts are taken, not ids alone.
    doc_stride: of SQuAD's windows.
    max_query_length: of SQuAD's windows.
    predictions: how SQuAD's answers are chosen.
    top_k: tokens a mask of a pre-trained model.
    with_attention: whether a model with a head shows its attention too.
  """

  export_dir: str
  init_checkpoint: str
  task: str | None = None
  bert_config_file: str | None = None
  vocab_file: str | None = None
  do_lower_case: bool = True
  max_seq_length: int | None = None
  with_text: bool = True
  doc_stride: int = windows.WindowConfig.doc_stride
  max_query_length: int = windows.WindowConfig.max_query_length
  predictions: decoding.PredictionConfig = decoding.PredictionConfig()
  top_k: int = 5
  with_attention: bool = False


class Served(tf.Module):
  """What the SavedModel of a task keeps: variables and tables."""

  def __init__(
    self,
    model: saved_models.NamedModel,
    tokenizer: bert_tokenizer.BertTokenizer | None,
  ) -> None:
    super().__init__(name="served")
    self.model = model
    self.tokenizer = tokenizer


def run(config: ExportConfig) -> str:
  """Writes a SavedModel.

  Returns:
    The task that was exported.

  Raises:
    ValueError: if the checkpoint has no such head, if config, vocabulary and
      label map do not fit it or are not found, or if the folder is not empty.
  """
  saved_models.check_is_free(config.export_dir)
  task, module, signatures = build(config)
  saved_models.write(config.export_dir, module, signatures)
  return task


def build(
  config: ExportConfig,
) -> tuple[str, tf.Module, saved_models.Signatures]:
  """Returns what `run` writes, to be used from memory.

  Returns:
    The task; the module, which has to be kept as long as its functions are
    called; and the functions by name.

  Raises:
    ValueError: as `run`, but for the folder, which is not looked at.
  """
  if config.with_attention and not config.with_text:
    raise ValueError(
      "--attention is of texts, which --notext leaves out; set one of the two."
    )
  reader = checkpoints.CheckpointReader(config.init_checkpoint)
  tokenization.validate_case_matches_checkpoint(
    config.do_lower_case, reader.path
  )
  folders = _folders(reader.path)
  task = config.task or _task_of(reader, folders)
  config = dataclasses.replace(config, task=task)
  if task != PREPROCESSING:
    _check_head(reader, task)
  return task, *_build(config, reader, folders)


def _build(
  config: ExportConfig,
  reader: checkpoints.CheckpointReader,
  folders: Sequence[str],
) -> tuple[tf.Module, saved_models.Signatures]:
  """Returns what is saved, and its functions."""
  config_file = _find(
    config.bert_config_file, "bert_config.json", folders, "bert_config_file"
  )
  bert_config = modeling.BertConfig.from_json_file(config_file)
  vocab_file = tokenizer = None
  if config.with_text or config.task == PREPROCESSING:
    vocab_file = _find(config.vocab_file, "vocab.txt", folders, "vocab_file")
    vocab = tokenization.load_vocab(vocab_file)
    bert_config.check_vocab(len(vocab), vocab_file, config_file)
    tokenizer = bert_tokenizer.BertTokenizer(vocab, config.do_lower_case)
  length = _max_seq_length(config, bert_config, config_file)
  if config.task == PREPROCESSING:
    module = encoders.Preprocessor(tokenizer, length)
    return module, module.signatures()
  labels = _labels(config.task, reader, folders)
  model = _model(config.task, bert_config, labels)
  checkpoints.load_variables(reader, model)
  named = saved_models.NamedModel(model, bert_config.max_position_embeddings)
  if config.task == "encoder":
    module = encoders.Encoder(
      named, config_file, vocab_file, config.do_lower_case
    )
    return module, module.signatures()
  signatures = _signatures(config, named, labels, tokenizer, length)
  if config.with_attention:
    signatures |= attention.signatures(
      model.bert, named, tokenizer, length, config.task == "pretraining"
    )
  return Served(named, tokenizer), signatures


def _model(
  task: str,
  bert_config: modeling.BertConfig,
  labels: label_map.LabelSpec | None,
) -> keras.Model:
  """Returns the model of a task."""
  if task == "classification":
    num_outputs = labels.num_outputs
    return heads.ClassifierModel(bert_config, num_outputs)
  if task == "ner":
    return heads.TokenModel(bert_config, len(labels.labels))
  models = {
    "pretraining": heads.PretrainingModel,
    "squad": heads.SpanModel,
    "swag": heads.MultipleChoiceModel,
    "encoder": modeling.BertModel,
  }
  return models[task](bert_config)


def _signatures(
  config: ExportConfig,
  model: saved_models.NamedModel,
  labels: label_map.LabelSpec | None,
  tokenizer: bert_tokenizer.BertTokenizer | None,
  length: int,
) -> saved_models.Signatures:
  """Returns the functions of a task with a head."""
  if config.task == "classification":
    return classification.signatures(model, labels, tokenizer, length)
  if config.task == "ner":
    return words.signatures(model, labels.labels, tokenizer, length)
  if config.task == "swag":
    return choices.signatures(model, tokenizer, length)
  if config.task == "pretraining":
    return masks.signatures(model, tokenizer, config.top_k)
  window_config = windows.WindowConfig(
    length, config.doc_stride, config.max_query_length
  )
  return spans.signatures(model, tokenizer, window_config, config.predictions)


def _max_seq_length(
  config: ExportConfig, bert_config: modeling.BertConfig, config_file: str
) -> int:
  """Returns the length that was asked for, or the task's default."""
  if config.max_seq_length:
    bert_config.check_lengths(config.max_seq_length, config_file)
    return config.max_seq_length
  default = _MAX_SEQ_LENGTHS.get(config.task, _DEFAULT_MAX_SEQ_LENGTH)
  return min(default, bert_config.max_position_embeddings)


def _folders(prefix: str) -> list[str]:
  """Returns where the files of a checkpoint's run are looked for."""
  folder = os.path.dirname(prefix)
  if os.path.basename(folder) == evaluation.BEST_DIR:
    return [folder, os.path.dirname(folder)]
  return [folder]


def _find(
  given: str | None, name: str, folders: Sequence[str], flag: str
) -> str:
  """Returns the file that was given, else the one beside the checkpoint."""
  if given:
    return given
  for folder in folders:
    path = os.path.join(folder, name)
    if tf.io.gfile.exists(path):
      logging.info("Found %s.", path)
      return path
  raise ValueError(f"{folders[0] or '.'} has no {name}; set --{flag}.")


def _task_of(
  reader: checkpoints.CheckpointReader, folders: Sequence[str]
) -> str:
  """Returns the task of the one head that a checkpoint has."""
  found = _heads_in(reader)
  if "ner" in found:  # Or a classifier of texts: both call theirs the same.
    labels = _saved_labels(reader, folders)[1]
    is_words = labels.problem_type == label_map.WORDS
    found.remove("classification" if is_words else "ner")
  if len(found) > 1:
    raise ValueError(
      f"{reader.path} has the heads of {', '.join(found)}; set --task to one."
    )
  return found[0] if found else "encoder"


def _heads_in(reader: checkpoints.CheckpointReader) -> list[str]:
  """Returns the tasks whose heads a checkpoint has."""
  return [
    task
    for task, names in _HEADS.items()
    if names and all(name in reader.shapes for name in names)
  ]


def _check_head(reader: checkpoints.CheckpointReader, task: str) -> None:
  """Raises ValueError if a checkpoint is not of a task."""
  missing = [
    name
    for name in (saved_models.WORD_EMBEDDINGS, *_HEADS[task])
    if name not in reader.shapes
  ]
  if not missing:
    return
  if missing[0] == saved_models.WORD_EMBEDDINGS:
    raise ValueError(
      f"{reader.path} has no BERT in it: {missing[0]} is missing. Models that "
      "were trained on features cannot be exported."
    )
  raise ValueError(
    f"{reader.path} has no {missing[0]}, which --task={task} needs; it has "
    f"{' and '.join(_heads_in(reader)) or 'no head'}, and any can be exported "
    "with --task=encoder."
  )


def _labels(
  task: str, reader: checkpoints.CheckpointReader, folders: Sequence[str]
) -> label_map.LabelSpec | None:
  """Returns the label map of a model that labels, checked against its head."""
  if task not in ("classification", "ner"):
    return None
  folder, labels = _saved_labels(reader, folders)
  if (task == "ner") != (labels.problem_type == label_map.WORDS):
    raise ValueError(
      f"{os.path.join(folder, label_map.FILE)} is not of --task={task}; leave "
      "the flag out."
    )
  head = reader.shapes["output_weights"][0]
  if head != labels.num_outputs:
    raise ValueError(
      f"{reader.path} has a head of {head} labels, but "
      f"{os.path.join(folder, label_map.FILE)} has {len(labels.labels)}."
    )
  return labels


def _saved_labels(
  reader: checkpoints.CheckpointReader, folders: Sequence[str]
) -> tuple[str, label_map.LabelSpec]:
  """Returns the folder of the label map and the task in it."""
  for folder in folders:
    labels = label_map.read(folder)
    if labels is not None:
      return folder, labels
  raise ValueError(
    f"the labels of {reader.path} are not known: there is no "
    f"{os.path.join(folders[0], label_map.FILE)}; copy that of the run there, "
    'or write it: {"task_name": "own data", "problem_type": "classification", '
    '"labels": ["negative", "positive"]}.'
  )
