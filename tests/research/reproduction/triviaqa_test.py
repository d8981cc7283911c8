"""TriviaQA in its published format becomes SQuAD's, and trains a model."""

import json

import pytest

from bert_tf.tasks.squad import examples
from research.reproduction import triviaqa
from tests.support import triviaqa_files


@pytest.fixture
def config(tmp_path):
  return triviaqa_files.write(tmp_path)


def test_answers_stand_where_squad_reads_them(config, tmp_path):
  articles, counts = triviaqa.convert(config)
  path = tmp_path / "made.json"
  path.write_text(json.dumps({"data": articles}))
  read = examples.read_squad_examples(str(path), is_training=True)
  found = {
    row["id"]: " ".join(
      row["context"].split()[row["start_position"] : row["end_position"] + 1]
    )
    for row in read
  }
  assert found == {
    # The longest alias that begins first, with its comma.
    "tc_1--beyoncé.txt": "Houston, Texas",
    "tc_2--Charles_Dickens.txt": 'Tale of Two Cities".',
    "tc_3--Charles_Dickens.txt": "(1812–1870)",
  }
  answers = [
    question["answers"][0]["text"]
    for article in articles
    for question in article["paragraphs"][0]["qas"]
  ]
  assert answers == ["Houston, Texas", "Tale of Two Cities", "1812"]
  assert [a["title"] for a in articles] == ["beyoncé", "Charles_Dickens"]
  assert counts == {"used": 3, "without answer": 3, "without file": 1}


def test_a_context_ends_with_its_last_token():
  assert triviaqa.cut("  One, two.\nThree four", 5) == "  One, two.\nThree"
  assert triviaqa.cut("One two ", 400) == "One two"
  words = "a-b " * 300
  assert len(triviaqa.cut(words, 400).split()) == 134  # Three tokens each.


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (lambda q: {k: v for k, v in q.items() if k != "Answer"}, "tc_1 has no an"),
    (lambda q: {**q, "EntityPages": [{"Filename": "x.txt"}]}, "set `evidence`"),
  ],
  ids=["test set", "other folder"],
)
def test_files_without_answers_are_refused(config, change, message):
  with open(config.questions, "w") as file:
    json.dump({"Data": list(map(change, triviaqa_files.QUESTIONS))}, file)
  with pytest.raises(ValueError, match=f"(?i){message}"):
    triviaqa.convert(config)
