"""Each split of a run has one log line that counts its examples."""

import pytest

from bert_tf import tokenization
from bert_tf.data import input_pipeline
from bert_tf.formats import tables
from bert_tf.model_folder import run_info
from bert_tf.tasks import base as base_lib
from bert_tf.tasks import splits
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import task as classification
from bert_tf.tasks.classification.examples import InputExample
from bert_tf.tasks.ner import config as ner_config
from bert_tf.tasks.ner import task as ner
from bert_tf.tasks.ner.examples import Sentence
from bert_tf.tasks.squad import config as squad_config
from bert_tf.tasks.squad import examples as squad_examples
from bert_tf.tasks.squad import task as squad
from bert_tf.tasks.swag import config as swag_config
from bert_tf.tasks.swag import task as swag
from bert_tf.tasks.swag.examples import ChoiceExample
from tests.support import own_classification, runs, setups, tiny_models

base = own_classification.base
SPEC = run_info.LabelSpec("own data", "classification", ("x", "y"))


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(str(tiny_models.TINY / "vocab.txt"))


class Texts(base_lib.Task):
  """A task of pairs of a text and a label."""

  label_spec = SPEC
  encode = objective = prepare = read = spec = write_predictions = None

  def __init__(self):
    pass

  def inputs_and_answer(self, example):
    text, label = example
    return ({"text": text} if text else {}), label


def summary_line(examples, **records):
  files = input_pipeline.RecordFiles(("a",), 1, **records)
  return splits.summary_line(Texts(), "train", "a.csv", examples, files)


def test_a_line_has_examples_labels_cuts_and_repetitions():
  examples = tables.Examples([("a", "x"), ("b", "x"), ("a", "y"), ("c", "x")])
  examples.num_dropped = 7
  line = summary_line(examples, num_cut=1)
  assert line.startswith("a.csv: 4 train examples; ")
  for part in ("x 3, y 1", "1 (25%) too long", "1 repeated", "7 left out"):
    assert part in line
  assert "earlier" not in line


def test_a_line_for_reused_records_has_the_known_counts():
  line = summary_line([("a", "x"), ("", "y"), ("", "y")], is_reused=True)
  assert "not known" in line and "earlier" in line
  # Examples without inputs cannot be compared.
  assert "0 repeated" in line
  assert "repeated" not in summary_line([("", "y")])


def count_cut(make_task, config_class, tokenizer, folder, examples, **settings):
  """The number of examples that are too long."""
  setup = setups.make(config_class, tokenizer, 5, **settings)
  task = make_task(setup)
  arguments = "dev", str(folder / "x"), task.prepare("dev", examples)
  written = task.write_records(*arguments)
  again = task.write_records(*arguments)
  assert again.num_cut == written.num_cut
  return written.num_cut


@pytest.mark.parametrize("long_text", ["truncate", "windows"])
def test_truncated_texts_and_pairs_are_counted(tokenizer, tmp_path, long_text):
  data = [
    InputExample("0", "the of in", None, "x"),
    InputExample("1", "the of in and", None, "x"),
    InputExample("3", "the", "of", "y"),
    InputExample("4", "the", "of in", "y"),
  ]
  assert 2 == count_cut(
    lambda setup: classification.ClassificationTask(
      setup, own_classification.with_own(labels=("x", "y"))
    ),
    classification_config.ClassificationConfig,
    tokenizer,
    tmp_path,
    data,
    task_name="tsv",
    data_dir="",
    long_text=long_text,
  )


def test_truncated_choices_are_counted(tokenizer, tmp_path):
  data = [
    ChoiceExample("0", "the", "", ("of", "in"), 0),
    ChoiceExample("1", "the", "", ("of", "in and"), 0),
  ]
  config_class = swag_config.SwagConfig
  arguments = config_class, tokenizer, tmp_path, data
  assert count_cut(swag.SwagTask, *arguments, data_dir="") == 1


def test_truncated_questions_are_counted(tokenizer, tmp_path):
  context = squad_examples.Context("the of in and")
  data = [
    squad_examples.SquadExample(str(i), text, context, None, None)
    for i, text in enumerate(("the", "the of"))
  ]
  sizes = {"doc_stride": 1, "max_query_length": 1}
  arguments = squad_config.SquadConfig, tokenizer, tmp_path, data
  assert count_cut(squad.SquadTask, *arguments, **sizes) == 1


def test_sentences_with_several_windows_are_counted(tokenizer, tmp_path):
  sentences = [Sentence(tuple(["the"] * n), None, 1) for n in (3, 4, 9, 1)]

  def make_task(setup):
    task = ner.NerTask(setup)
    task.label_spec = run_info.LabelSpec("ner", run_info.WORDS, ("O",))
    return task

  arguments = ner_config.NerConfig, tokenizer, tmp_path, sentences
  assert count_cut(make_task, *arguments, data_dir="") == 2


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
    classification.run(config)
  lines = log().splitlines()
  for split, count in (("train", 44), ("dev", 11), ("test", 5)):
    (line,) = (x for x in lines if f" {split} examples" in x)
    assert line.startswith(f"{tmp_path}/{split}.tsv: {count} {split} examples")
    labels = "no labels" if split == "test" else "labels: bad "
    assert labels in line
    num_dropped = 1 if split == "train" else 0
    assert f"; {num_dropped} left out" in line
