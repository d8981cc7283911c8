"""Each split of a run has one log line that counts its examples."""

import pytest
from bert_tf.tasks.classification.examples import InputExample
from bert_tf.tasks.swag.examples import ChoiceExample

from bert_tf import tokenization
from bert_tf.data import input_pipeline
from bert_tf.data import records as record_files
from bert_tf.formats import tables
from bert_tf.model_folder import run_info
from bert_tf.tasks import base as base_lib
from bert_tf.tasks import fine_tuning, splits
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import task as classification
from bert_tf.tasks.ner import config as ner_config
from bert_tf.tasks.ner import task as ner
from bert_tf.tasks.ner.examples import Sentence
from bert_tf.tasks.squad import config as squad_config
from bert_tf.tasks.squad import examples as squad_examples
from bert_tf.tasks.squad import task as squad
from bert_tf.tasks.swag import config as swag_config
from bert_tf.tasks.swag import task as swag
from tests.support import own_classification, runs, setups, tiny_models

base = own_classification.base
SPEC = run_info.LabelSpec("own data", "classification", ("x", "y"))


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(str(tiny_models.TINY / "vocab.txt"))


class Texts(base_lib.Task):
  """A task of pairs of a text and a label."""

  label_spec = SPEC
  encode = objective = read = spec = write_predictions = None

  def __init__(self, tokenizer):
    self.tokenizer = tokenizer

  def inputs_and_answer(self, example):
    text, label = example
    return ({"text": text} if text else {}), label


@pytest.fixture
def summary_line(tokenizer, tmp_path):
  """Returns a function that makes the log line of examples."""
  path = str(tmp_path / "a")
  ids = tokenizer.convert_tokens_to_ids(["[CLS]", "the", "[UNK]", "of", "in"])
  with record_files.open_records([path]) as writer:
    writer.write(record_files.encode_example({"input_ids": [*ids, 0]}, {}))

  def make(examples, **records):
    files = input_pipeline.RecordFiles((path,), 1, **records)
    task = Texts(tokenizer)
    split = splits.Splits(task, {"train": examples}, {"train": "a.csv"})
    return split.summary("train", files)

  return make


def test_a_line_has_examples_labels_cuts_and_repetitions(summary_line):
  examples = tables.Examples([("a", "x"), ("b", "x"), ("a", "y"), ("c", "x")])
  examples.dropped = range(7)
  line = summary_line(examples, num_cut=1)
  assert line.startswith("a.csv: 4 train examples; ")
  for part in ("x 3, y 1", "1 (25%) too long", "25.0% [UNK]", "1 repeated"):
    assert part in line
  assert "7 left out" in line and "earlier" not in line


def test_a_line_for_reused_records_has_the_known_counts(summary_line):
  line = summary_line([("a", "x"), ("", "y"), ("", "y")], is_reused=True)
  assert "not known" in line and "earlier" in line
  # Examples without inputs cannot be compared.
  assert "repeated" not in line and "left out" not in line


def classifier(setup):
  layout = own_classification.with_own(labels=("x", "y"))
  return classification.ClassificationTask(setup, layout)


def tagger(setup):
  task = ner.NerTask(setup)
  task.label_spec = run_info.LabelSpec("ner", run_info.WORDS, ("O",))
  return task


TEXTS = [
  InputExample("0", "the of in", None, "x"),
  InputExample("1", "the of in and", None, "x"),
  InputExample("3", "the", "of", "y"),
  InputExample("4", "the", "of in", "y"),
]
CHOICES = [
  ChoiceExample("0", "the", "", ("of", "in"), 0),
  ChoiceExample("1", "the", "", ("of", "in and"), 0),
]
QUESTIONS = [
  squad_examples.SquadExample(
    str(i), text, squad_examples.Context("the of in and"), None, None
  )
  for i, text in enumerate(("the", "the of"))
]
SENTENCES = [Sentence(tuple(["the"] * n), None, 1) for n in (3, 4, 9, 1)]
OWN = {"task_name": "tsv", "data_dir": ""}


@pytest.mark.parametrize(
  ("make_task", "config", "settings", "examples", "num_cut"),
  [
    (classifier, classification_config.ClassificationConfig, OWN, TEXTS, 2),
    (
      *(classifier, classification_config.ClassificationConfig),
      *({**OWN, "long_text": "windows"}, TEXTS, 2),
    ),
    (swag.SwagTask, swag_config.SwagConfig, {"data_dir": ""}, CHOICES, 1),
    (
      *(squad.SquadTask, squad_config.SquadConfig),
      *({"doc_stride": 1, "max_query_length": 1}, QUESTIONS, 1),
    ),
    (tagger, ner_config.NerConfig, {}, SENTENCES, 2),
  ],
)
def test_examples_that_are_too_long_are_counted(
  tokenizer, tmp_path, make_task, config, settings, examples, num_cut
):
  task = make_task(setups.make(config, tokenizer, 5, **settings))
  for _ in range(2):  # The second time, the records may be reused.
    records = task.write_records("dev", str(tmp_path / "x"), examples)
    assert records.num_cut == num_cut


def test_each_split_of_a_run_has_one_line(base, tmp_path):
  text = (base / "train.tsv").read_text()
  for name in ("dev.tsv", "test.tsv"):
    (tmp_path / name).write_text((base / name).read_text())
  (tmp_path / "train.tsv").write_text(f"{text}\n\tgood\n")
  config = own_classification.make(
    base,
    tmp_path / "out",
    data_dir=str(tmp_path),
    **dict.fromkeys(("do_train", "do_eval", "do_predict"), True),
    skip_bad_rows=True,
  )
  with runs.logged() as log:
    fine_tuning.run(config)
  lines = log().splitlines()
  for split, count in (("train", 44), ("dev", 11), ("test", 5)):
    (line,) = (x for x in lines if f" {split} examples" in x)
    assert line.startswith(f"{tmp_path}/{split}.tsv: {count} {split} examples")
    labels = "no labels" if split == "test" else "labels: bad "
    assert labels in line
    assert ("; 1 left out" in line) == (split == "train")
