"""Near-duplicates against exact Jaccard similarities, for any workers."""

import itertools
import json
import random

import pytest

from bert_tf.corpora import (
  corpus,
  corpus_build,
  corpus_parts,
  near_duplicates,
  sources,
  text_config,
)

WORDS = [f"word{i}" for i in range(500)]


def runs_of_five(text):
  words = text.split()
  return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def jaccard(first, second):
  """Exact, from the definition."""
  first, second = runs_of_five(first), runs_of_five(second)
  return len(first & second) / len(first | second)


def changed(words, num_changes, rng):
  """The words, a run of them replaced by others."""
  words = list(words)
  start = rng.randrange(len(words) - num_changes)
  words[start : start + num_changes] = rng.choices(WORDS, k=num_changes)
  return words


@pytest.fixture(scope="module")
def texts():
  """120 documents of 150 words, from copies to strangers."""
  rng = random.Random(5)
  made = []
  for _ in range(30):
    words = rng.choices(WORDS, k=150)
    made.append(words)
    made += [changed(words, n, rng) for n in (1, 30, 80)]
  rng.shuffle(made)
  return [" ".join(words) for words in made]


def first_of_similar(texts, similarity):
  """The indices that stay if each text meets all earlier ones that stay."""
  kept = []
  for i, text in enumerate(texts):
    if all(jaccard(text, texts[j]) < similarity for j in kept):
      kept.append(i)
  return kept


def found_new(texts, similarity, seed=7):
  known = near_duplicates.NearDuplicates(similarity, seed)
  return [
    i
    for i, text in enumerate(texts)
    if known.is_new(near_duplicates.sketch([text], seed))
  ]


@pytest.mark.parametrize("similarity", [0.44, 0.8])
def test_those_are_left_out_that_exact_similarities_leave_out(
  similarity, texts
):
  # No pair is within 0.1, two standard errors of the estimate and more, of the
  # bound, so none can go either way.
  pairs = itertools.combinations(texts, 2)
  found = [jaccard(*pair) for pair in pairs]
  assert not [s for s in found if abs(s - similarity) < 0.1]
  expected = first_of_similar(texts, similarity)
  assert len(expected) < 0.8 * len(texts)
  for seed in (0, 7, -1):
    assert found_new(texts, similarity, seed) == expected


