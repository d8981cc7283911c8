"""What stands beside a checkpoint: config, vocabulary and labels."""

import dataclasses
import os

import tensorflow as tf

from bert_tf import modeling, tokenization
from bert_tf.convert import pretrained
from bert_tf.files import atomic
from bert_tf.tasks import label_map

_CONFIG = "bert_config.json"
_VOCAB = "vocab.txt"


@dataclasses.dataclass(frozen=True)
class Given:
  """What is said of a model and not found beside it.

  Attributes:
    bert_config_file: None for the bert_config.json beside the checkpoint.
    vocab_file: None for the vocab.txt beside the checkpoint.
    do_lower_case: whether the vocabulary is lower-cased; None for what its
      files say.
  """

  bert_config_file: str | None = None
  vocab_file: str | None = None
  do_lower_case: bool | None = None


@dataclasses.dataclass(frozen=True)
class Beside:
  """What was found; see `pretrained.Pretrained`."""

  config: modeling.BertConfig
  vocab: str | None
  task: label_map.LabelSpec | None


def read(checkpoint: str, given: Given) -> Beside:
  """Reads what stands beside a checkpoint.

  Raises:
    ValueError: without a config, or if the vocabulary is of another model.
  """
  folder = os.path.dirname(checkpoint) or "."
  config_file = given.bert_config_file or os.path.join(folder, _CONFIG)
  if not tf.io.gfile.exists(config_file):
    raise ValueError(
      f"there is no {config_file}; give the model's --bert_config_file."
    )
  config = modeling.BertConfig.from_json_file(config_file)
  vocab_file = given.vocab_file or os.path.join(folder, _VOCAB)
  vocab = None
  if given.vocab_file or tf.io.gfile.exists(vocab_file):
    vocab = read_vocab(vocab_file, config, config_file)
  return Beside(config, vocab, label_map.read(folder))


def read_vocab(path: str, config: modeling.BertConfig, config_file: str) -> str:
  """Returns the text of a vocabulary; raises ValueError if it does not fit."""
  config.check_vocab(
    len(tokenization.load_vocab(path)), vocab_file=path, config_file=config_file
  )
  return _read_text(path)


def check(checkpoint: str, model: pretrained.Pretrained) -> None:
  """Raises ValueError if another model's files would be written over."""
  check_files(os.path.dirname(checkpoint) or ".", _texts(model))


def check_files(folder: str, texts: dict[str, str]) -> None:
  """Raises ValueError if files of other text stand under these names."""
  for name, text in texts.items():
    path = os.path.join(folder, name)
    if tf.io.gfile.exists(path) and _read_text(path) != text:
      raise ValueError(
        f"{path} is another model's; choose another folder for "
        "--output_checkpoint."
      )


def write(checkpoint: str, model: pretrained.Pretrained) -> None:
  """Writes what belongs beside a checkpoint; its folder is made."""
  folder = os.path.dirname(checkpoint) or "."
  tf.io.gfile.makedirs(folder)
  for name, text in _texts(model).items():
    atomic.write(os.path.join(folder, name), [text])


def _texts(model: pretrained.Pretrained) -> dict[str, str]:
  """Returns the files that belong beside a checkpoint."""
  texts = {_CONFIG: model.config.to_json_string()}
  if model.vocab is not None:
    texts[_VOCAB] = model.vocab
  if model.task is not None and "output_weights" in model.heads:
    texts[label_map.FILE] = label_map.to_text(model.task)
  return texts


def _read_text(path: str) -> str:
  with tf.io.gfile.GFile(path) as reader:
    return reader.read()
