import itertools

import pytest

from bert_tf.text import corpus_build


def split(language, text):
  return list(corpus_build.split_sentences(language, text))


CASES = {
  "en": ("Dr. Smith came. He left at 5 p.m. on\nMonday!", 2),
  "de": ("Das ist z. B. ein Haus. Am 3. Mai kam er.", 2),
  "zh": ("今天下雨。你好吗？我很好！", 3),
  "ar": ("هذا بيت. هل تراه؟ نعم.", 3),
  "hi": ("यह घर है। वह बड़ा है।", 2),
  "fr": (" \n \u3000 ", 0),
}


@pytest.mark.parametrize("language", CASES)
def test_sentences_end_by_the_rules_of_their_language(language):
  text, num_sentences = CASES[language]
  lines = split(language, text)
  assert len(lines) == num_sentences
  assert "".join("".join(lines).split()) == "".join(text.split())
  assert not any("\n" in line for line in lines)


def test_thai_is_cut_at_spaces_into_clauses():
  clause = "ภาษาไทยเป็นภาษาที่มีระดับเสียง"
  lines = split("th", " ".join([clause] * 20))
  assert " ".join(lines) == " ".join([clause] * 20)
  assert len(lines) == 7  # Three clauses of 30 characters fit in 120.
  assert max(map(len, lines)) <= 120


def test_a_long_sentence_is_cut_at_a_space():
  words = ["word"] * 1000
  lines = split("en", " ".join(words))
  assert " ".join(lines).split() == words
  assert 900 < max(map(len, lines)) <= 1000
  assert split("en", "x" * 3000) == ["x" * 3000]


@pytest.mark.parametrize("language", ["ZH", "zh-TW", "zh_Hans", "unknown"])
def test_marks_of_all_scripts_end_sentences(language):
  assert split(language, CASES["zh"][0]) == split("zh", CASES["zh"][0])


def ends(lines):
  """Returns the ends of the sentences, counted in non-blank characters."""
  return set(itertools.accumulate(len("".join(s.split())) for s in lines))


@pytest.mark.parametrize(
  ("language", "name", "precision", "recall"),
  [
    ("de", "de_wiki", 0.95, 0.89),
    ("zh", "zh_wiki_simplified", 0.98, 0.88),
    ("ar", "ar_wiki", 0.94, 0.95),
    # Clauses. sentencex itself detects only paragraphs, a recall of 0.18.
    ("th", "th_wiki", 0.35, 0.44),
  ],
)
def test_sentences_of_wikipedia_have_their_original_ends(
  language, name, precision, recall, unpacked
):
  text = (unpacked("corpora") / f"{name}.txt").read_text("utf-8-sig")
  space = "" if language == "zh" else " "
  num_right = num_predicted = num_expected = 0
  for document in text.strip().split("\n\n"):
    lines = document.split("\n")
    expected = ends(lines)
    predicted = ends(split(language, space.join(lines)))
    num_right += len(predicted & expected)
    num_predicted += len(predicted)
    num_expected += len(expected)
  assert num_right / num_predicted >= precision
  assert num_right / num_expected >= recall
