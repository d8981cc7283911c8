"""A checkpoint and the files beside it, which say how texts become its input.

Whatever uses a trained model opens it here: exports, the Predictor and what
stands on it, the server.
"""

import dataclasses
import os
from collections.abc import Sequence

from absl import logging

from bert_tf import (
  checkpoints,
  letter_case,
  modeling,
  settings,
  tokenization,
)
from bert_tf.export import config as configs
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.files import paths
from bert_tf.training import evaluation, run_dir

# Settings that choose among a model's answers: the run's are only defaults.
_CHOOSE_ANSWERS = (
  "n_best_size",
  "max_answer_length",
  "null_score_diff_threshold",
)
SQUAD_SETTINGS = (
  "doc_stride",
  "max_query_length",
  "version_2_with_negative",
  *_CHOOSE_ANSWERS,
)


@dataclasses.dataclass(frozen=True)
class Source:
  """A checkpoint and the files beside it.

  Attributes:
    reader: of the checkpoint.
    folders: where files of its run are looked for, the checkpoint's first.
    run: contents of run.json; None without one.
    bert_config: the model's sizes.
    bert_config_file: where they were read.
    vocab_file: the vocabulary; None if none is needed.
  """

  reader: checkpoints.CheckpointReader
  folders: Sequence[str]
  run: run_dir.RunInfo | None
  bert_config: modeling.BertConfig
  bert_config_file: str
  vocab_file: str | None

  @property
  def run_file(self) -> str:
    """Path of run.json, for messages."""
    return os.path.join(self.folders[0], run_dir.RUN_FILE)


def open_source(
  init_checkpoint: str,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
  needs_vocab: bool = True,
) -> Source:
  """Finds the files of a checkpoint.

  Args:
    init_checkpoint: prefix of a checkpoint; or a folder of a run, a SavedModel
      or a conversion.
    bert_config_file: None for bert_config.json beside the checkpoint.
    vocab_file: None for vocab.txt beside the checkpoint.
    needs_vocab: whether to look for a vocabulary.

  Raises:
    ValueError: if a file is missing, does not fit the others, or contradicts
      those of the run.
  """
  reader = checkpoints.CheckpointReader(init_checkpoint)
  folders = _folders(reader.path)
  run = run_dir.run_of(reader.path)
  config_file = _find(
    bert_config_file, run_dir.CONFIG_FILE, folders, "bert_config_file"
  )
  bert_config = modeling.BertConfig.from_json_file(config_file)
  if needs_vocab:
    vocab_file = _find(vocab_file, run_dir.VOCAB_FILE, folders, "vocab_file")
    own_file = os.path.join(folders[0], run_dir.VOCAB_FILE)
    if run is not None and _differ(vocab_file, own_file):
      raise ValueError(
        f"vocab_file {vocab_file} contradicts {own_file}, the vocabulary that "
        "the model was trained with; leave --vocab_file out."
      )
  else:
    vocab_file = None
  return Source(reader, folders, run, bert_config, config_file, vocab_file)


def tokenizer_of(
  source: Source, do_lower_case: bool | None, strip_accents: bool | None
) -> bert_tokenizer.BertTokenizer:
  """Returns the tokenizer of a source that has a vocabulary.

  Args:
    source: of the vocabulary.
    do_lower_case: None for what run.json says, else what the vocabulary shows.
    strip_accents: None for what run.json says, else as do_lower_case.

  Raises:
    ValueError: for a setting that contradicts run.json or the vocabulary, or
      a vocabulary of another size than the model's.
  """
  assert source.vocab_file is not None
  vocab = tokenization.load_vocab(source.vocab_file)
  source.bert_config.check_vocab(
    len(vocab), source.vocab_file, source.bert_config_file
  )
  saved = source.run.saved() if source.run else {}
  do_lower_case = letter_case.settle(
    do_lower_case,
    saved.get("do_lower_case"),
    source.run_file,
    vocab,
    source.vocab_file,
  )
  tokenization.validate_case_matches_checkpoint(
    do_lower_case, source.reader.path
  )
  return bert_tokenizer.BertTokenizer(
    vocab,
    do_lower_case,
    saved.get("strip_accents") if strip_accents is None else strip_accents,
  )


def settled(
  source: Source, config: configs.ModelConfig, task: str
) -> configs.ModelConfig:
  """Returns a config whose settings left at None are those of the run.

  Args:
    source: a checkpoint of a run, or of none.
    config: settings of the user.
    task: of the model that is built. Settings of other tasks do not count.

  Raises:
    ValueError: for a setting that contradicts run.json.
  """
  is_same = source.run is not None and source.run.task == task
  saved = source.run.saved() if source.run and is_same else {}
  for name in _CHOOSE_ANSWERS:
    if getattr(config, name) is not None:
      saved.pop(name, None)
  return settings.settle(config, saved, source.run_file)


def _folders(path: str) -> list[str]:
  """Returns the folders to look for the files of a checkpoint in."""
  folder = run_dir.folder_of(path)
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
    if paths.exists(path):
      logging.info("Found %s.", path)
      return path
  raise ValueError(f"{folders[0]} has no {name}; set --{flag}.")


def _differ(path: str, own_path: str) -> bool:
  """Returns whether both files exist and have other contents."""
  return (
    path != own_path
    and paths.exists(own_path)
    and paths.read_bytes(path) != paths.read_bytes(own_path)
  )
