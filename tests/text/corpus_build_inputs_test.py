"""The documents of each format, and the errors of damaged files."""

import bz2
import gzip
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bert_tf.text import corpus_build, text_config


def write(path, content):
  """Writes str or bytes, compressed by the suffix; returns the path."""
  data = content.encode() if isinstance(content, str) else content
  openers = {".gz": gzip.open, ".bz2": bz2.open}
  with openers.get(path.suffix, open)(path, "wb") as writer:
    writer.write(data)
  return str(path)


def read(path, plain_format="text", **settings):
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
  assert read(write(tmp_path / f"{name}{suffix}", rows)) == ["One.\nTwo.", ""]


@pytest.mark.parametrize("name", ["a.parquet", "a.parquet.gz", "a.bz2", "data"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_rows_of_parquet(name, kind, tmp_path):
  texts = [f"Text {i}." for i in range(1000)]
  column = pa.array([*texts, None], kind)
  table = pa.table({"id": range(1001), "body": column})
  path = write(tmp_path / name, parquet_bytes(table))
  assert read(path, text_column="body") == [*texts, ""]


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
  assert read(path, documents=documents) == expected


def test_a_long_text_is_cut_between_paragraphs(tmp_path, monkeypatch):
  monkeypatch.setattr(corpus_build, "_MAX_DOCUMENT_CHARS", 50)
  paragraphs = [f"Paragraph {n} of twenty." for n in range(20)]
  path = write(tmp_path / "a.txt", "\n\n".join(paragraphs))
  texts = read(path, documents="file")
  assert "\n".join(texts).split("\n") == paragraphs
  assert len(texts) == 10
  path = write(tmp_path / "b.txt", "\n".join(paragraphs))
  assert len(read(path, documents="file")) == 7


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
  assert read(write(tmp_path / name, text), **settings) == expected


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
    read(str(path))
  assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_missing_package_is_reported_before_reading(monkeypatch):
  monkeypatch.setitem(sys.modules, "pyarrow", None)
  with pytest.raises(ImportError, match=r"pip install .*\[parquet\]"):
    corpus_build.check_reading([corpus_build.InputFile("a", "parquet")])
  corpus_build.check_reading([corpus_build.InputFile("a", "jsonl")])
