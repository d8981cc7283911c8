"""Tests for question answering from Python and from the terminal."""

import dataclasses
import gzip
import json
import pathlib

import pytest

import bert_tf
from bert_tf.tasks.squad import config as squad_config
from tests.support import near_ties

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
TINY = GOLDEN / "tiny_squad"
VOCAB = GOLDEN / "tiny" / "vocab.txt"
# Settings of the recordings golden/e2e/squad_v1 and squad_v2.
WINDOWS = squad_config.SquadSettings(
  max_seq_length=128, doc_stride=48, max_query_length=40
)
V2 = {
  "n_best_size": 128,
  "max_answer_length": 3,
  "version_2_with_negative": True,
  "null_score_diff_threshold": -5.5,
}


def answerer(**changes):
  arguments = {
    "bert_config_file": str(TINY / "bert_config.json"),
    "vocab_file": str(VOCAB),
    "init_checkpoint": str(TINY / "bert_model.ckpt"),
    **dataclasses.asdict(WINDOWS),
  }
  return bert_tf.QuestionAnswerer(**{**arguments, **changes})


def read_questions(path):
  """Yields (id, question, context)."""
  for article in json.loads(path.read_text())["data"]:
    for paragraph in article["paragraphs"]:
      for qa in paragraph["qas"]:
        yield qa["id"], qa["question"], paragraph["context"]


@pytest.mark.parametrize("version,predictions", [("v1", {}), ("v2", V2)])
def test_answers_match_the_original(shared, version, predictions):
  recorded = shared / "golden" / "e2e" / f"squad_{version}"
  name = "nbest_predictions.json"
  if version == "v2":
    packed = (recorded / f"{name}.gz").read_bytes()
    nbest = json.loads(gzip.decompress(packed))
    odds = json.loads((recorded / "null_odds.json").read_text())
  else:
    # Only the files of the original contain this text.
    text = (recorded / name).read_text()
    nbest, odds = json.loads(text.replace('"empty"', '""')), {}
  model = answerer(**predictions)
  name = "dev-v1.1.json" if version == "v1" else "dev-v2.0.json"
  questions = {
    qas_id: (question, context)
    for qas_id, question, context in read_questions(
      shared / "golden" / "squad" / name
    )
    # The script answers blank texts with a warning; the class refuses them.
    if question.strip() and context.strip()
  }
  answers = dict(zip(questions, model.predict(list(questions.values()))))
  assert len(answers) >= len(nbest) - 2
  for qas_id, answer in answers.items():
    null_odds = odds.get(qas_id)
    text = answer["answer"] or ""
    assert text in near_ties.answers(nbest[qas_id], null_odds, -5.5)
    ours = [{**each, "text": each["text"] or ""} for each in answer["nbest"]]
    near_ties.assert_nbest(ours, nbest[qas_id])
    if version == "v2":
      assert answer["null_odds"] == pytest.approx(null_odds, abs=1e-5)


def test_a_context_without_a_word_piece_has_no_answer():
  # The tokenizer drops this control character.
  answer = answerer().predict(("the", "\x07"))
  assert answer["answer"] is answer["nbest"][0]["text"] is None
  assert answer["nbest"][0]["probability"] == 1.0
