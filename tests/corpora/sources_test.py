"""The documents of each format, and the errors of damaged files."""

import bz2
import collections
import gc
import gzip
import itertools
import json
import re
import sys
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bert_tf.corpora import sources, text_config
from tests.support import runs, wikipedia


def write(path, content):
  """Writes str or bytes, compressed by the suffix; returns the path."""
  data = content.encode() if isinstance(content, str) else content
  openers = {".gz": gzip.open, ".bz2": bz2.open}
  with openers.get(path.suffix, open)(path, "wb") as writer:
    writer.write(data)
  return str(path)


def read(path, plain_format="text", **settings):
  """Detects a file's format; returns its texts and counts."""
  config = text_config.TextConfig(**settings)
  (source,) = sources.find_files(path, config, plain_format)
  counts = collections.Counter()
  texts = [d.text for d in sources.read(source, config, counts)]
  return texts, counts


PAGES = [
  wikipedia.page(1, "Haus", "Ein '''Haus''' ist & bleibt < hier."),
  wikipedia.page(2, "Heim", "#WEITERLEITUNG [[Haus]]", redirect="Haus"),
  wikipedia.page(3, "Diskussion:Haus", "Ja.", namespace=1),
  wikipedia.page(4, "Leer", ""),
  wikipedia.page(5, "Tür", "Eine Tür."),
]
ROWS = [{"id": 1, "text": "One.\nTwo."}, {"id": 2, "text": None}]
EXTRACTED = """<doc id="1" url="u" title="A &amp; B">
A &amp; B

First one.
Second &lt;one&gt;.
</doc>
<doc id="2" url="u" title="C">
C
</doc>
"""


def parquet_bytes(table):
  sink = pa.BufferOutputStream()
  pq.write_table(table, sink, row_group_size=1)
  return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
@pytest.mark.parametrize("name", ["dump.xml", "dump"])
def test_articles_of_a_dump(name, suffix, tmp_path):
  path = write(tmp_path / f"{name}{suffix}", wikipedia.dump(PAGES))
  texts, counts = read(path)
  assert texts == ["Ein '''Haus''' ist & bleibt < hier.", "Eine Tür."]
  assert counts == {"pages_passed_over": 2, "blank": 1, "documents_read": 3}


def test_the_last_revision_of_a_page_is_used(tmp_path):
  old = wikipedia.page(1, "A", "Old.").partition("  </page>")[0]
  new = wikipedia.page(1, "A", "New.").partition("<revision>")[2]
  text = wikipedia.dump([old + "<revision>" + new])
  assert read(write(tmp_path / "a.xml", text))[0] == ["New."]


def test_namespaces_of_old_dumps_are_those_of_the_titles(tmp_path):
  titles = ("Haus: Bau", "Kategorie:Haus", "Haus")
  pages = [wikipedia.page(n, title, title) for n, title in enumerate(titles)]
  text = wikipedia.dump(pages).replace("<ns>0</ns>", "")
  texts, counts = read(write(tmp_path / "a.xml", text))
  assert texts == ["Haus: Bau", "Haus"]
  assert counts["pages_passed_over"] == 1


def test_the_texts_of_other_slots_and_unknown_elements_are_skipped(tmp_path):
  content = "<content><role>x</role><text>Other.</text></content><new/>"
  page = wikipedia.page(1, "A", "Main.").replace("<sha1>", content + "<sha1>")
  deleted = re.sub(
    "<text bytes.*?</text>", "<text deleted='deleted' />", page, flags=re.DOTALL
  )
  page += deleted + wikipedia.page(3, "C", "").partition("<rev")[0] + "</page>"
  texts, counts = read(write(tmp_path / "a.xml", wikipedia.dump([page])))
  assert texts == ["Main."]
  assert counts == {"documents_read": 3, "blank": 2}


