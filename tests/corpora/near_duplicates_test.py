"""Near-duplicates compared with exact Jaccard similarities."""

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
from bert_tf.files import atomic

WORDS = [f"word{i}" for i in range(500)]


def runs_of_five(text):
  words = text.split()
  return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def jaccard(first, second):
  """Returns the exact similarity, from the definition."""
  first, second = runs_of_five(first), runs_of_five(second)
  return len(first & second) / len(first | second)


def changed(words, num_changes, rng):
  """Returns the words with a random run of them replaced."""
  words = list(words)
  start = rng.randrange(len(words) - num_changes)
  words[start : start + num_changes] = rng.choices(WORDS, k=num_changes)
  return words


@pytest.fixture(scope="module")
def texts():
  """120 documents of 150 words, from near-copies to unrelated ones."""
  rng = random.Random(5)
  documents = []
  for _ in range(30):
    words = rng.choices(WORDS, k=150)
    documents.append(words)
    documents += [changed(words, n, rng) for n in (1, 30, 80)]
  rng.shuffle(documents)
  return [" ".join(words) for words in documents]


def first_of_similar(texts, similarity):
  """Returns the indices of texts that are not similar to an earlier one."""
  distinct = []
  for i, text in enumerate(texts):
    if all(jaccard(text, texts[j]) < similarity for j in distinct):
      distinct.append(i)
  return distinct


def find_new(texts, similarity, seed):
  known = near_duplicates.NearDuplicates(similarity, seed)
  return [
    i
    for i, text in enumerate(texts)
    if known.is_new(near_duplicates.sketch([text], seed))
  ]


@pytest.mark.parametrize("similarity", [0.44, 0.8])
def test_sketches_and_exact_similarities_leave_out_the_same_documents(
  similarity, texts
):
  # No pair is within 0.1 of the limit, over two standard errors of the
  # estimate.
  similarities = [jaccard(*p) for p in itertools.combinations(texts, 2)]
  assert not [s for s in similarities if abs(s - similarity) < 0.1]
  expected = first_of_similar(texts, similarity)
  assert len(expected) < 0.8 * len(texts)
  for seed in (0, 7, -1):
    assert find_new(texts, similarity, seed) == expected


@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.8, 0.9, 1.0])
def test_bands_compare_similar_pairs_with_a_probability_of_99_percent(
  similarity,
):
  size = near_duplicates.band_size(similarity)
  num_bands = 128 // size
  assert (1 - similarity**size) ** num_bands <= 0.01
  # With twice the hashes per band, more than 1% would be missed.
  missed = (1 - similarity ** (2 * size)) ** (num_bands // 2)
  assert missed > 0.01 or size == 16


def test_shingles_ignore_case_punctuation_and_line_ends():
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
def test_characters_are_words_in_scripts_without_spaces(text, num_words):
  assert len(text) == num_words
  assert len(near_duplicates.shingles([text])) == num_words - 5 + 1


# --- In a corpus ---


@pytest.fixture
def rows(texts, tmp_path, monkeypatch):
  """A file with the documents as JSON lines, which make several parts."""
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
  inputs = sources.find_files(path, config, text_config.TEXT)
  return corpus_build.create(config, inputs, output, num_workers, resume, build)


def written(folder):
  names = ["a.txt-00000-of-00002", "a.txt-00001-of-00002", "eval.txt"]
  return {name: (folder / name).read_bytes() for name in names}


def documents(folder):
  """Returns the documents of all files."""
  return list(
    corpus.documents([str(folder / name) for name in written(folder)])
  )


def test_similar_documents_occur_once_over_both_splits(rows, texts, tmp_path):
  counts = create(rows, tmp_path / "o", near_duplicate_similarity=0.8)
  all_documents = documents(tmp_path / "o")
  expected = [texts[i] for i in first_of_similar(texts, 0.8)]
  assert sorted(map(" ".join, all_documents)) == sorted(expected)
  held_out = list(corpus.documents([str(tmp_path / "o" / "eval.txt")]))
  assert counts == {
    "documents_read": 120,
    "near_duplicates": 120 - len(expected),
    "documents": len(expected),
    "eval_documents": len(held_out),
    "sentences": sum(map(len, all_documents)),
    "characters": sum(len("".join(lines)) for lines in all_documents),
  }
  assert 0 < len(held_out) < len(expected)
  report = json.loads((tmp_path / "o" / "a.txt.report.json").read_text())
  assert report["counts"] == counts
  assert report["near_duplicate_similarity"] == 0.8


def test_the_result_does_not_depend_on_workers_and_parts(
  rows, tmp_path, monkeypatch
):
  create(rows, tmp_path / "one", near_duplicate_similarity=0.8)
  create(rows, tmp_path / "two", 2, near_duplicate_similarity=0.8)
  monkeypatch.setattr(corpus_parts, "PART_CHARS", 50_000)
  create(rows, tmp_path / "large", near_duplicate_similarity=0.8)
  assert written(tmp_path / "one") == written(tmp_path / "two")
  assert written(tmp_path / "one") == written(tmp_path / "large")


class Stop(Exception):
  """An interruption, such as Ctrl-C."""


@pytest.mark.parametrize("when", [2, 99])
def test_a_run_resumes_after_interrupted_parts_and_comparisons(
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
  counts = create(rows, out, resume=True, near_duplicate_similarity=0.8)
  assert written(out) == written(tmp_path / "whole")
  assert counts["documents"] == len(documents(out))
  assert sorted(path.name for path in out.iterdir()) == [
    "a.txt-00000-of-00002",
    "a.txt-00001-of-00002",
    "a.txt.report.json",
    "eval.txt",
  ]


def test_a_part_without_sketches_is_built_again(rows, tmp_path, monkeypatch):
  create(rows, tmp_path / "whole", near_duplicate_similarity=0.8)
  publish = atomic.publish

  def publish_until_sketches(path, target):
    if target.endswith("sketches.jsonl"):
      raise Stop
    publish(path, target)

  out = tmp_path / "out"
  with monkeypatch.context() as patched, pytest.raises(Stop):
    patched.setattr(atomic, "publish", publish_until_sketches)
    create(rows, out, near_duplicate_similarity=0.8)
  create(rows, out, resume=True, near_duplicate_similarity=0.8)
  assert written(out) == written(tmp_path / "whole")


def test_without_rensa_the_error_names_the_extra(rows, tmp_path, monkeypatch):
  monkeypatch.setitem(__import__("sys").modules, "rensa", None)
  with pytest.raises(ImportError, match=r"near-duplicates.*\[corpus\]"):
    create(rows, tmp_path / "o", near_duplicate_similarity=0.8)
  assert not (tmp_path / "o").exists()


def test_a_similarity_is_at_most_1():
  with pytest.raises(ValueError, match="near_duplicate_similarity"):
    text_config.TextConfig(near_duplicate_similarity=1.5)
