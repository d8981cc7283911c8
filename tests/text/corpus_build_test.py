"""Building a corpus: its formats, its text, its report, its splits."""

import bz2
import gzip
import json
import os
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bert_tf.text import corpus, corpus_build, text_config

WORDS = "the old boat storm sea was here there night wind wave".split()


@pytest.fixture
def small_groups(monkeypatch):
  monkeypatch.setattr(corpus_build, "_GROUP_CHARS", 1800)


def sentence(rng):
  words = rng.choices(WORDS, k=rng.randint(3, 9))
  return " ".join(words).capitalize() + "."


@pytest.fixture
def documents():
  """Sixty documents of sentences, 9 kB."""
  rng = random.Random(3)
  return [[sentence(rng) for _ in range(rng.randint(2, 8))] for _ in range(60)]


@pytest.fixture
def text(documents, tmp_path):
  """A file with the documents as running text."""
  path = tmp_path / "in" / "text.txt"
  path.parent.mkdir()
  path.write_text("\n\n".join(" ".join(lines) for lines in documents))
  return str(path)


def create(text, output_file, outputs=(), num_workers=1, **texts):
  """Builds a corpus; returns the counts."""
  config = text_config.TextConfig(**texts)
  output = text_config.Output(output_file=str(output_file), **dict(outputs))
  inputs = corpus_build.find_files(str(text), config, text_config.TEXT)
  return corpus_build.build_corpus(config, inputs, output, num_workers)


def read(*paths):
  return list(corpus.read_documents(list(map(str, paths))))


def test_each_sentence_is_a_line_and_documents_stay_apart(
  text, documents, tmp_path
):
  counts = create(text, tmp_path / "out" / "a.txt")
  written = (tmp_path / "out" / "a.txt").read_text()
  assert written == "".join("\n".join(d) + "\n\n" for d in documents)
  sentences = sum(documents, [])
  assert counts == {
    "documents": 60,
    "sentences": len(sentences),
    "characters": len("".join(sentences)),
  }
  report = json.loads((tmp_path / "out" / "a.txt.report.json").read_text())
  assert report["counts"] == counts
  assert report["input_file"] == [[text, "text"]]
  assert sorted(os.listdir(tmp_path / "out")) == ["a.txt", "a.txt.report.json"]


def split_output(folder, suffix=""):
  """Returns arguments of `create` for a corpus with a held-out file."""
  eval_file = str(folder / f"eval.txt{suffix}")
  outputs = {"eval_fraction": 0.3, "eval_output_file": eval_file}
  return folder / f"a.txt{suffix}", outputs


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
def test_both_splits_hold_all_documents_and_may_be_compressed(
  suffix, text, documents, tmp_path, small_groups
):
  counts = create(text, *split_output(tmp_path, suffix))
  opener = {"": open, ".gz": gzip.open, ".bz2": bz2.open}[suffix]
  splits = []
  for name in ("a.txt", "eval.txt"):
    with opener(tmp_path / f"{name}{suffix}", "rt") as reader:
      parts = reader.read().removesuffix("\n\n").split("\n\n")
    splits.append([part.split("\n") for part in parts])
  train, held_out = splits
  assert sorted(train + held_out) == sorted(documents)
  assert len(held_out) == counts["eval_documents"] > 5
  assert train == [d for d in documents if d not in held_out]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_corpus_does_not_depend_on_workers_or_groups(
  num_workers, text, tmp_path, monkeypatch
):
  create(text, *split_output(tmp_path / "1"))
  monkeypatch.setattr(corpus_build, "_GROUP_CHARS", 1800)
  create(text, *split_output(tmp_path / "2"), num_workers=num_workers)
  for name in ("a.txt", "eval.txt"):
    folders = tmp_path / "1", tmp_path / "2"
    first, second = ((folder / name).read_bytes() for folder in folders)
    assert first == second


