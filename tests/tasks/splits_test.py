"""Each split of a run has one log line that counts its examples."""

import json

import pytest

from bert_tf import tokenization
from bert_tf.data import input_pipeline, record_cache, records
from bert_tf.formats import tables
from bert_tf.model_folder import run_info
from bert_tf.tasks import splits
from bert_tf.tasks.classification import records as text_records
from bert_tf.tasks.classification import task as classification
from bert_tf.tasks.classification.examples import InputExample
from bert_tf.tasks.ner import records as word_records
from bert_tf.tasks.ner.examples import Sentence
from bert_tf.tasks.squad import config as squad_config
from bert_tf.tasks.squad import examples as squad_examples
from bert_tf.tasks.squad import windows
from bert_tf.tasks.swag import records as choice_records
from bert_tf.tasks.swag.examples import ChoiceExample
from tests.support import own_classification, runs, tiny_models

base = own_classification.base
SPEC = run_info.LabelSpec("own data", "classification", ("x", "y"))


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(str(tiny_models.TINY / "vocab.txt"))


class Texts:
  """A task of pairs of a text and a label."""

  def inputs_and_answer(self, example):
    text, label = example
    return ({"text": text} if text else {}), label

  def describe_labels(self, examples):
    return splits.describe_labels(SPEC, (label for _, label in examples))

  def describe_cut(self):
    return "cut"


def summary_line(examples, **records):
  files = input_pipeline.RecordFiles(("a",), 1, **records)
  return splits.summary_line(Texts(), "train", "a.csv", examples, files)


def test_a_line_has_examples_labels_cuts_and_repetitions():
  examples = tables.Examples([("a", "x"), ("b", "x"), ("a", "y"), ("c", "x")])
  examples.num_dropped = 7
  line = summary_line(examples, num_cut=1)
  assert line.startswith("a.csv: 4 train examples; ")
  for part in ("x 3, y 1", "1 (25%) cut", "1 repeated", "7 left out"):
    assert part in line
  assert "earlier" not in line and "none with" not in line


def test_a_line_names_missing_labels():
  assert "x 1, y 0 (none with y)" in summary_line([("a", "x")], num_cut=0)


def test_a_line_for_reused_records_has_the_known_counts():
  line = summary_line([("a", "x"), ("", "y"), ("", "y")], is_reused=True)
  assert "not known" in line and "earlier" in line
  # Examples without inputs cannot be compared.
  assert "0 repeated" in line
  assert "repeated" not in summary_line([("", "y")])


def test_truncated_texts_and_pairs_are_counted(tokenizer, tmp_path):
  data = [
    InputExample("0", "the of in", None, "x"),
    InputExample("1", "the of in and", None, "x"),
    InputExample("2", "the of", None, "x"),
    InputExample("3", "the", "of", "y"),
    InputExample("4", "the", "of in", "y"),
  ]
  arguments = str(tmp_path / "x.tf_record"), data, SPEC, tokenizer, 5
  written = text_records.write_records(*arguments)
  assert (written.num_cut, written.is_reused) == (2, False)
  written = text_records.write_records(*arguments)
  assert (written.num_cut, written.is_reused) == (2, True)
  # Records of an earlier version.
  note = record_cache.settings_file(arguments[0])
  with open(note) as reader:
    settings = json.load(reader)
  del settings["num_cut"]
  with open(note, "w") as writer:
    json.dump(settings, writer)
  written = text_records.write_records(*arguments)
  assert (written.num_cut, written.is_reused) == (None, True)


def test_texts_that_need_several_windows_are_counted(tokenizer, tmp_path):
  data = [InputExample("0", "the of in and", None, "x")]
  written = text_records.write_records(
    str(tmp_path / "x"), data, SPEC, tokenizer, 5, "windows"
  )
  assert (written.num_records, written.num_cut) == (2, 1)


def test_truncated_choices_are_counted(tokenizer, tmp_path):
  data = [
    ChoiceExample("0", "the", "", ("of", "in"), 0),
    ChoiceExample("1", "the", "", ("of", "in and"), 0),
  ]
  path = str(tmp_path / "x")
  assert choice_records.write_records(path, data, tokenizer, 5).num_cut == 1


def test_truncated_questions_are_counted(tokenizer, tmp_path):
  context = squad_examples.Context.from_text("the of in and")
  data = [
    squad_examples.SquadExample(str(i), text, context, None, None)
    for i, text in enumerate(("the of", "the of in"))
  ]
  config = squad_config.WindowConfig(
    max_seq_length=7, doc_stride=1, max_query_length=2
  )
  with records.open_records([str(tmp_path / "x")]) as writer:
    windower = windows.ContextWindower(tokenizer, config)
    assert windows.write_windows(writer, data, windower, 7, False) == 1


def test_sentences_with_several_windows_are_counted(tokenizer):
  sentences = [Sentence(tuple(["the"] * n), None, 1) for n in (3, 4, 9, 1)]
  windower = word_records.SentenceWindower(tokenizer, 5, document_context=False)
  written = windower.windows("x", sentences)
  assert len(written) > len(sentences)
  assert word_records.num_split(sentences, written) == 2


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
    labels = "no labels" if split == "test" else f"{tmp_path}/train.tsv: bad "
    assert labels in line
    num_dropped = 1 if split == "train" else 0
    assert f"; {num_dropped} left out" in line
