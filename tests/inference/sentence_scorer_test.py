"""Tests of pseudo-log-likelihoods against one masked copy at a time."""

import json
import pathlib

import numpy as np
import pytest
import scipy.special

import bert_tf
from bert_tf import tokenization
from bert_tf.inference import sentence_scorer
from bert_tf.model import heads
from tests.support import tiny_models

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODEL = GOLDEN / "tiny_perturbed"
VOCAB = GOLDEN / "tiny" / "vocab.txt"
TEXTS = [
  "a single sentence",
  "few songs",
  "the church in october was the last of its songs",
  "Flight 18 of 1988, and much more of the same kind of life",
  "few songs",
]


CHECKPOINT = MODEL / "bert_model.ckpt"


@pytest.fixture(scope="module")
def scorer():
  return bert_tf.SentenceScorer(CHECKPOINT, vocab_file=str(VOCAB))


def test_texts_that_the_vocabulary_lacks_are_warned_of(scorer, caplog):
  scorer.predict(["как дела"] * 5)
  assert "are [UNK]" in caplog.text


@pytest.fixture(scope="module")
def expected():
  """The word pieces of each text and their log probabilities."""
  model = heads.PretrainingModel.from_pretrained(MODEL)
  tokenizer = tokenization.FullTokenizer(str(VOCAB))

  def score(text):
    tokens = ["[CLS]", *tokenizer.tokenize(text), "[SEP]"]
    ids = tokenizer.convert_tokens_to_ids(tokens)
    log_probs = []
    for position in range(1, len(ids) - 1):
      masked = [*ids]
      masked[position] = tokenizer.vocab["[MASK]"]
      features = {"input_ids": [masked], "masked_lm_positions": [[position]]}
      logits, _ = model(features)
      values = np.asarray(logits[0, 0], np.float64)
      log_probs.append(scipy.special.log_softmax(values)[ids[position]])
    return tuple(tokens[1:-1]), log_probs

  return [score(text) for text in TEXTS]


@pytest.mark.parametrize("batch_tokens", [1, 40, 4096])
def test_scores_are_those_of_one_copy_at_a_time(expected, batch_tokens):
  files = {"vocab_file": str(VOCAB)}
  scorer = bert_tf.SentenceScorer(
    CHECKPOINT, batch_tokens=batch_tokens, **files
  )
  scores = scorer.predict(TEXTS)
  for score, (tokens, log_probs) in zip(scores, expected, strict=True):
    assert score.tokens == tokens
    np.testing.assert_allclose(score.log_probs, log_probs, atol=1e-5)
    np.testing.assert_allclose(score.score, sum(log_probs), atol=1e-4)
  num_pieces = sum(len(tokens) for tokens, _ in expected)
  mean = sum(sum(values) for _, values in expected) / num_pieces
  np.testing.assert_allclose(
    sentence_scorer.pseudo_perplexity(scores), np.exp(-mean), rtol=1e-5
  )


@pytest.mark.parametrize(
  "texts,message",
  [
    (" ", "row 0: it has 0 word pieces.* texts of 1 to "),
    (["few", "a " * 600], "row 1: it has 600 word pieces"),
    ({"text": "a", "text_b": "b"}, "row 0: it must be text"),
  ],
)
def test_what_cannot_be_scored_is_named(scorer, texts, message):
  with pytest.raises(ValueError, match=message):
    scorer.predict(texts)


def test_models_without_masked_words_are_refused(tmp_path):
  folder = str(tiny_models.write_classifier(tmp_path / "run"))
  with pytest.raises(ValueError, match="masked words"):
    bert_tf.SentenceScorer(folder)
  config_file = tmp_path / "run" / "bert_config.json"
  sizes = json.loads(config_file.read_text())
  sizes["attention_direction"] = "left_to_right"
  config_file.write_text(json.dumps(sizes))
  with pytest.raises(ValueError, match="attention_direction=left_to_right"):
    bert_tf.SentenceScorer(folder)
