"""`bert-tf build-corpus`, and its sources in `create_pretraining_data.py`."""

import gzip
import json
import os
import pathlib
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bert_tf.text import corpus

VOCAB = (
  pathlib.Path(__file__).parents[1] / "golden" / "pretraining" / "vocab.txt"
)
# Words of that vocabulary.
PAGE = "The old boat was at sea. It was night, no. %d.\n\nA storm!"


def write_lines(folder):
  text = "".join(f"one {n}\ntwo\n\n" for n in range(300))
  (folder / "in.txt").write_text(text)


def write_rows(folder, num_pages=40):
  pages = [PAGE % n for n in range(num_pages)]
  pages[7] = ""
  with gzip.open(folder / "rows.jsonl.gz", "wt") as writer:
    writer.writelines(json.dumps({"text": text}) + "\n" for text in pages)


def read(*paths):
  return list(corpus.read_documents(list(map(str, paths))))


def test_both_sides_of_lines(tmp_path, run_script):
  write_lines(tmp_path)
  result = run_script(
    "build-corpus",
    "--input_file=in.txt",
    "--input_format=lines",
    "--output_file=train.txt",
    "--eval_output_file=eval.txt.gz",
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  sides = [read(tmp_path / name) for name in ("train.txt", "eval.txt.gz")]
  assert sorted(sides[0] + sides[1]) == sorted(
    [f"one {n}", "two"] for n in range(300)
  )
  assert 10 <= len(sides[1]) <= 55  # A tenth, within five standard deviations.
  assert "Wrote train.txt, eval.txt.gz" in result.stderr


def test_rows_become_a_corpus_and_a_report(tmp_path, run_script):
  write_rows(tmp_path)
  result = run_script(
    "build-corpus",
    "--input_file=rows.jsonl.gz",
    "--output_file=out/wiki.txt.gz",
    "--num_workers=2",
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  assert read(tmp_path / "out/wiki.txt.gz") == [
    ["The old boat was at sea.", f"It was night, no. {n}.", "A storm!"]
    for n in range(40)
    if n != 7
  ]
  report = json.loads((tmp_path / "out/wiki.txt.gz.report.json").read_text())
  assert report["counts"]["documents"] == 39
  assert report["language"] == "en"
  for line in ("documents +39", "sentences +117"):
    assert re.search(rf"\d\d {line}\n", result.stderr), result.stderr
  assert sorted(os.listdir(tmp_path / "out")) == [
    "wiki.txt.gz",
    "wiki.txt.gz.report.json",
  ]


FAULTS = {
  "--input_file=no.txt": "no.txt matches no file",
  "--input_file=cut.jsonl.gz ": "cut.jsonl.gz: not a whole .gz file",
  "--input_file=a.parquet": "a.parquet has no column 'text' (--text_column). "
  "Its columns: id, body.",
  "--input_file=in.txt --eval_fraction=2": "--eval_fraction=2",
}


@pytest.mark.parametrize("flags", FAULTS)
def test_a_mistake_prints_a_line_and_writes_nothing(
  flags, tmp_path, run_script
):
  write_lines(tmp_path)
  write_rows(tmp_path)
  rows = (tmp_path / "rows.jsonl.gz").read_bytes()
  (tmp_path / "cut.jsonl.gz").write_bytes(rows[:-20])
  table = pa.table({"id": [1], "body": ["a"]})
  pq.write_table(table, tmp_path / "a.parquet")
  before = sorted(os.listdir(tmp_path))
  result = run_script(
    "build-corpus", *flags.split(), "--output_file=o.txt", cwd=tmp_path
  )
  assert result.returncode == 1
  (line,) = result.stderr.splitlines()
  assert line.startswith("bert-tf build-corpus: error: ")
  assert FAULTS[flags] in line
  assert sorted(os.listdir(tmp_path)) == before
