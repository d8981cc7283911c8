"""Reads the model that `bert-tf pretrain --text --model` continues."""

import dataclasses
import os

from absl import logging

from bert_tf import heads, model_folder, model_inputs
from bert_tf.model_folder import letter_case
from bert_tf.pipeline import config as pipeline_config


def resolve(
  config: pipeline_config.PipelineConfig,
) -> pipeline_config.PipelineConfig:
  """Returns the config with `initial_model`, if `model` is set.

  Raises:
    ValueError: if there is no such model, if the model is not bidirectional, or
      if it contradicts a setting.
  """
  if not config.model:
    return config
  files = model_folder.find(config.model)
  _check_output_dir(config, files)
  files.bert_config.check_lengths(config.max_seq_length, files.config_file)
  _check_direction(config.model, files)
  case = letter_case.resolve(
    letter_case.Case(config.do_lower_case),
    letter_case.get_case(files.run),
    files.run_file,
    files.needed_vocab(),
  )
  names = files.reader.shapes.keys() - files.reader.untrained
  if any(name not in names for name in heads.MASKED_LM.shapes):
    logging.warning(
      "%s has no masked-LM head; this head starts from random values.",
      config.model,
    )
  initial_model = pipeline_config.InitialModel(
    weights=files.weights,
    bert_config=files.bert_config.to_dict(),
    vocab_file=files.needed_vocab(),
    vocab_size=len(files.load_vocab()),
    do_lower_case=case.do_lower_case,
    strip_accents=case.strip_accents,
    has_next_sentence_head=all(n in names for n in heads.NEXT_SENTENCE.shapes),
  )
  return dataclasses.replace(config, initial_model=initial_model)


def _check_output_dir(
  config: pipeline_config.PipelineConfig, files: model_folder.ModelFolder
) -> None:
  """Raises ValueError if the run would write into the model's folder."""
  if os.path.realpath(config.output_dir) == os.path.realpath(files.folder):
    raise ValueError(
      f"output_dir {config.output_dir} is the folder of the model to continue; "
      "choose another `output_dir`."
    )


def _check_direction(model: str, files: model_folder.ModelFolder) -> None:
  """Raises ValueError unless all positions attend to each other."""
  direction = files.bert_config.attention_direction
  if direction != model_inputs.BOTH:
    raise ValueError(
      f"model {model} is a {direction} language model (attention_direction of "
      f"{files.config_file}), but text is masked here; continue it on unmasked "
      "records of create-pretraining-data."
    )