def test_remote_paths_are_read_and_written(documents, tmp_path):
  import tensorflow as tf

  folder = f"ram://{tmp_path.name}"
  tf.io.gfile.makedirs(folder)
  with tf.io.gfile.GFile(f"{folder}/in.jsonl", "w") as writer:
    for lines in documents:
      writer.write(json.dumps({"text": " ".join(lines)}) + "\n")
  create(f"{folder}/in.jsonl", f"{folder}/a.txt")
  assert read(f"{folder}/a.txt") == documents
  assert sorted(tf.io.gfile.listdir(folder)) == [
    "a.txt",
    "a.txt.report.json",
    "in.jsonl",
  ]


def test_an_interrupted_run_leaves_no_output(text, tmp_path, monkeypatch):
  def fail(*arguments):
    raise OSError("no space left")

  monkeypatch.setattr(corpus, "is_held_out", fail)
  with pytest.raises(OSError, match="no space"):
    create(text, *split_output(tmp_path / "out"))
  assert not os.listdir(tmp_path / "out")


def test_an_empty_corpus_is_refused_and_leaves_no_file(tmp_path):
  (tmp_path / "a.jsonl").write_text('{"text": ""}\n{"text": " \\n"}\n')
  with pytest.raises(ValueError, match="no document for .*a.txt"):
    create(tmp_path / "a.jsonl", tmp_path / "out" / "a.txt")
  assert not os.listdir(tmp_path / "out")


def test_a_faulty_input_leaves_the_old_corpus(text, tmp_path):
  (tmp_path / "in" / "z.jsonl").write_text('{"text": "A."}\n{"body": 1}\n')
  old = tmp_path / "out" / "a.txt"
  old.parent.mkdir()
  old.write_text("old\n")
  with pytest.raises(ValueError, match="z.jsonl:2: .*text"):
    create(f"{tmp_path}/in/*", old)
  assert os.listdir(tmp_path / "out") == ["a.txt"]
  assert old.read_text() == "old\n"


def test_another_format_than_lines_is_refused_with_advice(tmp_path):
  path = tmp_path / "a.jsonl"
  path.write_text('{"text": "A boat."}\n')
  with pytest.raises(ValueError, match="a.jsonl .* jsonl; .* build-corpus"):
    corpus_build.find_lines(str(path))


def write(path, content):
  """Writes str or bytes, compressed by the suffix; returns the path."""
  data = content.encode() if isinstance(content, str) else content
  openers = {".gz": gzip.open, ".bz2": bz2.open}
  with openers.get(path.suffix, open)(path, "wb") as writer:
    writer.write(data)
  return str(path)


def read_input(path, plain_format="text", **settings):
  """Detects a file's format; returns its texts."""
  config = text_config.TextConfig(**settings)
  (source,) = corpus_build.find_files(path, config, plain_format)
  return list(corpus_build.read_documents(source, config))


ROWS = [{"id": 1, "text": "One.\nTwo."}, {"id": 2, "text": None}]


def parquet_bytes(table):
  sink = pa.BufferOutputStream()
  pq.write_table(table, sink, row_group_size=1)
  return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "wiki_00"])
def test_rows_of_json_lines(name, suffix, tmp_path):
  rows = "".join(json.dumps(row) + "\n" for row in ROWS)
  assert read_input(write(tmp_path / f"{name}{suffix}", rows)) == [
    "One.\nTwo.",
    "",
  ]


