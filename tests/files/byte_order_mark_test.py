"""Text files that are not plain UTF-8: byte order marks, UTF-16, UTF-32."""

import gzip
import json

import pytest

from bert_tf import modeling, tokenization
from bert_tf.files import json_files, tables, text_lines
from bert_tf.text import corpus
from tests.support import runs

MARK = b"\xef\xbb\xbf"


def rows(path):
  table = tables.Table(path, "csv", ["text", "label"])
  return tables.read(table, lambda line, row: (line, dict(row)))


def shard_documents(path):
  [shard] = corpus.plan_shards([path], 1)
  documents = list(corpus.read_shard(shard))
  assert len(documents) == shard.num_documents
  return documents


READERS = {
  "vocab": ("[PAD]\n[UNK]\nthe\n", tokenization.load_vocab),
  "csv": ('"text",label\n"a\nb",x\n', rows),
  "shards": ("\n\na\n\nb\n", shard_documents),
  "text.gz": ("a\n\nb\n", shard_documents),
  "squad": (json.dumps({"data": []}), json_files.read),
  "config": (
    json.dumps(runs.CONFIG),
    lambda path: vars(modeling.BertConfig.from_json_file(path)),
  ),
}


@pytest.mark.parametrize("name", READERS)
def test_files_with_and_without_a_mark_have_the_same_content(tmp_path, name):
  content, read = READERS[name]
  compress = gzip.compress if name.endswith(".gz") else bytes
  path = tmp_path / name
  path.write_bytes(compress(content.encode()))
  expected = read(str(path))
  path.write_bytes(compress(MARK + content.encode()))
  assert expected and read(str(path)) == expected


def test_a_mark_inside_a_file_is_text(tmp_path):
  path = tmp_path / "text"
  path.write_bytes(b"a\n" + MARK + b"b\n")
  assert list(text_lines.read_lines(str(path))) == ["a", "\ufeffb"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le"])
@pytest.mark.parametrize("kind", ["squad", "config"])
def test_json_may_be_utf_16(tmp_path, kind, encoding):
  content, read = READERS[kind]
  path = tmp_path / "a.json"
  path.write_text(content)
  expected = read(str(path))
  path.write_bytes(content.encode(encoding))
  assert read(str(path)) == expected


@pytest.mark.parametrize(
  ("content", "form"),
  [
    (gzip.compress(b"a\n"), "gzip"),
    (b"PK\x03\x04\n\xffxl/workbook.xml", "Excel"),
    (b"PAR1\x15\xff", "Parquet"),
  ],
  ids=["gzip", "Excel", "Parquet"],
)
def test_what_is_not_text_is_named(tmp_path, content, form):
  path = tmp_path / "a.txt"
  path.write_bytes(content)
  with pytest.raises(ValueError, match=f"{path} .*{form}"):
    list(text_lines.read_lines(str(path)))


@pytest.mark.parametrize(
  ("encoding", "line"), [("cp1252", 2), ("utf-16", 1), ("utf-32", 1)]
)
def test_the_line_that_is_not_utf8_is_named(tmp_path, encoding, line):
  path = tmp_path / "latin.txt"
  path.write_bytes("abc\ncafé\n".encode(encoding))
  with pytest.raises(ValueError, match=f"latin.txt:{line}: not UTF-8"):
    list(text_lines.read_lines(str(path)))
