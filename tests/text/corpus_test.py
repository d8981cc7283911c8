"""Corpora: files, documents, shards, and Python's documentation."""

import gzip
import pathlib
import random
import re
import tempfile

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies

from bert_tf.files import text_lines
from bert_tf.text import corpus, corpus_build, pydoc_corpus


def write(path, content):
  """Writes bytes or str, compressed for .gz; returns the path as a str."""
  data = content.encode() if isinstance(content, str) else content
  opener = gzip.open if str(path).endswith(".gz") else open
  with opener(path, "wb") as writer:
    writer.write(data)
  return str(path)


def brute_force_documents(paths):
  """Returns the documents by applying the definition to the whole text."""
  documents = [[]]
  for path in paths:
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as reader:
      lines = reader.read().removesuffix(b"\n").split(b"\n")
    for text in (line.decode().strip() for line in lines):
      if text:
        documents[-1].append(text)
      else:
        documents.append([])
  return [document for document in documents if document]


def input_files(patterns):
  return [file.path for file in corpus_build.find_files(patterns)]


def test_files_have_the_order_of_the_patterns_and_globs_are_sorted(tmp_path):
  for name in ("b2.txt", "b10.txt", "a.txt"):
    write(tmp_path / name, "x\n")
  patterns = f"{tmp_path}/b*.txt, {tmp_path}/a.txt,"
  assert input_files(patterns) == [
    f"{tmp_path}/{name}" for name in ("b10.txt", "b2.txt", "a.txt")
  ]


@pytest.mark.parametrize(
  ("pattern", "message"),
  [
    ("{}/*.none", r"\*\.none"),
    ("{}/none.txt", r"none\.txt"),
    ("{}/whole.txt,{}/empty.txt", r"empty\.txt .*0 bytes"),
    ("{}/*.txt", r"empty\.txt .*0 bytes"),
    ("{}", "folder"),
    (" , ", "no input files"),
  ],
)
def test_patterns_without_text_are_refused(tmp_path, pattern, message):
  write(tmp_path / "whole.txt", "x\n")
  write(tmp_path / "empty.txt", "")
  with pytest.raises(ValueError, match=message):
    input_files(pattern.replace("{}", str(tmp_path)))


def test_lines_are_those_of_tensorflows_readline(tmp_path):
  # The 2018 release reads text with it. It drops every carriage return.
  path = write(tmp_path / "a.txt", "foo\rbar é\r\n\r\n a\r\rb \n\rc\r")
  with tf.io.gfile.GFile(path) as reader:
    expected = list(reader)
  assert expected == ["foobar é\n", "\n", " ab \n", "c"]
  assert list(text_lines.read_lines(path)) == [x.rstrip("\n") for x in expected]
  documents = [["foobar é"], ["ab", "c"]]
  assert list(corpus.read_documents([path])) == documents
  [shard] = corpus.plan_shards([path], 1)
  assert list(corpus.read_shard(shard)) == documents


LINES = ["a", "é b", "\u2028x", "word " * 9, "", "", " ", "\u3000", "\r"]
LINES += ["\x1c\t", "\u2009\xa0", "\x85", "\u180e"]
TEXTS = strategies.tuples(
  strategies.lists(strategies.sampled_from(LINES), min_size=1, max_size=20),
  strategies.sampled_from(["", "\n", "\n\n"]),
).map(lambda text: "\n".join(text[0]) + text[1])


@hypothesis.given(strategies.lists(TEXTS, min_size=1, max_size=3))
def test_shards_hold_all_documents_in_order(texts):
  with tempfile.TemporaryDirectory() as folder:
    paths = [
      write(f"{folder}/{n}{'.gz' if n == 1 else ''}", text)
      for n, text in enumerate(texts)
    ]
    expected = brute_force_documents(paths)
    assert list(corpus.read_documents(paths)) == expected
    for num_shards in range(1, len(expected) + 1):
      shards = corpus.plan_shards(paths, num_shards)
      pieces = [list(corpus.read_shard(shard)) for shard in shards]
      assert sum(pieces, []) == expected and all(pieces)
      assert [shard.num_documents for shard in shards] == list(map(len, pieces))
    with pytest.raises(ValueError, match=f"num_shards {len(expected) + 1}"):
      corpus.plan_shards(paths, len(expected) + 1)


