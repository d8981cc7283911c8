"""Answers from logits: the original's files, brute force, hand examples."""

import gzip
import itertools
import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf import tokenization
from bert_tf.tasks.squad import decoding
from bert_tf.tasks.squad.config import SquadConfig
from bert_tf.tasks.squad.examples import read_squad_examples
from tests.support import setups

WORDS = "The steve smith lived in a house near Steve Smith's barn".split()
PIECES = "[PAD] [UNK] [CLS] [SEP] the steve smith lived in a house near barn"
QUESTION_PIECES = 2


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
  path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
  path.write_text("\n".join([*PIECES.split(), "'", "s", "##s"]) + "\n")
  return tokenization.FullTokenizer(str(path))


def make_decoder(tokenizer, max_seq_length=20, doc_stride=5, **fields):
  """Returns a decoder, and the windows of a text as (Context, windows)."""
  task = setups.make(
    SquadConfig,
    tokenizer,
    max_seq_length,
    doc_stride=doc_stride,
    max_query_length=QUESTION_PIECES,
    **fields,
  )

  def cut(*texts):
    rows = [{"question": "near house", "context": text} for text in texts]
    return next(task.preprocess(rows)).state

  return decoding.AnswerDecoder(tokenizer, task.settings), cut


def predict_file(folder, tokenizer, name, version, output_dir, **fields):
  """Answers a recorded data set from its recorded logits."""
  rows = read_squad_examples(
    str(folder / f"dev-{version}.json"), is_training=False
  )
  fields |= {"doc_stride": 64, "max_query_length": 24}
  task = setups.make(SquadConfig, tokenizer, 128, **fields)
  with np.load(folder / f"logits_{name}.npz") as recorded:
    logits = [*zip(recorded["start_logits"], recorded["end_logits"])]
  outputs = iter([dict(zip(task.outputs, each)) for each in logits])
  answers = {}
  for row, inputs in zip(rows, task.preprocess(rows)):
    own = list(itertools.islice(outputs, len(inputs.sequences)))
    answers[row["id"]] = task.postprocess(inputs, own)
  assert not [*outputs]
  decoding.write_predictions(str(output_dir), answers, version == "v2.0")


@pytest.mark.parametrize("case", ["uncased", "cased"])
@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
@pytest.mark.parametrize("n_best_size,max_answer_length", [(20, 30), (3, 5)])
def test_files_are_the_originals_byte_for_byte(
  shared, unpacked, tmp_path, case, version, n_best_size, max_answer_length
):
  folder = shared / "golden" / "squad"
  vocab = unpacked("vocab") / "bert_base_uncased_vocab.txt"
  predict_file(
    folder,
    tokenization.FullTokenizer(str(vocab), case == "uncased"),
    f"{version}_{case}",
    version,
    tmp_path,
    n_best_size=n_best_size,
    max_answer_length=max_answer_length,
    version_2_with_negative=version == "v2.0",
  )
  name = f"pred_{version}_{case}_nbest{n_best_size}_maxlen{max_answer_length}"
  ours = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
  if (folder / f"{name}_CRASH.txt").exists():
    # The original crashes on a question without a span.
    predictions = json.loads(ours["predictions.json"])
    nbest = json.loads(ours["nbest_predictions.json"])
    spanless = [
      i
      for i, candidates in nbest.items()
      if [c["text"] for c in candidates] == [""]
    ]
    assert spanless and {predictions[i] for i in spanless} == {""}
    return
  recorded = {
    "predictions.json": (folder / f"{name}.json").read_bytes(),
    "nbest_predictions.json": gzip.decompress(
      (folder / f"{name}_nbest.json.gz").read_bytes()
    ),
  }
  if version == "v2.0":
    odds = folder / f"{name}_null_odds.json"
    recorded["null_odds.json"] = odds.read_bytes()
  assert ours == recorded


