"""Tests that windows and answers of the graph equal those of NumPy."""

import dataclasses
import pathlib
import random

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import heads, tokenization
from bert_tf.data import packing
from bert_tf.export.signatures import context_windows, spans
from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.tasks.squad import config as squad_config
from bert_tf.tasks.squad import decoding, examples, windows
from tests.support import near_ties

VOCAB = str(
  pathlib.Path(__file__).resolve().parents[1] / "golden/tiny/vocab.txt"
)
WINDOWS = squad_config.WindowConfig(32, 7, 6)
WORDS = [
  *("the", "of", "and", "mississippi", "thé", "(1984)", "U.S.", "in,"),
  *("\u0007", "\U0001f600", "İstanbul", "e\u0301a\u0323", "日本", "한국어"),
  *("supercalifragilisticexpialidocious", "x" * 201, "\u202f", "a\u00a0b"),
  # Pieces that occur earlier in their word in another case.
  *("Rhrhrh", "Mimima", "\u00c9e\u00e9e", "\U0001f600.Aa"),
]
PREDICTIONS = {
  "1.1": squad_config.DecodingConfig(n_best_size=5, max_answer_length=4),
  "2.0": squad_config.DecodingConfig(
    n_best_size=8,
    max_answer_length=3,
    version_2_with_negative=True,
    null_score_diff_threshold=-1.0,
  ),
}


def cases():
  """Returns questions and contexts, from no word to several windows."""
  rng = random.Random(7)
  for num_words in (0, 1, 2, 9, 40, 41):
    for _ in range(4):
      words = rng.choices(WORDS, k=num_words)
      blanks = rng.choices([" ", "  ", "\n", "\t", "\u202f"], k=num_words)
      context = "".join(map("".join, zip(words, blanks)))
      yield " ".join(rng.choices(WORDS, k=rng.randint(1, 5))), context


class Model:
  """Returns random logits for each position and word piece."""

  def __init__(self, vocab_size):
    rng = np.random.default_rng(0)
    sizes = (vocab_size, WINDOWS.max_seq_length)
    self._tables = [rng.normal(size=(2, n)).astype(np.float32) for n in sizes]

  def __call__(self, inputs):
    of_pieces, of_positions = self._tables
    start, end = (
      tf.gather(of_pieces[i], inputs["input_ids"]) + of_positions[i]
      for i in range(2)
    )
    return heads.SpanOutput(start, end)


@pytest.fixture(scope="module")
def tokenizers():
  full = tokenization.FullTokenizer(VOCAB)
  return full, bert_tokenizer.BertTokenizer(full.vocab)


def make_example(question, context):
  return examples.SquadExample(
    qas_id="",
    question_text=question,
    context=examples.Context.from_text(context),
    answers=None,
    is_impossible=None,
  )


def test_the_graph_cuts_the_windows_of_the_records(tokenizers):
  full, in_graph = tokenizers
  windower = windows.ContextWindower(full, WINDOWS)
  graph_windower = context_windows.Windower(in_graph, WINDOWS)
  counts = set()
  for question, context in cases():
    [expected] = windower.windows([make_example(question, context)])
    pieces = graph_windower.pieces(tf.constant(context))
    result = graph_windower.cut(tf.constant(question), pieces)
    counts.add(len(expected))
    assert len(result.pieces) == len(expected)
    if not expected:
      continue
    for name, values in padded(expected).items():
      np.testing.assert_array_equal(result.inputs[name], values)
    for row, window in enumerate(expected):
      first, count = window.doc_offset, len(window.words)
      is_max = result.is_max_context[row].numpy()
      assert is_max[first : first + count].tolist() == list(
        window.is_max_context
      )
      assert is_max.sum() == sum(window.is_max_context)
  assert {0, 1} < counts and max(counts) > 3


def padded(result):
  """Returns windows as inputs of the model."""
  rows = [
    packing.pad(w.input_ids, w.doc_offset, WINDOWS.max_seq_length)
    for w in result
  ]
  return {n: np.array([row[n] for row in rows], np.int32) for n in rows[0]}


@pytest.mark.parametrize("version", PREDICTIONS)
def test_the_graph_decodes_the_answers_of_the_result_files(tokenizers, version):
  full, in_graph = tokenizers
  config = PREDICTIONS[version]
  model = Model(len(full.vocab))
  windower = windows.ContextWindower(full, WINDOWS)
  predictor = decoding.AnswerDecoder(full, config)
  answerer = spans.Answerer(model, in_graph, WINDOWS, config)
  texts = tf.TensorSpec([], tf.string)
  answer = tf.function(answerer.answer, input_signature=[texts, texts])
  for question, context in cases():
    example = make_example(question, context)
    [cut] = windower.windows([example])
    logits = np.zeros((2, 0, 0))
    if cut:
      logits = model(padded(cut))
      logits = [values.numpy() for values in logits]
    expected = predictor.predict(example, cut, *logits)
    result = {n: x.numpy() for n, x in answer(question, context).items()}
    names = ("text", "probability", "start_logit", "end_logit")
    columns = [result[f"nbest_{name}"] for name in names]
    entries = [dict(zip(names, values)) for values in zip(*columns)]
    ours = [
      {**entry, "text": one_blank(entry["text"])}
      for entry in entries
      if entry["probability"] > 0
    ]
    theirs = [dataclasses.asdict(c) for c in expected.nbest]
    for candidate in theirs:  # Only predictions.json has this text.
      candidate["text"] = candidate["text"].replace(decoding.NO_SPAN_TEXT, "")
    near_ties.assert_nbest(ours, theirs)
    wanted = expected.text.replace(decoding.NO_SPAN_TEXT, "")
    assert one_blank(result["answer"]) == wanted
    if config.version_2_with_negative:
      assert result["null_odds"] == pytest.approx(expected.null_odds, abs=1e-4)
    if wanted:
      place = slice(result["start"], result["end"])
      assert context[place] == result["answer"].decode()


def one_blank(text):
  """Returns an answer in the format of result files."""
  blank = tf.strings.regex_replace(text, context_windows.WHITE_SPACE, " ")
  return blank.numpy().decode()