@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.8, 0.9, 1.0])
def test_bands_compare_what_is_as_similar_with_a_chance_of_99_percent(
  similarity,
):
  size = near_duplicates.band_size(similarity)
  num_bands = 128 // size
  assert (1 - similarity**size) ** num_bands <= 0.01
  # With twice the hashes per band, more than 1% would be missed.
  missed = (1 - similarity ** (2 * size)) ** (num_bands // 2)
  assert missed > 0.01 or size == 16


def test_case_marks_and_lines_make_no_difference():
  text = "The old boat lay there, in the storm of that night."
  other = "the OLD boat lay\nthere in the storm: of that (night)"
  assert near_duplicates.shingles([text]) == near_duplicates.shingles(
    other.split("\n")
  )
  assert len(near_duplicates.shingles([text])) == 11 - 5 + 1
  assert near_duplicates.shingles(["One two."]) == {"one two"}


@pytest.mark.parametrize(
  ("text", "num_words"), [("我们今天去公园散步吧", 10), ("กินข้าวแล้ว", 11)]
)
def test_characters_are_words_where_there_are_no_spaces(text, num_words):
  assert len(text) == num_words
  assert len(near_duplicates.shingles([text])) == num_words - 5 + 1


# --- In a corpus ---


@pytest.fixture
def rows(texts, tmp_path, monkeypatch):
  """The documents as JSON lines, which become several parts."""
  monkeypatch.setattr(corpus_parts, "PART_CHARS", 20_000)
  path = tmp_path / "in" / "a.jsonl"
  path.parent.mkdir()
  path.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
  return str(path)


def create(path, folder, num_workers=1, resume=False, build=None, **settings):
  config = text_config.TextConfig(**settings)
  output = corpus_build.Output(
    output_file=str(folder / "a.txt"),
    num_shards=2,
    eval_output_file=str(folder / "eval.txt"),
    eval_fraction=0.3,
  )
  inputs = sources.find(path, config, text_config.TEXT)
  return corpus_build.create(config, inputs, output, num_workers, resume, build)


def written(folder):
  names = ["a.txt-00000-of-00002", "a.txt-00001-of-00002", "eval.txt"]
  return {name: (folder / name).read_bytes() for name in names}


def documents(folder):
  """The documents of all files."""
  return list(
    corpus.documents([str(folder / name) for name in written(folder)])
  )


def test_a_corpus_has_one_of_similar_documents_in_either_split(
  rows, texts, tmp_path
):
  found = create(rows, tmp_path / "o", near_duplicate_similarity=0.8)
  every = documents(tmp_path / "o")
  kept = [" ".join(lines) for lines in every]
  expected = [texts[i] for i in first_of_similar(texts, 0.8)]
  assert sorted(kept) == sorted(expected)
  held_out = list(corpus.documents([str(tmp_path / "o" / "eval.txt")]))
  assert found == {
    "documents_read": 120,
    "near_duplicates": 120 - len(expected),
    "documents": len(expected),
    "eval_documents": len(held_out),
    "sentences": sum(map(len, every)),
    "characters": sum(len(line) for lines in every for line in lines),
  }
  assert 0 < len(held_out) < len(expected)
  report = json.loads((tmp_path / "o" / "a.txt.report.json").read_text())
  assert report["counts"] == found
  assert report["near_duplicate_similarity"] == 0.8


def test_workers_and_parts_make_no_difference(rows, tmp_path, monkeypatch):
  create(rows, tmp_path / "one", near_duplicate_similarity=0.8)
  create(rows, tmp_path / "two", 2, near_duplicate_similarity=0.8)
  monkeypatch.setattr(corpus_parts, "PART_CHARS", 50_000)
  create(rows, tmp_path / "large", near_duplicate_similarity=0.8)
  assert written(tmp_path / "one") == written(tmp_path / "two")
  assert written(tmp_path / "one") == written(tmp_path / "large")


class Stop(Exception):
  """An end that is no fault of the input."""


@pytest.mark.parametrize("when", [2, 99])
def test_a_run_goes_on_from_parts_and_from_the_comparison(
  when, rows, tmp_path, monkeypatch
):
  create(rows, tmp_path / "whole", near_duplicate_similarity=0.8)

  def build(parts):
    for i, part in enumerate(parts):
      if i == when:
        raise Stop
      corpus_parts.build(part, lambda count: None)

  new = near_duplicates.NearDuplicates.is_new
  calls = []

  def fail_late(self, sketched):
    calls.append(sketched)
    if len(calls) == 70:
      raise Stop
    return new(self, sketched)

  out = tmp_path / "out"
  with monkeypatch.context() as patched, pytest.raises(Stop):
    patched.setattr(near_duplicates.NearDuplicates, "is_new", fail_late)
    create(rows, out, build=build, near_duplicate_similarity=0.8)
  assert len(calls) == (70 if when == 99 else 0)
  with pytest.raises(ValueError, match="`near_duplicate_similarity` differs"):
    create(rows, out, resume=True, near_duplicate_similarity=0.5)
  found = create(rows, out, resume=True, near_duplicate_similarity=0.8)
  assert written(out) == written(tmp_path / "whole")
  assert found["documents"] == len(documents(out))
  assert sorted(path.name for path in out.iterdir()) == [
    "a.txt-00000-of-00002",
    "a.txt-00001-of-00002",
    "a.txt.report.json",
    "eval.txt",
  ]


def test_without_the_library_the_extra_is_named(rows, tmp_path, monkeypatch):
  monkeypatch.setitem(__import__("sys").modules, "rensa", None)
  with pytest.raises(ImportError, match=r"near-duplicates.*\[corpus\]"):
    create(rows, tmp_path / "o", near_duplicate_similarity=0.8)
  assert not (tmp_path / "o").exists()


def test_a_similarity_is_at_most_1():
  with pytest.raises(ValueError, match="near_duplicate_similarity"):
    text_config.TextConfig(near_duplicate_similarity=1.5)
