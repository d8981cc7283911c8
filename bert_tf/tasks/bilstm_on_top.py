"""Whether a BiLSTM stands on a model that is fine-tuned."""

import dataclasses
import os

from bert_tf import model_folder, modeling
from bert_tf.model_folder import run_info
from bert_tf.tasks import config as config_lib


def settle(
  config: config_lib.FineTuningConfig,
) -> modeling.BertConfig:
  """Returns the config of the model, with `bilstm` as it is set.

  Left out, that is as in the folder of the run, else as in the file.

  Raises:
    ValueError: if what is set contradicts one of them.
  """
  path = config.bert_config_file
  found = modeling.BertConfig.from_json_file(path)
  # A file of the original's says nothing.
  known: bool | None = found.bilstm or None
  output_dir = config.train.output_dir
  if model_folder.has_config(output_dir):
    path = os.path.join(output_dir, run_info.CONFIG_FILE)
    known = modeling.BertConfig.from_json_file(path).bilstm
  elif config.train.encoder_only and config.bilstm is not None:
    known = config.bilstm  # That of the file belongs to the head.
  if None not in (config.bilstm, known) and config.bilstm != known:
    raise ValueError(
      f"bilstm {config.bilstm} contradicts {path}, whose model was made "
      f"{'with' if known else 'without'} one; leave `bilstm` out, or choose "
      "another model or `output_dir`."
    )
  value = config.bilstm if known is None else known
  return dataclasses.replace(found, bilstm=bool(value))
