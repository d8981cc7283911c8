"""SQuAD's questions and windows, against the original's recordings."""

import gzip
import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf import tokenization
from bert_tf.tasks import base
from bert_tf.tasks.squad.config import SquadConfig
from bert_tf.tasks.squad.examples import read_squad_examples
from bert_tf.training.config import FineTuningTrainConfig
from tests.support import runs, setups

SIZES = ("max_seq_length", "doc_stride", "max_query_length")
RECORDED = (128, 64, 24)  # The sizes of the recordings in golden/squad.
PIECES = (
  "[PAD] [UNK] [CLS] [SEP] [MASK] a b c d e ( ) - . 1895 1943 ##x who".split()
)


def make_task(tokenizer, sizes, **fields):
  fields = dict(zip(SIZES, sizes)) | fields
  return setups.make(
    SquadConfig, tokenizer, fields.pop("max_seq_length"), **fields
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
def test_records_and_windows_are_the_originals(
  shared, recorded_tokenizer, tmp_path, version, split
):
  case, tokenizer = recorded_tokenizer
  folder = shared / "golden" / "squad"
  task = make_task(
    tokenizer,
    RECORDED,
    train_file=str(folder / f"train-{version}.json"),
    predict_file=str(folder / f"dev-{version}.json"),
    version_2_with_negative=version == "v2.0",
  )
  rows = task.read(split)
  setups.encode(task, rows, tmp_path, split)
  name = "train" if split == "train" else "eval"
  path = str(folder / f"{name}_{version}_{case}.tf_record")
  assert parse(str(tmp_path / f"{name}.tf_record")) == parse(path)
  if (split, case) != ("dev", "uncased"):
    return
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
    for example_index, inputs in enumerate(task.preprocess(rows))
    for doc_span_index, window in enumerate(inputs.state[1])
  ]
  name = f"eval_features_{version}_uncased.jsonl.gz"
  with gzip.open(folder / name, "rt") as reader:
    assert ours == [json.loads(line) for line in reader]


@settings(max_examples=60, deadline=None)
@given(
  context=st.lists(st.text("abcx .\u00e9\n", max_size=6), max_size=12),
  question=st.text("abc ", max_size=12),
  sizes=st.tuples(
    st.integers(8, 14), st.integers(1, 4), st.integers(1, 3)
  ).filter(lambda sizes: sizes[1] <= sizes[0] - sizes[2] - 3),
)
def test_windows_show_each_word_and_map_it_to_the_text(
  tokenizer, context, question, sizes
):
  row = {"context": " ".join(context), "question": question}
  [inputs] = make_task(tokenizer, sizes).preprocess([row])
  read, windows = inputs.state
  for word, start in zip(read.doc_tokens, read.char_starts, strict=True):
    assert row["context"][start:].startswith(word)
  pieces = [*map(tokenizer.tokenize_to_ids, read.doc_tokens)]
  decided = np.zeros(len(pieces), int)
  for sequence, window in zip(inputs.sequences, windows, strict=True):
    assert len(sequence.input_ids) <= sizes[0]
    assert window.doc_offset <= sizes[2] + 2
    shown = sequence.input_ids[window.doc_offset : -1]
    words = window.words.tolist()
    assert words == sorted(words) and len(words) == len(shown)
    assert all(x in pieces[word] for x, word in zip(shown, words))
    for word in window.words[window.is_max_context]:
      decided[word] += 1
  # Of the windows that show a piece, one has the most context.
  assert decided.tolist() == [*map(len, pieces)]


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
  rows = read_squad_examples(path, is_training=True)
  [inputs] = make_task(tokenizer, sizes).preprocess(rows)
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
    rows = read_squad_examples(path, is_training=True)
  assert [row["id"] for row in rows] == ["good"]
  assert "x.json: 9 questions are left out" in log()
  assert "'bad0', 'b' is not in 'a' at 0," in log() and "'empty'" not in log()
  with runs.logged() as log:
    read_squad_examples(path, True, verbose_logging=True)
  assert "'unknown', 'a' is not in '' at -1, 'empty', '' is not" in log()
  assert "'outside', 'cd' is not in 'b' at 4" in log()


def test_a_context_without_words_is_answered_without_a_record(
  tokenizer, tmp_path
):
  path = squad_file(tmp_path / "x.json", (" ", [question()]))
  rows = read_squad_examples(path, is_training=False)
  task = make_task(tokenizer, WIDE)
  assert list(setups.encode(task, rows, tmp_path).evaluation(2)) == []
  [answer] = base.answer_rows(task, rows, [])
  assert answer["answer"] is None


def test_ids_may_be_numbers_and_repeated_in_training(tmp_path):
  questions = [question(3), question(3)]
  path = squad_file(tmp_path / "x.json", ("a b c", questions))
  rows = read_squad_examples(path, is_training=True)
  assert [row["id"] for row in rows] == ["3", "3"]
  with pytest.raises(ValueError, match="x.json has two questions .* id '3'"):
    read_squad_examples(path, is_training=False)


def test_is_impossible_may_be_a_number_and_has_no_position(tmp_path):
  answered = question("q", is_impossible=0)
  impossible = {**question("r"), "answers": [], "is_impossible": 1}
  path = squad_file(tmp_path / "x.json", ("a", [answered, impossible]))
  for is_training in (True, False):
    rows = read_squad_examples(path, is_training, True)
    assert [row["is_impossible"] for row in rows] == [False, True]
    positions = [row.get("start_position") for row in rows]
    assert positions == ([0, -1] if is_training else [None, None])


# Fields of a question (None: left out) or a file, and a part of the error.
FAULTS = [
  ({"id": None}, "data.0.paragraphs.0.qas.0.id is missing"),
  ({"answers": ["a"]}, 'data.0.paragraphs.0.qas.0.answers.0 is "a"'),
  ({"answers": question()["answers"] * 2}, "question 'q' has 2 answers"),
  ({"answers": [], "is_impossible": True}, "`version_2_with_negative`"),
  ('{"data": ', "is not JSON"),
  ('{"questions": []}', "data is missing"),
  ('{"data": []}', "has no question that can be used"),
]


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


@pytest.mark.parametrize(
  "sizes,expected",
  [
    ((67, 1, 64), "doc_stride 1 must be from 1 to 0, the room"),
    ((384, 0, 64), "doc_stride 0 must be at least 1"),
    ((384, 318, 64), "doc_stride 318 must be from 1 to 317, the room"),
    ((384, 317, 64), None),
  ],
)
def test_impossible_window_sizes_are_refused(sizes, expected):
  def resolve():
    train = FineTuningTrainConfig(output_dir="")
    config = SquadConfig(train=train, **dict(zip(SIZES, sizes)))
    return config.resolved("", positions=512)

  if expected:
    with pytest.raises(ValueError, match=expected):
      resolve()
  else:
    assert resolve().doc_stride == sizes[1]
