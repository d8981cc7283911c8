"""Settings of named entity recognition, without TensorFlow."""

import dataclasses
import functools
from typing import ClassVar

from bert_tf import settings
from bert_tf.tasks import config

_setting = functools.partial(settings.setting, topic=settings.DATA)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerConfig(config.LabelledConfig):
  """Settings of `run_ner.py`. Its inputs are windows of sentences."""

  task: ClassVar[str] = "ner"

  data_dir: str = _setting(
    "",
    "Folder of files that are given without an absolute path.",
    main=True,
  )
  train_file: str = _setting(
    "train.txt",
    "File to train on, in CoNLL's format: a word a line with its tag in the "
    "last column, and a blank line after each sentence. CoNLL-2003's name is "
    "eng.train.",
  )
  dev_file: str = _setting(
    "dev.txt",
    "File to evaluate on; CoNLL-2003's is eng.testa.",
  )
  test_file: str = _setting(
    "test.txt",
    "File to predict; CoNLL-2003's is eng.testb. It may lack tags.",
  )
  word_column: int = _setting(
    0,
    "The column of the words, counted from 0, or from the last, -1.",
  )
  tag_column: int = _setting(
    -1,
    "The column of the tags; equal to word_column if there are none. Tags may "
    "be IOB1 or IOB2; the labels of the model are IOB2.",
  )
  document_context: bool | None = _setting(
    None,
    "Whether to fill a sentence's window with its neighbours in the document. "
    "Documents begin at -DOCSTART- lines; a file without them is one document.",
    fallback=False,
  )
