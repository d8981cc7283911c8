"""Files of a small NER task, and configs of runs with them."""

import json
import random
import shutil

import pytest

from bert_tf.tasks.ner import config as ner_config_lib
from tests.support import runs, tiny_models

CONFIG = {**runs.CONFIG, "hidden_size": 32, "intermediate_size": 64}
WORDS = "the of and a in to is was for on as by with at from".split()
# Names and their tags. The last name has a word of several word pieces.
NAMES = [
  (["madonna", "school"], ["B-PER", "I-PER"]),
  (["richmond"], ["B-LOC"]),
  (["mississippix", "creek"], ["B-LOC", "I-LOC"]),
]


def made_sentences(num_sentences, seed):
  """Returns (words, IOB2 tags) with up to two consecutive names."""
  rng = random.Random(seed)
  sentences = []
  for _ in range(num_sentences):
    words = rng.choices(WORDS, k=rng.randrange(1, 8))
    tags = ["O"] * len(words)
    start = rng.randrange(len(words) + 1)
    for names, name_tags in rng.choices(NAMES, k=rng.randrange(3)):
      words[start:start], tags[start:start] = names, name_tags
    sentences.append((words, tags))
  return sentences


def iob1(tags):
  """Returns IOB1 tags: B- only directly after an entity of the same type."""
  before = ["O", *tags]
  return [
    "I" + t[1:] if t[0] == "B" and previous[1:] != t[1:] else t
    for t, previous in zip(tags, before)
  ]


def conll(sentences, scheme=list):
  """Returns a CoNLL file, ten sentences per document; `scheme` maps tags."""
  lines = []
  for i, (words, tags) in enumerate(sentences):
    if i % 10 == 0:
      lines.append("-DOCSTART- -X- O\n")
    lines += [f"{w} NN {t}" for w, t in zip(words, scheme(tags))] + [""]
  return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  """Returns a folder with config, vocabulary, and files in both schemes."""
  folder = tmp_path_factory.mktemp("data")
  (folder / "config.json").write_text(json.dumps(CONFIG))
  shutil.copy(tiny_models.TINY / "vocab.txt", folder / "vocab.txt")
  (folder / "train.txt").write_text(conll(made_sentences(120, 1), iob1))
  (folder / "dev.txt").write_text(conll(made_sentences(30, 2)))
  (folder / "test.txt").write_text(conll(made_sentences(30, 3)))
  return folder


def train_config(output_dir, **changes):
  sizes = {"train_batch_size": 16, "log_every_steps": 15}
  return runs.train_config(output_dir, **{**sizes, **changes})


def ner_config(data, output_dir, train=(), **changes):
  return ner_config_lib.NerConfig(
    **{
      "bert_config_file": str(data / "config.json"),
      "vocab_file": str(data / "vocab.txt"),
      "data_dir": str(data),
      "max_seq_length": 24,
      "train": train_config(output_dir, **dict(train)),
      **changes,
    }
  )


def columns(path):
  """Returns the cells of lines with words, without -DOCSTART-."""
  lines = path.read_text().splitlines()
  return [x.split() for x in lines if x and not x.startswith("-DOCSTART-")]