def test_shards_have_about_equal_sizes(tmp_path):
  rng = random.Random(1)
  text = "".join("word " * rng.randint(1, 60) + "\n\n" for _ in range(3000))
  half = text.index("\n\n", len(text) // 3) + 2
  paths = [
    write(tmp_path / "1", text[:half]),
    write(tmp_path / "2", text[half:]),
  ]
  shards = corpus.plan_shards(paths, 7)
  sizes = [sum(span.end - span.start for span in s.spans) for s in shards]
  assert sum(sizes) == len(text)
  # A boundary is at most half a document from the ideal one.
  assert all(abs(size - len(text) / 7) <= 302 for size in sizes)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_remote_and_local_text_have_the_same_documents(tmp_path, suffix):
  text = "\n\n".join(f"é {n}\r\n \u2028{n}" for n in range(200))
  local_path = write(tmp_path / f"a{suffix}", text)
  path = f"ram://{tmp_path.name}/a{suffix}"
  tf.io.gfile.makedirs(f"ram://{tmp_path.name}")
  with tf.io.gfile.GFile(path, "wb") as writer:
    writer.write(pathlib.Path(local_path).read_bytes())
  expected = brute_force_documents([local_path])
  assert list(corpus.read_documents([path])) == expected
  shards = corpus.plan_shards([path], 5)
  read = [list(corpus.read_shard(shard)) for shard in reversed(shards)]
  assert sum(reversed(read), []) == expected


def test_a_hash_of_the_text_decides_on_which_side_a_document_is():
  documents = [[f"sentence {n}", f"and {n}"] for n in range(2000)]

  def held_out(seed):
    return [corpus.is_held_out(d, fraction=0.25, seed=seed) for d in documents]

  assert held_out(1) == held_out(1) != held_out(2)
  # Five standard deviations of 2,000 draws at 0.25.
  assert abs(sum(held_out(1)) - 500) < 5 * (2000 * 0.25 * 0.75) ** 0.5


DOCSTRING = """
Fit the model to data, e.g. to counts. It returns the `model` itself!

Parameters
----------
x : array_like
    The points at which the :func:`~numpy.interp` function is evaluated.
y : int, optional
    Short one.

.. versionadded:: 1.2
.. note:: The **result** is a view of the input array.

Example::

    model = Model(x=1).fit(y)

>>> fit(x)
This is what the doctest prints as its result.

After the code, the text goes on over
two lines.

* The first item of a list is a sentence.
* The second item of a list is one too.

======  ==================
Column  Another
======  ==================

:param z: The value that is used if the key is missing.
:returns: The number of rows that were seen.
See https://example.com for all of the rest.
x = [y for y in z]
"""


def test_only_the_prose_of_a_docstring_is_used():
  assert list(pydoc_corpus.find_sentences(DOCSTRING)) == [
    "Fit the model to data, e.g. to counts.",
    "It returns the model itself!",
    "The points at which the numpy.interp function is evaluated.",
    "After the code, the text goes on over two lines.",
    "The first item of a list is a sentence.",
    "The second item of a list is one too.",
  ]


def test_modules_are_documents_that_are_read_but_not_imported(
  tmp_path, monkeypatch
):
  folder = tmp_path / "documented"
  (folder / "tests").mkdir(parents=True)
  (folder / "__init__.py").write_text("1 / 0\n")
  (folder / "broken.py").write_text("def (:\n")
  (folder / "tests" / "many.py").write_text('"""The tests are no text."""\n')
  sentence = "The sentence %d of the module is about a thing."
  # The last two are too short to be documents of their own.
  for name, numbers in ("a", range(6)), ("b", [7]), ("c", range(8, 12)):
    text = "\n".join(sentence % n for n in (*numbers, 99))
    (folder / f"{name}.py").write_text(f'"""{text}"""\n1 / 0\n')
  monkeypatch.syspath_prepend(str(tmp_path))
  paths = {"stdlib": str(folder / "none")}
  monkeypatch.setattr(pydoc_corpus.sysconfig, "get_paths", lambda: paths)
  documents = list(pydoc_corpus.read_documents(["documented"]))
  assert documents[-2:] == [
    [sentence % n for n in (*range(6), 99)],
    [sentence % n for n in range(7, 12)],
  ]


def test_pydoc_is_long_prose_without_duplicates():
  [file] = corpus_build.find_files("pydoc")
  documents = list(corpus.read_documents([file.path]))
  sentences = [sentence for document in documents for sentence in document]
  text = "\n".join(sentences)
  assert len(text) > 1_000_000 and min(map(len, documents)) >= 5
  assert len(set(sentences)) == len(sentences)
  assert not re.search(r">>>|::$|``|:\w+:`|^\.\. |----|====", text, re.M)
  letters = sum(char.isalpha() or char == " " for char in text)
  assert letters / len(text) > 0.93


@pytest.mark.parametrize("name", ["no_such_package", "os.path", "ast", "a b"])
def test_a_package_that_is_not_installed_is_named(name):
  with pytest.raises(ValueError, match=f"pydoc_packages: {name} "):
    list(pydoc_corpus.read_documents([name]))
