"""Files in the columns of CoNLL: sentences, documents, schemes, faults."""

import gzip

import pytest

from bert_tf import tokenization
from bert_tf.tasks.ner import task as ner
from bert_tf.tasks.ner.config import NerConfig
from bert_tf.tasks.ner.examples import read_sentences, to_labels
from tests.support import runs, setups, tiny_models

# The shared task's own numbers (Tjong Kim Sang and De Meulder 2003, tables 1
# and 2): sentences as blank lines count them, that is with one for each
# -DOCSTART-; documents; words without these; entities.
CONLL_2003 = {
  "train": (14987, 946, 203621, 7140, 3438, 6321, 6600),
  "testa": (3466, 216, 51362, 1837, 922, 1341, 1842),
  "testb": (3684, 231, 46435, 1668, 702, 1661, 1617),
}
IOB2_NAMES = {"train": "train", "testa": "dev", "testb": "test"}


def make_task(folder, labels=None, **settings):
  tokenizer = tokenization.FullTokenizer(str(tiny_models.TINY / "vocab.txt"))
  settings = {"data_dir": str(folder), "train_file": "x.txt", **settings}
  return setups.make(NerConfig, tokenizer, 16, labels, **settings)


def read(folder, text, labels=None, **columns):
  """Returns the rows of a file, with tags of IOB2 or these labels."""
  path = folder / "x.txt"
  path.write_bytes(text.encode(errors="surrogateescape"))
  return make_task(folder, labels, **columns).read("train")


# The content of a file; the words and tags of its sentences.
FILES = {
  "the first and the last column": (
    # A sentence begins outside of entities, so I-PER is B-PER.
    "EU NNP I-NP B-ORG\nrejects\tVBZ \t I-VP\tO \r\n\n\nPeter X X I-PER",
    [("EU rejects", "B-ORG O"), ("Peter", "B-PER")],
  ),
  "an empty cell between tabs": (
    "EU\tNNP\tB-ORG\nsays\t\tO\n",
    [("EU says", "B-ORG O")],
  ),
  "aligned columns": (
    "EU\t\tB-ORG\nsays\tO\n",
    [("EU says", "B-ORG O")],
  ),
  "other white space": (
    "10\u00a0000 O\na\u2028b O\n\u3000 O\n",
    [("10\u00a0000 a\u2028b \u3000", "O O O")],
  ),
}


@pytest.mark.parametrize("name", FILES)
def test_words_and_tags_are_read(tmp_path, name):
  text, expected = FILES[name]
  rows = read(tmp_path, text)
  found = [(" ".join(r["words"]), " ".join(r["label"])) for r in rows]
  assert found == expected


@pytest.mark.parametrize("word", ["New York", "York"])
def test_written_predictions_are_read_back_unchanged(tmp_path, word):
  # A word has blanks in a line with tabs.
  sentences = read(tmp_path, f"-DOCSTART- (1)\tO\n\n {word}\tB-LOC\nis \tO\n")
  path = tmp_path / "predictions.txt"
  ner.write_conll(str(path), sentences, [("O", "B-LOC")])
  (predicted,) = read_sentences(str(path))
  assert (predicted["words"], predicted["document"]) == ([word, "is"], 1)
  assert predicted["label"] == ["O", "B-LOC"]
  separator = "\t" if " " in word else " "
  assert separator.join((word, "B-LOC", "O")) in path.read_text()


def test_columns_can_be_chosen(tmp_path):
  text = "1\tSchartau\tB-PER\tO\n2\tsagte\tO\tO\n"
  (sentence,) = read(tmp_path, text, word_column=1, tag_column=-2)
  assert sentence["words"] == ["Schartau", "sagte"]
  assert sentence["label"] == ["B-PER", "O"]


def test_only_test_files_may_lack_tags(tmp_path):
  (tmp_path / "test.txt").write_text("O\nPeter\n")
  (row,) = make_task(tmp_path).read("test")
  assert row["words"] == ["O", "Peter"] and "label" not in row
  with pytest.raises(ValueError, match="x.txt has no column of tags"):
    read(tmp_path, "O\nPeter\n")


def test_document_starts_end_sentences_and_are_counted(tmp_path):
  text = (
    "-DOCSTART- -X- O O\n\na x O\n-DOCSTART-\nb x O\n\nc x O\n\n"
    "-DOCSTART- -X-\n\nd x O\n"
  )
  names = ("words", "document", "line")
  sentences = [[s[name] for name in names] for s in read(tmp_path, text)]
  assert sentences == [
    [["a"], 1, 3],
    [["b"], 2, 5],
    [["c"], 2, 7],
    [["d"], 3, 11],
  ]


