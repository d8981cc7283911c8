"""A byte order mark at the head of a text file is dropped, and said once."""

import gzip
import json

import pytest

from bert_tf import modeling, tokenization
from bert_tf.corpora import corpus
from bert_tf.files import text_lines
from bert_tf.formats import label_map, tables
from bert_tf.tasks.ner import examples as ner_examples
from bert_tf.tasks.squad import examples as squad_examples
from tests.support import runs

MARK = b"\xef\xbb\xbf"
LABELS = {"task_name": "t", "problem_type": "classification", "labels": ["a"]}


def rows(path, file_format):
  table = tables.Table(path, file_format, ["text", "label"], "own data")
  return tables.read(table, lambda line, row: (line, dict(row)))


def shard_documents(path):
  [shard] = corpus.plan_shards([path], 1)
  found = list(corpus.shard_documents(shard))
  assert len(found) == shard.num_documents
  return found


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
  "label_map": (json.dumps(LABELS), label_map.read),
}


@pytest.mark.parametrize("kind", READERS)
def test_files_with_a_mark_are_read_as_those_without(tmp_path, kind):
  content, read = READERS[kind]
  found = []
  for mark in (b"", MARK):
    folder = tmp_path / f"with{mark.hex()}"
    folder.mkdir()
    path = folder / (label_map.FILE if kind == "label_map" else kind)
    data = mark + content.encode()
    if kind == "gz":
      path, data = folder / "text.gz", gzip.compress(data)
    path.write_bytes(data)
    with runs.logged() as lines:
      for _ in range(2):
        found.append(read(str(folder if kind == "label_map" else path)))
    assert lines().count("byte order mark") == len(mark) // 3
  assert found[0]
  assert found == [found[0]] * 4


def test_a_mark_elsewhere_is_text(tmp_path):
  path = tmp_path / "text"
  path.write_bytes(b"a\n" + MARK + b"b\n")
  assert list(text_lines.read_lines(str(path))) == ["a", "\ufeffb"]
