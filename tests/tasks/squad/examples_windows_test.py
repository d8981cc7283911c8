"""SQuAD's questions and windows, against the original's recordings."""

import gzip
import json

import pytest
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.tasks import base
from bert_tf.tasks.squad import decoding, metrics
from bert_tf.tasks.squad.config import SquadConfig, SquadSettings
from bert_tf.tasks.squad.examples import read_squad_examples
from bert_tf.tasks.squad.task import make_windows
from bert_tf.training.config import FineTuningTrainConfig
from tests.support import runs, setups

# Settings of the recordings in golden/squad.
RECORDED_WINDOWS = SquadSettings(
  max_seq_length=128, doc_stride=64, max_query_length=24
)
PIECES = (
  "[PAD] [UNK] [CLS] [SEP] [MASK] a b c d e ( ) - . 1895 1943 ##x who".split()
)


def window_settings(max_seq_length, doc_stride, max_query_length):
  return SquadSettings(
    max_seq_length=max_seq_length,
    doc_stride=doc_stride,
    max_query_length=max_query_length,
  )


def parse(path):
  """Returns the features of each record of a file as lists, by name."""
  return [
    {
      name: list(values.int64_list.value)
      for name, values in tf.train.Example.FromString(
        record
      ).features.feature.items()
    }
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator()
  ]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
  """A tokenizer of single letters and a few more pieces."""
  path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
  path.write_text("\n".join(PIECES) + "\n")
  return tokenization.FullTokenizer(str(path))


@pytest.fixture(scope="module", params=["uncased", "cased"])
def recorded_tokenizer(request, unpacked):
  """(case, tokenizer of the vocabulary of golden/squad)."""
  path = unpacked("vocab") / "bert_base_uncased_vocab.txt"
  is_uncased = request.param == "uncased"
  return request.param, tokenization.FullTokenizer(str(path), is_uncased)


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
@pytest.mark.parametrize("split", ["train", "dev"])
def test_records_are_the_originals(
  shared, recorded_tokenizer, tmp_path, version, split
):
  case, tokenizer = recorded_tokenizer
  folder = shared / "golden" / "squad"
  settings = {"version_2_with_negative": version == "v2.0"}
  settings |= {"doc_stride": 64, "max_query_length": 24}
  for name, flag in (("train", "train_file"), ("dev", "predict_file")):
    settings[flag] = str(folder / f"{name}-{version}.json")
  task = setups.make(SquadConfig, tokenizer, 128, **settings)
  setups.encode(task, task.read(split), tmp_path, split)
  name = "train" if split == "train" else "eval"
  path = str(folder / f"{name}_{version}_{case}.tf_record")
  assert parse(str(tmp_path / f"{name}.tf_record")) == parse(path)


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_windows_map_to_words_as_the_originals(shared, unpacked, version):
  folder = shared / "golden" / "squad"
  vocab = unpacked("vocab") / "bert_base_uncased_vocab.txt"
  tokenizer = tokenization.FullTokenizer(str(vocab))
  examples = read_squad_examples(
    str(folder / f"dev-{version}.json"), is_training=False
  )
  groups = make_windows(examples, tokenizer, RECORDED_WINDOWS)
  ours = [
    {
      "unique_id": window.unique_id,
      "example_index": example_index,
      "doc_span_index": doc_span_index,
      "tokens": tokenizer.convert_ids_to_tokens(window.input_ids),
      "token_to_orig_map": [
        [window.doc_offset + i, int(word)]
        for i, word in enumerate(window.words)
      ],
      "token_is_max_context": window.is_max_context.astype(int).tolist(),
    }
    for example_index, inputs in enumerate(groups)
    for doc_span_index, window in enumerate(inputs.state[1])
  ]
  name = f"eval_features_{version}_uncased.jsonl.gz"
  with gzip.open(folder / name, "rt") as reader:
    recorded = [json.loads(line) for line in reader]
  assert ours == recorded


def squad_file(path, *paragraphs, **fields):
  """Writes {context: questions} pairs as a SQuAD file; returns its path."""
  data = [
    {"title": "t", "paragraphs": [{"context": context, "qas": list(qas)}]}
    for context, qas in paragraphs
  ]
  path.write_text(json.dumps({"version": "1.1", "data": data, **fields}))
  return str(path)


