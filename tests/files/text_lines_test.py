"""Text files: byte order marks, other encodings, compression, damage."""

import bz2
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
  return list(tables.read(table, lambda line, row: (line, dict(row))))


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
  ("content", "part"),
  [
    (gzip.compress(b"a\n"), "gzip"),
    (b"PK\x03\x04\n\xffxl/workbook.xml", "Excel"),
    (b"PAR1\x15\xff", "Parquet"),
    ("abc\ncafé\n".encode("cp1252"), "a.txt:2: not UTF-8"),
    ("abc\ncafé\n".encode("utf-16"), "a.txt:1: not UTF-8"),
  ],
)
def test_what_is_not_text_is_named(tmp_path, content, part):
  path = tmp_path / "a.txt"
  path.write_bytes(content)
  with pytest.raises(ValueError, match=f"{tmp_path}/.*{part}"):
    list(text_lines.read_lines(str(path)))


CONTENT = b"one\ntwo\n" * 1000
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".txt": bytes}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_the_suffix_decides_on_decompression(suffix, tmp_path):
  path, compress = tmp_path / f"a{suffix}", COMPRESS[suffix]
  # Of two streams; Wikipedia's multistream dumps have many.
  path.write_bytes(compress(CONTENT[:6]) + compress(CONTENT[6:]))
  with text_lines.open_decompressed(str(path)) as reader:
    assert reader.readline() == b"one\n"
    assert reader.read() == CONTENT[4:]


@pytest.mark.parametrize("suffix", [".gz", ".bz2"])
@pytest.mark.parametrize("damage", [lambda c: c[:-9], lambda c: b"no" + c])
def test_a_damaged_compressed_file_is_named(suffix, damage, tmp_path):
  path = tmp_path / f"a{suffix}"
  path.write_bytes(damage(COMPRESS[suffix](CONTENT)))
  with pytest.raises(ValueError, match=str(path)):
    list(text_lines.read_lines(str(path)))