def test_a_byte_order_mark_and_compression_are_removed(tmp_path):
  path = tmp_path / "x.txt.gz"
  path.write_bytes(gzip.compress("\ufeffEU B-ORG\n".encode()))
  (sentence,) = read_sentences(str(path))
  assert (sentence["words"], sentence["label"]) == (["EU"], ["B-ORG"])


# Tags, the labels of a model, and those that the tags mean. Without labels,
# tags in IOB1 or IOB2 become IOB2.
CONVERSIONS = [
  ("O I-PER I-PER O", None, "O B-PER I-PER O"),
  ("I-PER B-PER I-PER", None, "B-PER B-PER I-PER"),
  ("I-PER I-LOC I-LOC", None, "B-PER B-LOC I-LOC"),
  ("I-PER O I-PER", None, "B-PER O B-PER"),
  ("B-PER I-PER B-PER", None, "B-PER I-PER B-PER"),
  ("I-A-B I-A-B I-A", None, "B-A-B I-A-B B-A"),
  ("O I I O I B", None, "O B I O B B"),
  ("O NNP S-X B- BPER", None, "O None None None None"),
  ("B-PER I-PER O", "O PER LOC", "PER PER O"),
  ("PER PER O LOC", "O PER LOC", "PER PER O LOC"),
  ("I-PER I-PER B-PER", "O I-PER", "I-PER I-PER I-PER"),
  ("PER PER LOC", "O B-PER I-PER B-LOC", "B-PER I-PER B-LOC"),
  ("INST INST", "O INST", "INST INST"),
  ("S-PER B-X E-X", "O S-PER B-X E-X", "S-PER B-X E-X"),
  ("O NNP B-X", "O B-PER I-PER", "O None None"),
]


@pytest.mark.parametrize(("tags", "labels", "expected"), CONVERSIONS)
def test_tags_of_all_schemes_are_labels_of_the_model(tags, labels, expected):
  found = to_labels(tags.split(), labels and labels.split())
  assert [*map(str, found)] == expected.split()


@pytest.mark.parametrize(
  ("text", "labels"),
  [
    ("a I-PER\nb O\nc B-LOC\nd O\n", ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")),
    ("a B\nb O\n", ("O", "B", "I")),
  ],
)
def test_labels_are_both_tags_of_every_type_in_order(tmp_path, text, labels):
  rows = read(tmp_path, text)
  assert make_task(tmp_path).infer(rows, "x.txt").labels.labels == labels


# A file, and a part of the error.
FAULTS = {
  "fewer columns": (
    "a X O\nb X O\n\nc O\n",
    "x.txt:4: 2 columns, but 3 before",
  ),
  "more columns": ("-DOCSTART-\n\na O\nb c O\n", "x.txt:4: 3 columns, but 2"),
  "no tag": ("a O\n\nc O\nb NNP\n", "x.txt:4: 'NNP'"),
  "no words": ("-DOCSTART- O\n\n \n", "x.txt holds no words"),
  "JSON lines": ('{"a": [1]}\n{"a": []}\n', "x.txt:1: '[1]}' is not a tag"),
  "not UTF-8": ("a O\n\udcff O\n", "x.txt:2: not UTF-8"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_file_and_line(tmp_path, fault):
  text, expected = FAULTS[fault]
  with pytest.raises(ValueError) as error:
    read(tmp_path, text)
  assert expected in str(error.value)


def test_an_unknown_tag_is_named_with_the_labels(tmp_path):
  with pytest.raises(ValueError, match="x.txt:4: .*'B-X'.* O, B-P, I-P"):
    read(tmp_path, "a O\n\na O\nb B-X\n", ("O", "B-P", "I-P"))


@pytest.mark.parametrize("column", [{"tag_column": 3}, {"word_column": -3}])
def test_a_missing_column_is_named(tmp_path, column):
  with pytest.raises(ValueError, match=f"x.txt:1: 2 columns.*{[*column][0]}"):
    read(tmp_path, "a O\n", **column)


@pytest.mark.parametrize("name", CONLL_2003)
def test_conll_2003_has_its_published_numbers(unpacked, name):
  folder = unpacked("conll2003")
  with runs.logged() as log:
    task = make_task(folder / "iob1_docstart", train_file=f"eng.{name}")
    sentences = task.read("train")
  assert not log()
  tags = [tag for sentence in sentences for tag in sentence["label"]]
  documents = sentences[-1]["document"]
  entities = (tags.count(f"B-{t}") for t in ("LOC", "MISC", "ORG", "PER"))
  numbers = (len(sentences) + documents, documents, len(tags), *entities)
  assert numbers == CONLL_2003[name]
  # A third-party conversion to IOB2, without documents.
  path = folder / "iob2" / f"{IOB2_NAMES[name]}.txt"
  other = read_sentences(str(path))
  assert [(s["words"], s["label"]) for s in other] == [
    (s["words"], s["label"]) for s in sentences
  ]
  assert {s["document"] for s in other} == {0}