def question(qas_id="q", text="who", answer="a", start=0, **fields):
  answers = [{"text": answer, "answer_start": start}]
  return {"id": qas_id, "question": text, "answers": answers, **fields}


WIDE, NARROW = (20, 5, 5), (9, 2, 1)  # Sizes of windows.
NOWHERE = (0, 0)  # The label of a window without the whole answer.


@pytest.mark.parametrize(
  "context,answer,start,sizes,positions",
  [
    # [CLS] who [SEP], then a ( 1895 - 1943 ) . b
    ("a (1895-1943). b", "1895", 3, WIDE, [(5, 5)]),
    ("a (1895-1943). b", "1895-1943", 3, WIDE, [(5, 7)]),
    ("a (1895-1943). b", "b", 15, WIDE, [(10, 10)]),
    # "a" is part of a word, so the answer is the whole word: a, ##x.
    ("b ax", "x", 3, WIDE, [(4, 5)]),
    # The pieces of "a" come twice in the words; the first is taken.
    ("b a-a", "a", 4, WIDE, [(4, 4)]),
    # Five pieces a window: a b c d e | c d e a b | ...
    ("a b c d e " * 2, "d e a", 6, NARROW, [NOWHERE, (4, 6), *[NOWHERE] * 2]),
  ],
)
def test_an_answer_is_labelled_with_its_own_pieces(
  tokenizer, tmp_path, context, answer, start, sizes, positions
):
  path = squad_file(
    tmp_path / "x.json", (context, [question(answer=answer, start=start)])
  )
  examples = read_squad_examples(path, is_training=True)
  config = window_settings(*sizes)
  [inputs] = make_windows(examples, tokenizer, config)
  labelled = [(w.start_position, w.end_position) for w in inputs.state[1]]
  assert labelled == positions


def test_answers_missing_in_the_context_are_counted_and_left_out(tmp_path):
  questions = [question("good")]
  questions += [question(f"bad{i}", answer="b", start=0) for i in range(6)]
  questions += [question("unknown", answer=" a", start=-1)]
  questions += [question("empty", answer="")]
  questions += [question("outside", answer="cd", start=4)]
  path = squad_file(tmp_path / "x.json", ("a b", questions))
  with runs.logged() as log:
    examples = read_squad_examples(path, is_training=True)
  assert [e["id"] for e in examples] == ["good"]
  assert "x.json: 9 questions are left out" in log()
  assert "'bad0', 'b' is not in 'a' at 0," in log()
  assert "and 4 more" in log() and "'empty'" not in log()
  with runs.logged() as log:
    read_squad_examples(path, True, verbose_logging=True)
  assert "'unknown', 'a' is not in '' at -1, 'empty', '' is not" in log()
  assert "'outside', 'cd' is not in 'b' at 4" in log()


def test_contexts_without_words_are_answered_without_a_record(
  tokenizer, tmp_path
):
  path = squad_file(tmp_path / "x.json", (" ", [question()]))
  rows = read_squad_examples(path, is_training=False)
  sizes = {"doc_stride": 5, "max_query_length": 5}
  task = setups.make(SquadConfig, tokenizer, 20, **sizes)
  data = setups.encode(task, rows, tmp_path)
  assert list(data.evaluation(2)) == []
  [answer] = base.answer_rows(task, rows, [])
  assert answer["answer"] is None
  for is_v2, text in ((False, "empty"), (True, "")):
    assert decoding.file_text(None, is_v2) == text


# Fields of a question (None: left out) or a file, and a part of the error.
FAULTS = [
  ({"id": None}, "data.0.paragraphs.0.qas.0.id is missing"),
  ({"answers": ["a"]}, 'data.0.paragraphs.0.qas.0.answers.0 is "a"'),
  ({"answers": question()["answers"] * 2}, "question 'q' has 2 answers"),
  ({"answers": [], "is_impossible": True}, "`version_2_with_negative`"),
  ('{"data": ', "is not JSON"),
  ("[1]", "it is [1]"),
  ('{"questions": []}', "data is missing"),
  ('{"data": []}', "has no question that can be used"),
]


