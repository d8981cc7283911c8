import itertools
import sys

import pytest

from bert_tf.corpora import sentences


def split(language, text):
  return list(sentences.Splitter(language).split(text))


CASES = {
  "en": ("Dr. Smith came. He left at 5 p.m. on\nMonday!", 2),
  "de": ("Das ist z. B. ein Haus. Am 3. Mai kam er.", 2),
  "zh": ("今天下雨。你好吗？我很好！", 3),
  "ar": ("هذا بيت. هل تراه؟ نعم.", 3),
  "hi": ("यह घर है। वह बड़ा है।", 2),
}


@pytest.mark.parametrize("language", CASES)
def test_sentences_end_as_their_language_ends_them(language):
  text, num_sentences = CASES[language]
  found = split(language, text)
  assert len(found) == num_sentences
  assert "".join("".join(found).split()) == "".join(text.split())
  assert not any("\n" in sentence for sentence in found)


def test_thai_is_cut_at_spaces_into_clauses():
  clause = "ภาษาไทยเป็นภาษาที่มีระดับเสียง"
  found = split("th", " ".join([clause] * 20))
  assert " ".join(found) == " ".join([clause] * 20)
  assert len(found) == 7  # Three of 30 and two spaces in 120 characters.
  assert max(map(len, found)) <= 120


def test_text_without_an_end_is_cut_at_a_space():
  words = ["word"] * 1000
  found = split("en", " ".join(words))
  assert " ".join(found).split() == words
  assert 900 < max(map(len, found)) <= 1000
  assert split("en", "x" * 3000) == ["x" * 3000]


def test_blank_text_has_no_sentence():
  assert split("en", " \n \u3000 ") == []


@pytest.mark.parametrize(
  ("given", "code"),
  [("EN", "en"), ("de-AT", "de-at"), ("zh_Hans", "zh-hans"), ("en-US", "en")],
)
def test_codes_are_found_in_any_spelling(given, code):
  assert sentences.check_language(given) == code


@pytest.mark.parametrize("given", ["xx", "english", "", "tlh"])
def test_an_unknown_language_is_refused(given):
  with pytest.raises(ValueError, match=f"`language={given}`"):
    sentences.Splitter(given)


def test_a_near_code_is_named():
  with pytest.raises(ValueError, match="zhhans.*zh-hans"):
    sentences.check_language("zhhans")


def test_without_sentencex_the_extra_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, "sentencex", None)
  with pytest.raises(ImportError, match=r"pip install .*\[corpus\]"):
    sentences.Splitter("en")


def ends(lines):
  """Where sentences end, in characters that are not blank."""
  return set(itertools.accumulate(len("".join(s.split())) for s in lines))


@pytest.mark.parametrize(
  ("language", "name", "precision", "recall"),
  [
    ("de", "de_wiki", 0.95, 0.89),
    ("zh", "zh_wiki_simplified", 0.98, 0.88),
    ("ar", "ar_wiki", 0.94, 0.95),
    # Of clauses: the splitter alone finds paragraphs, 0.18 of the ends.
    ("th", "th_wiki", 0.35, 0.44),
  ],
)
def test_sentences_of_wikipedia_end_where_they_ended(
  language, name, precision, recall, unpacked
):
  text = (unpacked("corpora") / f"{name}.txt").read_text("utf-8-sig")
  splitter = sentences.Splitter(language)
  space = "" if language == "zh" else " "
  num_right = num_found = num_given = 0
  for document in text.strip().split("\n\n"):
    lines = document.split("\n")
    found = ends(splitter.split(space.join(lines)))
    num_right += len(found & ends(lines))
    num_found += len(found)
    num_given += len(ends(lines))
  assert num_right / num_found >= precision
  assert num_right / num_given >= recall