def test_a_dump_names_its_files_and_categories(tmp_path):
  path = write(tmp_path / "a.xml", wikipedia.dump(PAGES))
  documents = sources.read(
    sources.InputFile(path, "dump"),
    text_config.TextConfig(),
    collections.Counter(),
  )
  names = ("category", "datei", "file", "image", "kategorie")
  assert {document.hidden_namespaces for document in documents} == {names}


@pytest.mark.parametrize("language", ["en", "de", "de-AT"])
def test_a_warning_names_the_dumps_language_if_it_differs(language, tmp_path):
  path = write(tmp_path / "a.xml", wikipedia.dump(PAGES))
  with runs.logged() as log:
    read(path, language=language)
  assert ("`language=de`" in log()) == (language == "en")


def test_a_dump_is_read_as_a_stream(tmp_path):
  pages = [wikipedia.page(n, f"P{n}", f"Text {n}.") for n in range(300)]
  path = write(tmp_path / "a.xml", wikipedia.dump(pages))
  source = sources.InputFile(path, "dump")
  config = text_config.TextConfig()
  documents = sources.read(source, config, collections.Counter())
  assert len(list(itertools.islice(documents, 300))) == 300
  # The reader is behind the last page.
  num_elements = sum(
    isinstance(o, ElementTree.Element) for o in gc.get_objects()
  )
  assert num_elements < 100
  assert not list(documents)


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "wiki_00"])
def test_rows_of_json_lines(name, suffix, tmp_path):
  rows = "".join(json.dumps(row) + "\n" for row in ROWS)
  texts, counts = read(write(tmp_path / f"{name}{suffix}", rows))
  assert texts == ["One.\nTwo."]
  assert counts == {"documents_read": 2, "blank": 1}


