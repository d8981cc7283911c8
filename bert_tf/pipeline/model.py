"""The model that the pipeline trains: a new one, or one to continue."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.model import heads
from bert_tf.pipeline.config import DEFAULT_SIZE, SIZES, PipelineConfig, Size


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
  """The model and its training, with all defaults resolved."""

  name: str  # The name of the size, or layers x width of a model to continue.
  size: Size
  # Content of bert_config.json. A new vocabulary may turn out to be smaller.
  bert_config: Mapping[str, Any]
  is_lower_case: bool
  strip_accents: bool | None = None  # If None, the same as is_lower_case.
  # The checkpoint and the vocabulary of a model to continue.
  weights: str | None = None
  vocab_file: str | None = None


def choose_model(config: PipelineConfig) -> Model:
  """Returns the model to train.

  Raises ValueError if the model to continue is unidirectional or contradicts a
  setting.
  """
  return (
    _read_model(config, config.model) if config.model else _new_model(config)
  )


def _is_lower_case(config: PipelineConfig, do_lower_case: bool | None) -> bool:
  if do_lower_case is None:
    return not config.has_marks_as_letters
  return do_lower_case


def _new_model(config: PipelineConfig) -> Model:
  name = config.size or DEFAULT_SIZE
  size = SIZES[name]
  if config.has_many_characters:
    vocab_size = max(size.vocab_size, 16_000)
    size = dataclasses.replace(size, vocab_size=vocab_size)
  size = config.override(size)
  return Model(
    name=name,
    size=size,
    bert_config=size.bert_config(size.vocab_size, config.max_seq_length),
    is_lower_case=_is_lower_case(config, config.do_lower_case),
  )


def _read_model(config: PipelineConfig, path: str) -> Model:
  files = ModelFolder.open(path, do_lower_case=config.do_lower_case)
  if os.path.realpath(config.output_dir) == os.path.realpath(files.folder):
    raise ValueError(
      f"`output_dir` {config.output_dir} is the folder of the model itself."
    )
  files.config.check_lengths(config.max_seq_length, files.config_file)
  files.config.check_bidirectional(files.config_file)
  assert files.reader
  names = files.shapes.keys() - files.reader.untrained
  if any(name not in names for name in heads.MASKED_LM.shapes):
    logging.warning(
      "%s has no masked-LM head, so this head starts from random values.", path
    )
  size = Size(
    num_hidden_layers=files.config.num_hidden_layers,
    hidden_size=files.config.hidden_size,
    train_batch_size=32,
    # A fifth of the rate that made models of width 768; see Size for others.
    learning_rate=2e-5 * 768 / files.config.hidden_size,
    vocab_size=len(files.vocab),
    dropout=files.config.hidden_dropout_prob,
    no_nsp=any(n not in names for n in heads.NEXT_SENTENCE.shapes),
  )
  return Model(
    name=f"{size.num_hidden_layers} x {size.hidden_size}",
    size=config.override(size),
    bert_config=files.config.to_dict(),
    is_lower_case=_is_lower_case(config, files.case.do_lower_case),
    strip_accents=files.case.strip_accents,
    weights=files.weights,
    vocab_file=files.vocab_file,
  )
