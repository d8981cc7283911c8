"""Setups of tasks that read no files."""

import types

from bert_tf import modeling
from bert_tf.tasks import base
from bert_tf.training import config as training_config


def make(config_class, tokenizer, max_seq_length, **settings):
  """Returns a Setup whose run has no labels yet."""
  config = config_class(
    bert_config_file="",
    vocab_file="",
    max_seq_length=max_seq_length,
    train=training_config.FineTuningTrainConfig(
      output_dir="", encoder_only=True
    ),
    **settings,
  )
  bert_config = modeling.BertConfig(len(tokenizer.vocab))
  folder = types.SimpleNamespace(labels=None)
  return base.Setup(config, bert_config, tokenizer, folder, None)
