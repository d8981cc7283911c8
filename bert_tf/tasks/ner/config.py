"""Settings of named entity recognition, without TensorFlow."""

import dataclasses
from typing import ClassVar

from bert_tf import settings
from bert_tf.tasks import config

# In IOB2, every entity begins with B-. In IOB1, the scheme of the CoNLL-2003
# files, an entity begins with I-, or with B- directly after an entity of the
# same type. "auto" reads both schemes, since no tag is ambiguous.
TAG_SCHEMES = ("auto", "iob2")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerConfig(config.FineTuningConfig):
  """Settings of `run_ner.py`. Its inputs are windows of sentences."""

  task: ClassVar[str] = "ner"

  data_dir: str = settings.setting(
    "",
    "Folder of files that are given without an absolute path.",
    topic=settings.DATA,
    main=True,
  )
  train_file: str = settings.setting(
    "train.txt",
    "File to train on, in CoNLL's format: a word a line with its tag in the "
    "last column, and a blank line after each sentence. CoNLL-2003's name is "
    "eng.train.",
    topic=settings.DATA,
  )
  dev_file: str = settings.setting(
    "dev.txt",
    "File to evaluate on; CoNLL-2003's is eng.testa.",
    topic=settings.DATA,
  )
  test_file: str = settings.setting(
    "test.txt",
    "File to predict; CoNLL-2003's is eng.testb. It may lack tags.",
    topic=settings.DATA,
  )
  word_column: int = settings.setting(
    0,
    "The column of the words, counted from 0, or from the last, -1.",
    topic=settings.DATA,
  )
  tag_column: int = settings.setting(
    -1,
    "The column of the tags; equal to word_column if there are none.",
    topic=settings.DATA,
  )
  tag_scheme: str = settings.setting(
    "auto",
    "auto reads IOB1 and IOB2: an I- that does not continue an entity begins "
    "one. iob2 rejects such an I-. The labels of the model are IOB2.",
    choices=TAG_SCHEMES,
    topic=settings.DATA,
  )
  document_context: bool | None = settings.setting(
    None,
    "Whether to fill a sentence's window with its neighbours in the document. "
    "Documents begin at -DOCSTART- lines.",
    fallback=False,
    topic=settings.DATA,
  )