def test_ids_may_be_numbers_and_repeated_in_training(tmp_path):
  questions = [question(3), question(3)]
  path = squad_file(tmp_path / "x.json", ("a b c", questions))
  examples = read_squad_examples(path, is_training=True)
  assert [e["id"] for e in examples] == ["3", "3"]
  expected = "x.json has two questions with the id '3'"
  with pytest.raises(ValueError, match=expected):
    read_squad_examples(path, is_training=False)


@pytest.mark.parametrize("value", [0, False])
def test_is_impossible_may_be_a_number(tmp_path, value):
  qa = question() | {"is_impossible": value}
  path = squad_file(tmp_path / "x.json", ("a b c", [qa]))
  for is_training in (True, False):
    [example] = read_squad_examples(path, is_training, True)
    assert (example["answers"], example["is_impossible"]) == (["a"], False)


@pytest.mark.parametrize("content,expected", FAULTS)
def test_a_fault_is_named_with_its_file(tmp_path, content, expected):
  path = tmp_path / "x.json"
  if isinstance(content, dict):
    fields = {**question(), **content}
    fields = {name: v for name, v in fields.items() if v is not None}
    squad_file(path, ("a b c", [fields]))
  else:
    path.write_text(content)
  with pytest.raises(ValueError) as error:
    read_squad_examples(str(path), is_training=True)
  assert str(error.value).startswith(str(path))
  assert expected in str(error.value)


def test_v2_training_trains_null_answers(tmp_path):
  impossible = {**question("r"), "answers": [], "is_impossible": True}
  path = squad_file(
    tmp_path / "x.json", ("a", [question("q", is_impossible=False), impossible])
  )
  examples = read_squad_examples(path, True, True)
  assert [(e["is_impossible"], e["start_position"]) for e in examples] == [
    (False, 0),
    (True, -1),
  ]


def resolve_windows(*sizes):
  """Returns the settings of a command whose model has 512 positions."""
  names = ("max_seq_length", "doc_stride", "max_query_length")
  train = FineTuningTrainConfig(output_dir="")
  config = SquadConfig(train=train, **dict(zip(names, sizes)))
  return config.resolved("", 512)


@pytest.mark.parametrize(
  "sizes,expected",
  [
    ((67, 1, 64), "doc_stride 1 must be from 1 to 0, the room"),
    ((384, 0, 64), "doc_stride 0 must be at least 1"),
    (
      (384, 318, 64),
      "doc_stride 318 must be from 1 to 317, the room that max_seq",
    ),
  ],
)
def test_impossible_window_sizes_are_refused(sizes, expected):
  with pytest.raises(ValueError) as error:
    resolve_windows(*sizes)
  assert expected in str(error.value)
  assert resolve_windows(384, 317, 64).doc_stride == 317


def test_reference_answers_are_v2_if_a_question_is_impossible(tmp_path):
  def read_answers(*questions, **settings):
    path = squad_file(tmp_path / "x.json", ("a", questions))
    examples = read_squad_examples(path, is_training=False)
    return metrics.correct_answers(examples, **settings)

  empty = {**question("r"), "answers": []}
  answers = read_answers(question("q"), empty)
  assert (answers.texts, answers.is_v2) == ({"q": ["a"], "r": []}, False)
  for other, is_v2 in ((question("r"), False), (empty, True)):
    answers = read_answers(question("q"), other, version_2_with_negative=True)
    assert answers.is_v2 == is_v2
  null = {"id": "r", "question": "b", "answers": [], "is_impossible": True}
  assert read_answers(question("q"), null).is_v2
  # A question without the field is not scored, with a warning.
  with runs.logged() as log:
    answers = read_answers(question("q"), {"id": "r", "question": "b"})
  assert answers.texts == {"q": ["a"]} and " r." in log()
  # Test sets: without the field, or with an empty one throughout.
  assert read_answers({"id": "q", "question": "a"}) is None
  assert read_answers({"id": "q", "question": "a", "answers": []}) is None
