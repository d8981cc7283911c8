"""Text files that are not plain UTF-8: byte order marks, UTF-16, UTF-32."""

import gzip
import json

import pytest

from bert_tf import modeling, tokenization
from bert_tf.corpora import corpus
from bert_tf.files import text_lines
from bert_tf.formats import tables
from bert_tf.model_folder import run_info
from bert_tf.tasks.ner import examples as ner_examples
from bert_tf.tasks.squad import examples as squad_examples
from tests.support import runs

MARK = b"\xef\xbb\xbf"
LABELS = {"task_name": "t", "problem_type": "classification", "labels": ["a"]}


def rows(path, file_format):
  table = tables.Table(path, file_format, ["text", "label"])
  return tables.read(table, lambda line, row: (line, dict(row)))


def shard_documents(path):
  [shard] = corpus.plan_shards([path], 1)
  documents = list(corpus.shard_documents(shard))
  assert len(documents) == shard.num_documents
  return documents


READERS = {
  "vocab": ("[PAD]\n[UNK]\nthe\n", tokenization.load_vocab),
  "tsv": ("text\tlabel\na\tx\n", lambda path: rows(path, "tsv")),
  "csv": ('"text",label\n"a\nb",x\n', lambda path: rows(path, "csv")),
  "jsonl": ('{"text": "a", "label": "x"}\n', lambda path: rows(path, "jsonl")),
  "documents": ("a\n\nb\n", lambda path: list(corpus.documents([path]))),
  "shards": ("a\n\nb\n", shard_documents),
  "blank": ("\n\na\n\n", shard_documents),
  "gz": ("a\n\nb\n", shard_documents),
  "conll": (
    "EU B-ORG\nx O\n",
    lambda path: ner_examples.read_sentences(path, ner_examples.FileFormat()),
  ),
  "squad": (json.dumps({"data": []}), squad_examples.read_json),
  "config": (
    json.dumps(runs.CONFIG),
    lambda path: vars(modeling.BertConfig.from_json_file(path)),
  ),
  "label_map": (json.dumps(LABELS), run_info.read_labels),
}


JSON_KINDS = ("squad", "config")


@pytest.mark.parametrize("kind", READERS)
def test_files_with_and_without_a_mark_have_the_same_content(tmp_path, kind):
  content, read = READERS[kind]
  results = []
  for mark in (b"", MARK):
    folder = tmp_path / f"with{mark.hex()}"
    folder.mkdir()
    path = folder / (run_info.LABEL_MAP_FILE if kind == "label_map" else kind)
    data = mark + content.encode()
    if kind == "gz":
      path, data = folder / "text.gz", gzip.compress(data)
    path.write_bytes(data)
    results.append(read(str(folder if kind == "label_map" else path)))
  assert results[0] and results[0] == results[1]


def test_a_mark_inside_a_file_is_text(tmp_path):
  path = tmp_path / "text"
  path.write_bytes(b"a\n" + MARK + b"b\n")
  assert list(text_lines.read_lines(str(path))) == ["a", "\ufeffb"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le"])
@pytest.mark.parametrize("kind", JSON_KINDS)
def test_json_may_be_utf_16(tmp_path, kind, encoding):
  content, read = READERS[kind]
  path = tmp_path / "a.json"
  path.write_text(content)
  expected = read(str(path))
  path.write_bytes(content.encode(encoding))
  assert read(str(path)) == expected


@pytest.mark.parametrize(
  ("encoding", "line"), [("cp1252", 2), ("utf-16", 1), ("utf-32", 1)]
)
def test_the_line_that_is_not_utf8_is_named(tmp_path, encoding, line):
  path = tmp_path / "latin.txt"
  path.write_bytes("abc\ncafé\n".encode(encoding))
  with pytest.raises(ValueError, match=f"latin.txt:{line}: not UTF-8"):
    list(text_lines.read_lines(str(path)))


def test_zero_bytes_in_utf8_are_text(tmp_path):
  path = tmp_path / "crashed.txt"
  path.write_bytes(b"a sentence .\nx\0\0\0\0 y\n" + b"\0" * 512)
  lines = text_lines.read_lines(str(path))
  assert [len(line) for line in lines] == [12, 7, 512]
