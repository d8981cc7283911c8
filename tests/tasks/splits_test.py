"""Each split of a run has one log line that counts its examples."""

import pytest

from bert_tf import tokenization
from bert_tf.checkpoint import run_info
from bert_tf.tasks import fine_tuning, splits
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.ner import config as ner_config
from bert_tf.tasks.squad import config as squad_config
from bert_tf.tasks.swag import config as swag_config
from bert_tf.text import unknown_pieces
from tests.support import own_classification, runs, setups, tiny_models

base = own_classification.base
SPEC = run_info.LabelSpec("own data", "classification", ("x", "y"))


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(str(tiny_models.TINY / "vocab.txt"))


def summarize(tokenizer, rows, num_cut):
  """Returns the log line of rows."""
  counts = unknown_pieces.PieceCounts(tokenizer, "a.csv")
  ids = tokenizer.convert_tokens_to_ids(["[CLS]", "the", "[UNK]", "of", "in"])
  counts.add_ids([*ids, 0])
  task = setups.Texts(tokenizer=tokenizer, settings=None, labels=SPEC)
  split = splits.Split("train", rows, "a.csv")
  return splits.summarize(task, split, 1, num_cut, counts)


def texts(*pairs):
  return [{"text": a, "label": b} for a, b in pairs]


def test_a_line_has_examples_labels_cuts_and_repetitions(tokenizer):
  rows = texts(("a", "x"), ("b", "x"), ("a", "y"), ("c", "x"))
  line = summarize(tokenizer, rows, num_cut=1)
  assert line.startswith("a.csv: 4 train examples; ")
  for part in ("x 3, y 1", "1 (25%) too long", "25.0% [UNK]", "1 repeated"):
    assert part in line


TEXTS = [
  {"text": "the of in", "label": "x"},
  {"text": "the of in and", "label": "x"},
  {"text": "the", "text_b": "of", "label": "y"},
  {"text": "the", "text_b": "of in", "label": "y"},
]
CHOICES = [
  {"context": "the", "choices": ["of", choice]} for choice in ("in", "in and")
]
QUESTIONS = [
  {"id": text, "question": text, "context": "the of in and"}
  | {"answers": None, "is_impossible": None}
  for text in ("the", "the of")
]
SENTENCES = [{"words": ["the"] * n} for n in (3, 4, 9, 1)]
CLASSES = {"task_name": "tsv", "data_dir": "", "labels": ("x", "y")}


@pytest.mark.parametrize(
  ("config", "settings", "rows", "num_cut"),
  [
    (classification_config.ClassificationConfig, CLASSES, TEXTS, 2),
    (
      classification_config.ClassificationConfig,
      {**CLASSES, "long_text": "windows"},
      *(TEXTS, 2),
    ),
    (swag_config.SwagConfig, {"data_dir": ""}, CHOICES, 1),
    (
      squad_config.SquadConfig,
      {"doc_stride": 1, "max_query_length": 1},
      *(QUESTIONS, 1),
    ),
    (ner_config.NerConfig, {"labels": ("O",)}, SENTENCES, 2),
  ],
)
def test_examples_that_are_too_long_are_counted(
  tokenizer, tmp_path, config, settings, rows, num_cut
):
  task = setups.make(config, tokenizer, 5, **settings)
  with runs.logged() as log:
    setups.encode(task, rows, tmp_path)
  assert f"; {num_cut} (" in log() and "%) too long" in log()


def test_each_split_of_a_run_has_one_line(base, tmp_path):
  config = own_classification.make(
    base,
    tmp_path / "out",
    **dict.fromkeys(("do_train", "do_eval", "do_predict"), True),
  )
  with runs.logged() as log:
    fine_tuning.run(config)
  lines = log().splitlines()
  for split, count in (("train", 44), ("dev", 11), ("test", 5)):
    (line,) = (x for x in lines if f" {split} examples" in x)
    assert line.startswith(f"{base}/{split}.tsv: {count} {split} examples")
    labels = "no labels" if split == "test" else "labels: bad "
    assert labels in line
