"""Settings of named entity recognition, without TensorFlow."""

import dataclasses
from typing import ClassVar

from bert_tf import settings
from bert_tf.tasks import config


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerSettings(config.TaskSettings):
  """Settings of the windows that label words."""

  document_context: bool | None = settings.data(
    None,
    "Whether to fill a sentence's window with its neighbours in the document. "
    "Documents begin at -DOCSTART- lines; a file without them is one document.",
    fallback=False,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerConfig(NerSettings, config.LabelledConfig):
  """Settings of `bert-tf ner`. Its inputs are windows of sentences."""

  task: ClassVar[str] = "ner"

  data_dir: str = settings.data(
    "",
    "The folder of the files below, unless their paths are absolute.",
    reads="folder",
    main=True,
  )
  train_file: str = settings.data(
    "train.txt",
    "The file to train on, in CoNLL's format: a word on each line, with its "
    "tag in the last column, and a blank line after each sentence. In "
    "CoNLL-2003 it is eng.train.",
  )
  dev_file: str = settings.data(
    "dev.txt", "The file to evaluate on; in CoNLL-2003 it is eng.testa."
  )
  test_file: str = settings.data(
    "test.txt",
    "The file to predict, with or without tags; in CoNLL-2003 it is eng.testb.",
  )
  word_column: int = settings.data(
    0, "The column of the words, counted from 0, or from -1 at the end."
  )
  tag_column: int = settings.data(
    -1,
    "The column of the tags, or the same as word_column if there are none. "
    "Tags may be IOB1 or IOB2, and the model's labels are IOB2.",
  )
