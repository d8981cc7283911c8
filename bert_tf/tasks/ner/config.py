"""The settings of named entity recognition, without TensorFlow."""

import dataclasses
from typing import ClassVar

from bert_tf import settings
from bert_tf.tasks import config

# In IOB2 every entity begins with B-. In IOB1, the scheme of the CoNLL-2003
# files, entities begin with I-, but with B- right after one of their type.
# "auto" reads both; no tag means another thing in the other.
TAG_SCHEMES = ("auto", "iob2")

APPROACHES = ("fine_tuning", "features")

# The rows of Devlin et al. 2019, table 7, as slices of what BERT computes:
# the embeddings, then every layer.
FEATURE_LAYERS = {
  "embeddings": slice(0, 1),
  "second_to_last": slice(-2, -1),
  "last": slice(-1, None),
  "weighted_sum_last_four": slice(-4, None),
  "concat_last_four": slice(-4, None),
  "weighted_sum_all": slice(1, None),
}

# What is trained from random values needs more than what is fine-tuned.
FEATURE_LEARNING_RATE = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerConfig(config.FineTuningConfig):
  """Settings of `run_ner.py`; its inputs are windows of sentences."""

  task: ClassVar[str] = "ner"

  data_dir: str = settings.setting(
    "", "Folder of the files that are not named by a whole path."
  )
  train_file: str = settings.setting(
    "train.txt",
    "File to train on, in the columns of CoNLL: a word a line, its tag (O, "
    "B-TYPE, I-TYPE) in the last column, tabs or, without any, blanks between "
    "columns, a blank line after each sentence, -DOCSTART- lines before each "
    "document if its documents are known. Its types are the labels. "
    "CoNLL-2003's own name is eng.train.",
  )
  dev_file: str = settings.setting(
    "dev.txt", "File to evaluate on; CoNLL-2003's is eng.testa."
  )
  test_file: str = settings.setting(
    "test.txt",
    "File to predict; CoNLL-2003's is eng.testb. It may hold words alone.",
  )
  word_column: int = settings.setting(
    0,
    "The column of the words, from 0; with a minus from the last, which is -1.",
  )
  tag_column: int = settings.setting(
    -1,
    "The column of the tags, likewise; that of the words if there are no tags.",
  )
  tag_scheme: str = settings.setting(
    "auto",
    "auto reads IOB1 and IOB2: an I- that continues no entity begins one. iob2 "
    "refuses such an I-. What is learned, scored and written is IOB2.",
    choices=TAG_SCHEMES,
  )
  document_context: bool | None = settings.setting(
    None,
    "Whether a sentence's window is filled, on both sides, with the sentences "
    "around it in the document, as in the paper. Documents begin at -DOCSTART- "
    "lines; without any the whole file is one.",
    otherwise=False,
  )
  approach: str = settings.setting(
    "fine_tuning",
    "fine_tuning trains BERT and a linear layer. features leaves BERT as it "
    "is, stores what it computes of each word in output_dir, and trains a "
    "two-layer BiLSTM on that, with batches of sentences and learning_rate "
    f"{FEATURE_LEARNING_RATE} unless one is set.",
    choices=APPROACHES,
  )
  feature_layers: str = settings.setting(
    "concat_last_four",
    "For --approach=features: which of BERT's layers are taken, as in the "
    "paper's table 7. The weights of a sum are learned.",
    choices=tuple(FEATURE_LAYERS),
  )
  # Where vectors are kept that several runs share; None for output_dir.
  feature_dir: str | None = None
