"""A classification task with custom data files."""

import dataclasses
import json
import shutil

import pytest

from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import sources
from tests.support import runs, tiny_models

CONFIG = runs.CONFIG
WORDS = {"of": "good", "and": "bad", "the": "good", "in": "bad"}


def rows(num_rows):
  """Yields texts with their label, which follows from one word."""
  words = list(WORDS)
  for i in range(num_rows):
    word = words[i % len(words)]
    yield f"{word} {'a ' * (i % 3)}{word}", WORDS[word]


def write_tsv(path, lines, header="text\tlabel"):
  path.write_text("\n".join([header, *("\t".join(line) for line in lines)]))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
  """Returns a folder with data files, config and vocabulary."""
  folder = tmp_path_factory.mktemp("base")
  write_tsv(folder / "train.tsv", rows(44))
  write_tsv(folder / "dev.tsv", rows(11))
  write_tsv(folder / "test.tsv", [(text,) for text, _ in rows(5)], "text")
  (folder / "config.json").write_text(json.dumps(CONFIG))
  shutil.copy(tiny_models.TINY / "vocab.txt", folder / "vocab.txt")
  return folder


def make(folder, output_dir, train=(), **changes):
  """Returns the config of a run on these files, with changes."""
  config = classification_config.ClassificationConfig(
    task_name="tsv",
    data_dir=str(folder),
    bert_config_file=f"{folder}/config.json",
    vocab_file=f"{folder}/vocab.txt",
    max_seq_length=16,
    num_train_epochs=1.0,
    train=runs.train_config(output_dir, **dict(train)),
  )
  return dataclasses.replace(config, **changes)


def make_source(folder, file_format="tsv", **changes):
  """Returns the source of a user's own tables in a folder."""
  config = make(folder, "", task_name=file_format, **changes)
  return sources.own_source(config)
