"""TriviaQA in its published format becomes SQuAD's, and trains a model."""

import json
import unicodedata

import pytest

from bert_tf.tasks.squad import examples
from research.reproduction import triviaqa

# As in triviaqa-rc.tar.gz: names of files differ in case and Unicode form.
DOCUMENTS = {
  "Beyoncé.txt": "Beyoncé sings.\n\nShe was born in Houston, Texas in 1981.",
  "Charles_Dickens.txt": 'Dickens (1812–1870) wrote "A Tale of Two Cities". '
  "The Tale was long.",
  "Late.txt": "word " * 400 + "Oslo",
  "Unused.txt": "Nobody asks.",
}


def answer(value, *aliases):
  return {
    "Value": value,
    "Aliases": [value, *aliases],
    "NormalizedAliases": [a.lower() for a in aliases],
    "NormalizedValue": value.lower(),
    "Type": "WikipediaEntity",
  }


def question(number, text, answer, *files):
  pages = [{"DocSource": "TagMe", "Filename": f, "Title": f} for f in files]
  return {
    "Answer": answer,
    "EntityPages": pages,
    "Question": text,
    "QuestionId": f"tc_{number}",
    "QuestionSource": "http://www.triviacountry.com/",
    "SearchResults": [{"Filename": "0/0_1.txt", "Rank": 0}],
  }


QUESTIONS = (
  question(
    *(1, "Where was the singer born?"),
    answer("Houston (Texas)", "Houston", "houston texas"),
    *("beyoncé.txt", "Late.txt", "beyoncé.txt"),
  ),
  question(
    *(2, "Which novel is set in Paris?"),
    answer("A Tale of 2 Cities", "Tale", "tale of two cities"),
    "Charles_Dickens.txt",
  ),
  question(3, "Whose year?", answer("1812"), "Charles_Dickens.txt", "No.txt"),
  question(4, "A capital?", answer("Oslo"), "Late.txt"),
  # Part of a word is no answer.
  question(5, "A child?", answer("son", "lon"), "Charles_Dickens.txt"),
)


def write(folder):
  """Writes the files and returns the settings that convert them."""
  evidence = folder / "evidence" / "wikipedia"
  evidence.mkdir(parents=True)
  for name, text in DOCUMENTS.items():
    name = unicodedata.normalize("NFD", name)
    (evidence / name).write_text(text, encoding="utf-8")
  content = {
    "Data": QUESTIONS,
    "Domain": "Wikipedia",
    "Split": "train",
    "VerifiedEval": False,
    "Version": 1.0,
  }
  questions = folder / "wikipedia-train.json"
  questions.write_text(json.dumps(content))
  return triviaqa.TriviaConfig(
    questions=str(questions),
    evidence=str(evidence),
    output_file=str(folder / "triviaqa-train.json"),
  )


@pytest.fixture
def config(tmp_path):
  return write(tmp_path)


def test_answers_stand_where_squad_reads_them(config):
  articles, counts = triviaqa.convert(config)
  read = examples.parse({"data": articles}, "made", is_training=True)
  found = {
    x.qas_id: " ".join(
      x.context.doc_tokens[x.start_position : x.end_position + 1]
    )
    for x in read
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
  assert (counts.used, counts.without_answer, counts.without_file) == (3, 3, 1)


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
    json.dump({"Data": list(map(change, QUESTIONS))}, file)
  with pytest.raises(ValueError, match=f"(?i){message}"):
    triviaqa.convert(config)
