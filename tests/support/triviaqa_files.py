"""Files of TriviaQA in its published format."""

import json
import unicodedata

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
