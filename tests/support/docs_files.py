"""Small versions of the files that commands in the documentation name."""

import csv
import gzip
import json
import pathlib
import random
import re
import shutil

import keras
import pyarrow as pa
from pyarrow import parquet

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.model import heads
from tests.support import checkout

TINY = checkout.ROOT / "tests" / "golden" / "tiny"
WORDS = "the of and in to was he is as for on with that it his by".split()


def write_all(folder: pathlib.Path) -> None:
  """Writes texts, data sets and a model folder."""
  rng = random.Random(1)

  def sentence(num_words: int = 8) -> str:
    return " ".join(rng.choices(WORDS, k=num_words))

  _write_texts(folder, rng)
  write_glue(folder / "GLUE", sentence)
  _write_csv(
    folder / "reviews",
    ["review", "stars"],
    lambda i: [sentence(), ("one", "five")[i % 2]],
  )
  _write_conll(folder / "conll2003", rng)
  _write_swag(folder / "swag", sentence, rng)
  _write_tags(folder / "tags", sentence)
  write_squad(folder, sentence)
  names = ("examples/reviews.csv", "examples/tag_words.py")
  for name in (f"docs/{name}" for name in names):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(checkout.ROOT / name, folder / name)
  write_model(folder / "minilm")
  stars = heads.ClassifierModel.from_pretrained(folder / "minilm", num_labels=2)
  stars.save_pretrained(folder / "stars", labels=["five", "one"])
  for name in ("uncased_L-12_H-768_A-12", "quickstart"):
    shutil.copytree(folder / "minilm", folder / name)
  for name in ("bert_config.json", "no_dropout.json", "dropout.json"):
    shutil.copy(folder / "minilm" / "bert_config.json", folder / name)
  _write_sources(folder, rng)


def _write_texts(folder, rng):
  """Writes files of ten documents with words for 500 vocabulary entries."""
  (folder / "text").mkdir()
  names = ["text/a.txt", "text/b.txt", "held_out.txt", "in.txt"]
  for path in (*names, "novels.txt", "wiki.txt"):
    documents = [[_syllables(rng) for _ in range(8)] for _ in range(10)]
    text = "\n\n".join("\n".join(d) for d in documents) + "\n"
    (folder / path).write_text(text)


def _syllables(rng):
  return " ".join("".join(rng.choices("abcdefgh", k=3)) for _ in range(8))


def _write_sources(folder, rng):
  """Writes the corpora of docs/corpora.md in their formats."""

  def text():
    return " ".join(f"{_syllables(rng)}.".capitalize() for _ in range(8))

  for name in ("books", "wikipedia", "extracted/AA"):
    (folder / name).mkdir(parents=True)
  table = pa.table({"title": ["P"] * 90, "text": [text() for _ in range(90)]})
  parquet.write_table(
    table, folder / "wikipedia" / "train-00000-of-00001.parquet"
  )
  for title in ("emma", "persuasion", "northanger_abbey"):
    book = "\n\n".join(text() for _ in range(8))
    (folder / "books" / f"{title}.txt").write_text(book)
  with gzip.open(folder / "web.jsonl.gz", "wt") as writer:
    for _ in range(30):
      writer.write(json.dumps({"content": text()}) + "\n")
  rows = [json.dumps({"title": "P", "text": text()}) for _ in range(30)]
  (folder / "extracted" / "AA" / "wiki_00").write_text("\n".join(rows))


def write_glue(folder, sentence):
  header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
  mrpc = [f"{i % 2}\t1\t2\t{sentence()}\t{sentence()}" for i in range(12)]
  write_tsv(folder / "MRPC", header, mrpc)
  rte = [
    f"{i}\t{sentence()}\t{sentence()}\t{'not_' * (i % 2)}entailment"
    for i in range(12)
  ]
  write_tsv(folder / "RTE", "index\tsentence1\tsentence2\tlabel", rte)
  header_stsb = "sentence1\tsentence2\tscore"
  stsb = [f"{sentence()}\t{sentence()}\t{i % 6}" for i in range(12)]
  write_tsv(folder / "STS-B", header_stsb, stsb)
  sst2 = [f"{sentence()}\t{i % 2}" for i in range(12)]
  write_tsv(folder / "SST-2", "sentence\tlabel", sst2)


def write_tsv(folder, header, rows):
  folder.mkdir(parents=True)
  for split in ("train", "dev", "test"):
    (folder / f"{split}.tsv").write_text("\n".join([header, *rows]) + "\n")


def _write_csv(folder, header, make_row, splits=("train", "dev", "test")):
  folder.mkdir()
  for split in splits:
    with (folder / f"{split}.csv").open("w", newline="") as file:
      csv.writer(file).writerows([header, *map(make_row, range(12))])


def _write_conll(folder, rng):
  folder.mkdir()
  for name in ("eng.train", "eng.testa", "eng.testb"):
    lines = ["-DOCSTART- -X- O O", ""]
    for _ in range(12):
      words = rng.choices(WORDS, k=6)
      lines += [f"{w} NN O {'B-PER' if w == 'he' else 'O'}" for w in words]
      lines += [""]
    (folder / name).write_text("\n".join(lines))


def _write_tags(folder, sentence):
  folder.mkdir()
  for split in ("train", "dev", "test"):
    with (folder / f"{split}.jsonl").open("w") as file:
      for text in (sentence() for _ in range(32)):
        label = [["person", "male"] if w == "he" else [] for w in text.split()]
        file.write(json.dumps({"text": text, "label": label}) + "\n")


def _write_swag(folder, sentence, rng):
  columns = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2"]
  columns += ["gold-source", "ending0", "ending1", "ending2", "ending3"]

  def make_row(i):
    endings = [sentence(3) for _ in range(4)]
    row = [i, "v", i, sentence(), sentence(), "he", "gold", *endings]
    return [*row, rng.randrange(4)]

  _write_csv(folder, [*columns, "label"], make_row, ("train", "val", "test"))


def write_squad(folder, sentence):
  for split in ("train", "dev"):
    paragraphs = []
    for i in range(8):
      text = f"{sentence()} his {sentence()}"
      answer = {"text": "his", "answer_start": text.find("his")}
      question = {"id": f"q{i}", "question": "to", "answers": [answer]}
      paragraphs.append({"context": text, "qas": [question]})
    content = {"version": "1.1", "data": [{"paragraphs": paragraphs}]}
    for end in ("", "-40articles-exact", "-8articles"):
      path = folder / f"{split}-v1.1{end}.json"
      path.write_text(json.dumps(content))


def write_model(folder, num_hidden_layers=1, hidden_size=16):
  """Writes a model folder like those in the released archives."""
  folder.mkdir()
  words = (TINY / "vocab.txt").read_text()
  # Replaces word pieces that do not occur in the texts.
  words = re.sub(r"^##\w+$", "[unusedN]", words, count=3, flags=re.MULTILINE)
  for number in range(3):
    words = words.replace("[unusedN]", f"[unused{number}]", 1)
  (folder / "vocab.txt").write_text(words)
  config = modeling.BertConfig(
    vocab_size=len(words.splitlines()),
    hidden_size=hidden_size,
    num_hidden_layers=num_hidden_layers,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=512,
  )
  (folder / "bert_config.json").write_text(config.to_json_string())
  keras.utils.set_random_seed(1)
  model = heads.PretrainingModel(config)
  values = {v.path: v.numpy() for v in model.weights if "seed" not in v.path}
  checkpoints.write(str(folder / "bert_model.ckpt"), values)