def possible_spans(windows, max_answer_length):
  """Yields (window, start, end) of each possible span."""
  for row, window in enumerate(windows):
    first = window.doc_offset
    end = first + len(window.words)
    for start in range(first, end):
      for last in range(start, min(start + max_answer_length, end)):
        if window.is_max_context[start - first]:
          yield row, start, last


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), is_v2=st.booleans())
def test_the_best_of_all_spans_is_found(tokenizer, seed, is_v2):
  predictor, cut = make_decoder(
    *(tokenizer, 10, 4),
    n_best_size=500,
    max_answer_length=4,
    version_2_with_negative=is_v2,
  )
  context, windows = cut(" ".join(WORDS))
  assert len(windows) > 2
  rng = np.random.default_rng(seed)
  starts, ends = rng.normal(size=(2, len(windows), 10)).astype(np.float32)
  prediction = predictor.predict(context, windows, starts, ends)
  scores = {
    (row, start, end): float(starts[row, start]) + float(ends[row, end])
    for row, start, end in possible_spans(windows, 4)
  }
  row, start, end = max(scores, key=scores.get)
  offset = windows[row].doc_offset
  words = context.doc_tokens[
    windows[row].words[start - offset] : windows[row].words[end - offset] + 1
  ]
  nbest = prediction["nbest"]
  best = next(c for c in nbest if c["text"])
  assert best["start_logit"] + best["end_logit"] == scores[row, start, end]
  assert best["text"] in " ".join(words)
  assert context.text[best["start"] : best["end"]] == best["text"]
  totals = [c["start_logit"] + c["end_logit"] for c in nbest]
  assert totals == sorted(totals, reverse=True)
  assert len({c["text"] for c in nbest}) == len(nbest)
  chosen = best["text"]
  if is_v2:
    null = min(float(s[0]) + float(e[0]) for s, e in zip(starts, ends))
    odds = prediction["null_odds"]
    assert odds == pytest.approx(null - max(scores.values()))
    assert [c["text"] for c in nbest].count(None) == 1
    chosen = None if odds > 0 else chosen
  assert prediction["answer"] == chosen
  assert ("null_odds" in prediction) == is_v2


def test_equal_scores_stay_in_the_order_of_positions(tokenizer):
  predictor, cut = make_decoder(tokenizer)
  logits = np.zeros((1, 20), np.float32)
  prediction = predictor.predict(*cut("the steve smith"), logits, logits)
  assert [c["text"] for c in prediction["nbest"]] == [
    *("the", "the steve", "the steve smith"),
    *("steve", "steve smith", "smith"),
  ]
  probabilities = [c["probability"] for c in prediction["nbest"]]
  assert probabilities == pytest.approx([1 / 6] * 6)


@pytest.mark.parametrize(
  ("threshold", "text"), [(0.99, None), (1.0, "steve"), (1.01, "steve")]
)
def test_the_null_threshold_decides_and_the_lowest_null_counts(
  tokenizer, threshold, text
):
  predictor, cut = make_decoder(
    *(tokenizer, 15, 8),
    version_2_with_negative=True,
    null_score_diff_threshold=threshold,
  )
  context, windows = cut(" ".join(WORDS))
  logits = np.full((2, 15), -5.0, np.float32)
  logits[0, 0], logits[1, 0] = 3.0, 2.0
  logits[0, 5] = 1.5  # "steve", once as start and once as end
  prediction = predictor.predict(context, windows, logits, logits)
  assert (prediction["answer"], prediction["null_odds"]) == (text, 1.0)


# The normalized answer, the words around it, and the original answer.
ALIGNED = [
  ("steve smith", "Steve Smith's", "Steve Smith"),
  ("1895", "(1895-1943).", "1895"),
  ("smith ' s", "Steve Smith's", "Smith's"),
  ("naive", "«naïve»", "naïve"),
  ("tokyo", "nothing of it", "nothing of it"),
  # Normalization splits a Hangul syllable into letters: nothing aligns.
  (unicodedata.normalize("NFD", "한"), "한 국", "한 국"),
  ("", "a b", "a b"),
  ("a a", "(a a)", "a a"),
  ("東 京", "in 東京.", "東京"),
]


@pytest.mark.parametrize(("predicted", "words", "expected"), ALIGNED)
def test_an_answer_is_cut_out_of_the_original_words(predicted, words, expected):
  normalized = " ".join(tokenization.BasicTokenizer().tokenize(words))
  text, start = decoding.original_text(predicted, words.split(), normalized)
  assert text == expected
  assert " ".join(words.split())[start:].startswith(text)