@pytest.mark.parametrize("name", ["a.parquet", "a.parquet.gz", "a.bz2", "data"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_rows_of_parquet(name, kind, tmp_path):
  texts = [f"Text {i}." for i in range(1000)]
  column = pa.array([*texts, None], kind)
  table = pa.table({"id": range(1001), "body": column})
  path = write(tmp_path / name, parquet_bytes(table))
  assert read_input(path, text_column="body") == [*texts, ""]


TEXT = "\ufeffA line\nand one.\r\n \nNew\nparagraph.\n\n\n今天下\n雨。\n"


@pytest.mark.parametrize(
  ("documents", "expected"),
  [
    ("blank_line", ["A line and one.", "New paragraph.", "今天下雨。"]),
    ("file", ["A line and one.\nNew paragraph.\n今天下雨。"]),
    ("line", "A line|and one.|New|paragraph.|今天下|雨。".split("|")),
  ],
)
def test_documents_of_running_text(documents, expected, tmp_path):
  path = write(tmp_path / "a.txt.bz2", TEXT)
  assert read_input(path, documents=documents) == expected


def test_a_long_text_is_cut_between_paragraphs(tmp_path, monkeypatch):
  monkeypatch.setattr(corpus_build, "_MAX_DOCUMENT_CHARS", 50)
  paragraphs = [f"Paragraph {n} of twenty." for n in range(20)]
  path = write(tmp_path / "a.txt", "\n\n".join(paragraphs))
  texts = read_input(path, documents="file")
  assert "\n".join(texts).split("\n") == paragraphs
  assert len(texts) == 10
  path = write(tmp_path / "b.txt", "\n".join(paragraphs))
  assert len(read_input(path, documents="file")) == 7


@pytest.mark.parametrize(
  ("name", "text", "settings", "expected"),
  [
    ("a.txt", "1.\n2.\n\n3.", {"plain_format": "lines"}, ["1.\n2.", "3."]),
    ("a.txt", "1.\n2.\n\n3.", {}, ["1. 2.", "3."]),
    ("a.txt", "{no: json}\n", {}, ["{no: json}"]),
    ("a.jsonl", "{no: json}\n", {"input_format": "lines"}, ["{no: json}"]),
    ("a.xml", "<p>One.</p>", {"input_format": "text"}, ["<p>One.</p>"]),
  ],
)
def test_a_format_is_given_or_found_or_the_plain_one(
  tmp_path, name, text, settings, expected
):
  assert read_input(write(tmp_path / name, text), **settings) == expected


FAULTS = {
  "a compressed file cut off": (
    "a.txt.bz2",
    bz2.compress(TEXT.encode())[:-5],
    "a.txt.bz2: not a whole .bz2 file",
  ),
  "a dump of Wikipedia": ("dump", "<mediawiki>\n", "dump is XML"),
  "a row of JSON without the column": (
    "a.jsonl",
    '{"text": "a"}\n{"body": "a", "id": 1}\n',
    "a.jsonl:2: .*column 'text' .*`text_column`.*body, id",
  ),
  "a row of a number": (
    "a.jsonl",
    '{"text": 5}\n',
    "a.jsonl:1: 5 .*text",
  ),
  "a row that is not JSON": ("a.jsonl", '{"text": "a"\n', "a.jsonl:1: .*JSON"),
  "Parquet without the column": (
    "a.parquet",
    parquet_bytes(pa.table({"id": [1], "body": ["a"]})),
    "a.parquet has .*column 'text' .*`text_column`.*id, body",
  ),
  "Parquet of numbers": (
    "a.parquet",
    parquet_bytes(pa.table({"id": [1], "text": [2], "title": ["a"]})),
    "a.parquet:1: 2 .*text",
  ),
  "Parquet cut off": (
    "a.parquet",
    parquet_bytes(pa.table({"text": ["a"]}))[:-20],
    "a.parquet is truncated .*Parquet",
  ),
  "Latin-1": (
    "a.txt",
    "Ein Haus.\nEine Tür.\n".encode("latin-1"),
    "a.txt:2: not UTF-8",
  ),
  "WikiExtractor's output": ("wiki_00", "<doc id=1>\n", "wiki_00 is XML"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_file_gives_a_one_line_error_with_its_place(name, tmp_path):
  file, content, message = FAULTS[name]
  path = tmp_path / file
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  with pytest.raises(ValueError, match=message) as error:
    read_input(str(path))
  assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_missing_package_is_reported_before_reading(monkeypatch):
  monkeypatch.setitem(sys.modules, "pyarrow", None)
  with pytest.raises(ImportError, match=r"pip install .*\[parquet\]"):
    corpus_build.check_reading([corpus_build.InputFile("a", "parquet")])
  corpus_build.check_reading([corpus_build.InputFile("a", "jsonl")])
