"""The objective of pre-training: its attention direction and its labels."""

import dataclasses
from collections.abc import Sequence

from bert_tf import model_inputs, modeling, tokenization
from bert_tf.data import dynamic_masking, masking, pretraining_records
from bert_tf.files import json_files
from bert_tf.model_folder import run_folder
from bert_tf.tasks import pretraining_config

# Attention direction by objective. mlm predicts masked pieces, ltr the next
# piece, rtl the previous piece.
MASKED_LM = "mlm"
_DIRECTIONS = {
  MASKED_LM: model_inputs.BOTH,
  "ltr": model_inputs.LEFT_TO_RIGHT,
  "rtl": model_inputs.RIGHT_TO_LEFT,
}

_KEY = "attention_direction"


def get_objective(bert_config: modeling.BertConfig) -> str:
  """Returns the objective for a model's attention direction."""
  objectives = {direction: name for name, direction in _DIRECTIONS.items()}
  return objectives[bert_config.attention_direction]


def settle(
  config: pretraining_config.PretrainingConfig, folder: run_folder.RunFolder
) -> modeling.BertConfig:
  """Loads the config and sets attention_direction for the objective.

  The user gives the objective, or else the run in output_dir, or else the
  config.

  Raises:
    ValueError: if two of these contradict each other, or if the config has a
      BiLSTM.
  """
  bert_config = modeling.BertConfig.from_json_file(config.bert_config_file)
  objective = config.objective
  if folder.info:
    known = folder.info.objective or MASKED_LM
    if objective not in (None, known):
      raise ValueError(
        f"objective {objective!r} contradicts "
        f"{folder.run_file}, which says {known!r}; "
        "leave `objective` out, or choose another `output_dir`."
      )
    objective = known
  if objective is None:
    return bert_config
  # Files without the key have the default, attention in both directions.
  has_key = _KEY in json_files.read_object(config.bert_config_file)
  needed, direction = _DIRECTIONS[objective], bert_config.attention_direction
  if has_key and direction != needed:
    raise ValueError(
      f"objective {objective!r} needs {_KEY} {needed!r}, but "
      f"{config.bert_config_file} has {direction!r}; leave `objective` out, or "
      "remove that key in a copy of the file."
    )
  return dataclasses.replace(bert_config, attention_direction=needed)


def labelled(
  config: pretraining_config.PretrainingConfig,
  records: pretraining_records.PretrainingRecords,
  vocab_size: int,
) -> pretraining_records.PretrainingRecords:
  """Returns records with a masker or a shift, which make their labels.

  Records that are masked already stay as they are. config.objective must be
  resolved.

  Raises:
    ValueError: if the records do not fit the settings or the model.
  """
  records.check(vocab_size)
  first, is_masked = records.files.paths[0], records.record_format.is_masked
  if config.objective != MASKED_LM:
    if is_masked:
      raise ValueError(
        f"{first} holds masked records, but `objective={config.objective}` "
        "predicts every piece; create unmasked records with "
        "create_pretraining_data.py --nomask."
      )
    return dataclasses.replace(records, shift=config.objective)
  if is_masked:
    return records
  if not config.vocab_file:
    raise ValueError(
      f"{first} holds unmasked records; set `vocab_file` to their vocabulary, "
      "so that they can be masked."
    )
  vocab = tokenization.load_vocab(config.vocab_file)
  masking.check_special_tokens(vocab, config.vocab_file)
  records.check_begins(vocab[tokenization.CLS], config.vocab_file)
  masker = dynamic_masking.DynamicMasker(
    _masking_config(config), vocab, config.train.seed
  )
  return dataclasses.replace(records, masker=masker)


def _masking_config(
  config: pretraining_config.PretrainingConfig,
) -> masking.MaskingConfig:
  """Returns the given masking settings, with MaskingConfig's defaults."""
  values = {n: getattr(config, n) for n in pretraining_config.MASKING}
  return masking.MaskingConfig(
    max_predictions_per_seq=config.max_predictions_per_seq,
    **{name: value for name, value in values.items() if value is not None},
  )


def check_masking(
  config: pretraining_config.PretrainingConfig,
  all_records: Sequence[pretraining_records.PretrainingRecords],
) -> None:
  """Raises ValueError for a masking setting if no records need masking."""
  if any(records.masker for records in all_records):
    return
  for name in pretraining_config.MASKING:
    value = getattr(config, name)
    if value is None or value is False:
      continue
    if config.objective != MASKED_LM:
      raise ValueError(
        f"{name} is for masked LM, but the objective is `{config.objective}`; "
        f"leave `{name}` out."
      )
    raise ValueError(
      f"{name} is for unmasked records, but "
      f"{all_records[0].files.paths[0]} holds masked ones; leave `{name}` out, "
      "or create the records with `mask=False`."
    )