@pytest.mark.parametrize("name", ["a.parquet", "a.parquet.gz", "a.bz2", "data"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_rows_of_parquet(name, kind, tmp_path):
  texts = [*(f"Text {i}." for i in range(1000)), None]
  table = pa.table({"id": range(1001), "body": pa.array(texts, kind)})
  path = write(tmp_path / name, parquet_bytes(table))
  documents, counts = read(path, text_column="body")
  assert documents == texts[:-1]
  assert counts["blank"] == 1


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
def test_articles_of_wikiextractor(suffix, tmp_path):
  texts, counts = read(write(tmp_path / f"wiki_00{suffix}", EXTRACTED))
  assert texts == ["First one.\nSecond <one>."]
  assert counts == {"documents_read": 2, "blank": 1}


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
  texts, counts = read(path, documents=documents)
  assert texts == expected
  assert counts == {"documents_read": len(expected)}


def test_a_long_text_is_cut_between_paragraphs(tmp_path, monkeypatch):
  monkeypatch.setattr(sources, "_MAX_DOCUMENT_CHARS", 50)
  paragraphs = [f"Paragraph {n} of twenty." for n in range(20)]
  path = write(tmp_path / "a.txt", "\n\n".join(paragraphs))
  texts, _ = read(path, documents="file")
  assert "\n".join(texts).split("\n") == paragraphs
  assert len(texts) == 10
  path = write(tmp_path / "b.txt", "\n".join(paragraphs))
  assert len(read(path, documents="file")[0]) == 7


def test_text_without_a_known_format_has_the_plain_format(tmp_path):
  path = write(tmp_path / "a.txt", "One.\nTwo.\n\nThree.")
  assert read(path, "lines")[0] == ["One.\nTwo.", "Three."]
  assert read(path, "text")[0] == ["One. Two.", "Three."]
  path = write(tmp_path / "b.txt", '{"no": json}\n')
  assert read(path, "lines")[0] == ['{"no": json}']
  assert read(path, "text", input_format="lines")[0] == ['{"no": json}']


BROKEN = wikipedia.dump(PAGES)[:-1000]
FAULTS = {
  "a dump cut off": (
    "a.xml",
    BROKEN,
    "a.xml.*'Diskussion:Haus'",
  ),
  "a compressed dump cut off": (
    "a.xml.bz2",
    bz2.compress(wikipedia.dump(PAGES).encode())[:-30],
    "a.xml.bz2: not a whole bzip2 file",
  ),
  "no bzip2": ("a.bz2", b"BZh9 no", "a.bz2: not a whole bzip2 file"),
  "another element": ("a.xml", "<html><p/></html>", "a.xml .*<html>"),
  "text as a dump": ("a.xml", "hello", "a.xml .*XML"),
  "text behind a dump": (
    "a.xml",
    wikipedia.dump(PAGES) + "<p/>",
    "a.xml .*'Tür'",
  ),
  # Each entity is ten of the one before: 100 MB of text.
  "a dump of entities of entities": (
    "a.xml",
    "<!DOCTYPE mediawiki [<!ENTITY e0 '0123456789'>"
    + "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10}'>" for n in range(1, 8))
    + "]>"
    + wikipedia.dump([wikipedia.page(1, "A", "?")]).replace("?", "&e7;"),
    "a.xml .*'A' .*amplification",
  ),
  "no siteinfo": ("a.xml", "<mediawiki><p/></mediawiki>", "a.xml .*XML"),
  "a row of JSON without the column": (
    "a.jsonl",
    '{"text": "a"}\n{"body": "a", "id": 1}\n',
    "a.jsonl:2: .*column text; .*body, id; .*`text_column`",
  ),
  "a row of a number": ("a.jsonl", '{"text": 5}\n', "a.jsonl:1: .* int"),
  "a row that is not JSON": ("a.jsonl", '{"text": "a"\n', "a.jsonl:1: .*JSON"),
  "Parquet without the column": (
    "a.parquet",
    parquet_bytes(pa.table({"id": [1], "body": ["a"]})),
    "a.parquet: .*column text; .*id, body. .*`text_column`",
  ),
  "Parquet of numbers": (
    "a.parquet",
    parquet_bytes(pa.table({"id": [1], "text": [2], "title": ["a"]})),
    "a.parquet: column text .*int64; columns of text: title.*`text_column`",
  ),
  "Parquet in Latin-1": (
    "a.parquet",
    parquet_bytes(
      pa.table({"text": pa.array([b"T\xfcr"]).cast(pa.string(), safe=False)})
    ),
    "column text is not UTF-8",
  ),
  "Parquet cut off": (
    "a.parquet",
    parquet_bytes(pa.table({"text": ["a"]}))[:-20],
    "a.parquet: .*Parquet",
  ),
  "Latin-1": (
    "a.txt",
    "Ein Haus.\nEine Tür.\n".encode("latin-1"),
    "a.txt:2: not UTF-8 .byte 6 of the line.*iconv -f",
  ),
  "Latin-1 in JSON": (
    "a.jsonl",
    '{"text": "Tür"}\n'.encode("latin-1"),
    "a.jsonl:1: not UTF-8",
  ),
  "a <doc> cut off": (
    "a",
    EXTRACTED[:-20],
    "a:7: .*<doc>",
  ),
  "text between <doc>s": ("a", EXTRACTED + "x\n", "a:10: .*<doc"),
  "a <doc> in a <doc>": (
    "a",
    EXTRACTED * 2 + "<doc >\n<doc >",
    "inside a <doc>",
  ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_file_gives_a_one_line_error_with_its_place(name, tmp_path):
  file, content, message = FAULTS[name]
  path = tmp_path / file
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  with pytest.raises(ValueError, match=message) as error:
    read(str(path))
  assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
  ("input_format", "package", "extra"),
  [
    ("dump", "mwparserfromhell", "corpus"),
    ("parquet", "pyarrow", "parquet"),
  ],
)
def test_a_missing_package_is_reported_before_reading(
  input_format, package, extra, monkeypatch
):
  monkeypatch.setitem(sys.modules, package, None)
  with pytest.raises(ImportError, match=rf"pip install .*\[{extra}\]"):
    sources.check_packages([sources.InputFile("a", input_format)])
  sources.check_packages([sources.InputFile("a", "jsonl")])
