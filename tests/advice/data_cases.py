"""Advice about text, vocabularies and records."""

import gzip

import pyarrow as pa
import pyarrow.parquet

from bert_tf import tokenization
from bert_tf.corpora import (
  corpus_build,
  pydoc_corpus,
  sources,
  text_config,
)
from bert_tf.data import config as data_config
from bert_tf.data import (
  input_pipeline,
  length_schedule,
  masking,
  pretraining_beam,
  pretraining_records,
  pretraining_shards,
  vocabulary,
)
from bert_tf.files import shard_files
from bert_tf.formats import parquet, tables
from bert_tf.model_folder import letter_case
from tests.advice.following import Case, Warned
from tests.support import tiny_models

VOCAB_FILE = str(tiny_models.TINY / "vocab.txt")
WORDS = {"the": 5, "boat": 3, "boats": 2}
ROWS = {"text": ["one", "two"], "n": [1, 2]}


def text(world, name="text.txt", documents=8):
  words = ("sea", "boat", "storm", "wind", "light", "wave", "night", "fish")
  text = "".join(
    f"the {words[i % 8]} is old .\na boat is light .\n{i} .\n\n"
    for i in range(documents)
  )
  return world.write(name, text)


def check_case(world, do_lower_case=True):
  tokens = "[PAD] [UNK] [CLS] [SEP] [MASK] The the Dog dog".split()
  vocab_file = world.write("vocab.txt", "\n".join(tokens) + "\n")
  letter_case.warn_if_cased(vocab_file, do_lower_case)


def records(
  world, name="data", documents=8, num_shards=1, resume=False, **settings
):
  """Writes pre-training records of a small text; returns their path."""
  values = {"vocab_file": VOCAB_FILE, "max_seq_length": 16, "dupe_factor": 1}
  values["masking_config"] = masking.MaskingConfig(max_predictions_per_seq=2)
  pretraining_shards.create(
    data_config.PretrainingDataConfig(**{**values, **settings}),
    [text(world, documents=documents)],
    world.path(name),
    num_shards,
    resume=resume,
  )
  return world.path(name)


def opened(*paths):
  return input_pipeline.open_records(",".join(paths))


def checked(world, path, **changes):
  """Checks records as pre-training does."""
  form = pretraining_records.RecordFormat.read(path)
  values = {
    "max_seq_length": 16,
    "max_predictions_per_seq": 2,
    "max_instances": form.max_instances,
  }
  expected = pretraining_records.RecordFormat(**{**values, **changes})
  pretraining_records.PretrainingRecords(opened(path), expected).check(500)


def unmasked(world):
  return records(world, "unmasked", mask=False)


def begins(world, vocab_file):
  files = opened(unmasked(world))
  form = pretraining_records.RecordFormat.read(files.paths[0])
  cls_id = tokenization.load_vocab(vocab_file)["[CLS]"]
  pretraining_records.PretrainingRecords(files, form).check_begins(
    cls_id, vocab_file
  )


def other_vocab(world):
  lines = open(VOCAB_FILE).read().split()
  lines.remove("[CLS]")
  return world.write("other.txt", "\n".join([*lines, "[CLS]"]))


def phases(schedule, *paths):
  return length_schedule.phases(schedule, 10, opened(*paths))


def lengths(world):
  return records(world, "a16"), records(world, "b32", max_seq_length=32)


def table(world, *names):
  path = world.path("rows.parquet")
  pyarrow.parquet.write_table(pa.table(ROWS), path)
  for name in names:
    list(sources._read_parquet(path, name))


def shards(world, *numbers):
  for number in numbers:
    path = world.path(f"train-0000{number}-of-00002.parquet")
    pyarrow.parquet.write_table(pa.table(ROWS), path)
  parquet.find_split(world.path(""), "train")


def damaged_parquet(world, size):
  path = world.path("rows.parquet")
  pyarrow.parquet.write_table(pa.table(ROWS), path)
  data = open(path, "rb").read()
  world.write("rows.parquet", data[:size])
  list(sources._read_parquet(path, "text"))


def build(world, formats=text_config.TEXT, files="corpus.txt", **values):
  config = text_config.TextConfig(
    input_format=formats, **values.pop("reading", {})
  )
  output = corpus_build.Output(output_file=world.path(files), **values)
  inputs = sources.find_files(world.path("text.txt"), config, formats)
  corpus_build.create(config, inputs, output)


def columns(world, name, content, *columns):
  path = world.write(name, content)
  kind = name.split(".")[-1]
  parsed = tables.parse_columns(kind, columns)
  layout = tables.Table(path, kind, tuple(c for c in parsed if c))
  return list(tables.read_rows(layout))


def is_gzip(world, name, content):
  opened(world.write(name, content))


def read_records(world):
  return open(records(world), "rb").read()


CASES = (
  Case(
    "data.masking check_special_tokens",
    ("vocab.txt", "[MASK]"),
    lambda w: masking.check_special_tokens(
      {"[CLS]": 0, "[SEP]": 1}, "vocab.txt"
    ),
    lambda w: masking.check_special_tokens(
      {"[CLS]": 0, "[SEP]": 1, "[MASK]": 2}, "vocab.txt"
    ),
  ),
  Case(
    "data.vocabulary _num_pieces",
    ("vocab_size", "20", "num_unused"),
    lambda w: vocabulary.learn(WORDS, 20, num_unused=20),
    lambda w: (
      vocabulary.learn(WORDS, 20, num_unused=1),
      vocabulary.learn(WORDS, 20, num_unused=11, alphabet_size=2),
      vocabulary.learn(WORDS, 39, num_unused=20),
    ),
  ),
  Case(
    "data.vocabulary learn",
    ("vocab_size", "500"),
    lambda w: vocabulary.learn(WORDS, 500, num_unused=0),
    lambda w: (
      vocabulary.learn(WORDS, 22, num_unused=0),
      vocabulary.learn(
        {
          f"{a}{b}{c}{d}": 9
          for a in "abcde"
          for b in "abcde"
          for c in "abcde"
          for d in "abcde"
        },
        500,
        num_unused=0,
      ),
    ),
  ),
  Case(
    "files.shard_files check_output",
    ("out/", "folder"),
    lambda w: shard_files.check_output(["out/"], []),
    lambda w: shard_files.check_output(["out/data"], []),
  ),
  Case(
    "files.shard_files check_same_settings",
    ("dupe_factor", "resume", "1", "2"),
    lambda w: (
      records(w, num_shards=2),
      records(w, num_shards=2, resume=True, dupe_factor=2),
    ),
    lambda w: (
      records(w, num_shards=2, resume=True),
      records(w, num_shards=2, dupe_factor=2),
    ),
  ),
  Case(
    "data.pretraining_shards output_files",
    ("num_workers", "4", "num_shards", "2"),
    lambda w: pretraining_shards.output_files([], "data", 2, 4),
    lambda w: pretraining_shards.output_files([], "data", 4, 4),
  ),
  Case(
    "data.pretraining_shards _parse_names",
    ("data.bz2", ".gz"),
    lambda w: pretraining_shards.output_files([], "data.bz2"),
    lambda w: (
      pretraining_shards.output_files([], "data.gz"),
      pretraining_shards.output_files([], "data"),
    ),
  ),
  Case(
    "data.pretraining_shards _parse_names",
    ("num_shards", "3", "a-00000-of-00003"),
    lambda w: pretraining_shards.output_files([], "a,b", 3),
    lambda w: pretraining_shards.output_files([], "a", 3),
  ),
  Case(
    "data.pretraining_shards _prepare",
    ("settings.json", "resume", "data-00000-of-00002"),
    lambda w: (
      w.write("data-00000-of-00002", ""),
      records(w, num_shards=2, resume=True),
    ),
    lambda w: (
      w.folder.joinpath("data-00000-of-00002").unlink(),
      records(w, num_shards=2, resume=True),
      records(w, num_shards=2),
    ),
  ),
  Warned(
    "model_folder.letter_case warn_if_cased",
    ("vocab.txt is of cased text", "do_lower_case=False"),
    check_case,
    lambda w: check_case(w, do_lower_case=False),
  ),
  Warned(
    "data.pretraining_shards _log",
    ("Only one document", "2 of 2 shards"),
    lambda w: records(w, documents=2, num_shards=2),
    lambda w: records(w, documents=2, num_shards=1),
  ),
  Warned(
    "data.pretraining_shards _log",
    ("other-00000-of-00003",),
    lambda w: (
      w.write("other-00000-of-00003", ""),
      records(w, "other", num_shards=2),
    ),
    lambda w: (
      w.folder.joinpath("other-00000-of-00003").unlink(),
      records(w, "other", num_shards=2),
    ),
  ),
  Case(
    "data.pretraining_beam check_num_shards",
    ("runner=DirectRunner", "num_shards"),
    lambda w: pretraining_beam.check_num_shards(1, "DirectRunner"),
    lambda w: pretraining_beam.check_num_shards(8, "DirectRunner"),
  ),
  Case(
    "corpora.pydoc_corpus _find_package",
    ("no_such_package",),
    lambda w: pydoc_corpus._find_package("no_such_package"),
    lambda w: next(iter(pydoc_corpus.documents([]))),
  ),
  Case(
    "formats.parquet _check_column",
    ("body", "text", "n", "text_column"),
    lambda w: table(w, "body"),
    lambda w: table(w, "text"),
  ),
  Case(
    "formats.parquet _check_is_text",
    ("n", "int64", "text", "text_column"),
    lambda w: table(w, "n"),
    lambda w: table(w, "text"),
  ),
  Case(
    "formats.parquet _open",
    ("rows.parquet",),
    lambda w: damaged_parquet(w, 100),
    lambda w: damaged_parquet(w, None),
  ),
  Case(
    "formats.parquet _check_shards",
    ("train-00000-of-00001.parquet", "train-00000-of-00002.parquet"),
    lambda w: (
      w.write("train-00000-of-00001.parquet", ""),
      shards(w, 0, 1),
    ),
    lambda w: (
      w.folder.joinpath("train-00000-of-00001.parquet").unlink(),
      shards(w, 0, 1),
    ),
  ),
  Case(
    "formats.parquet _check_shards",
    ("train-00000-of-00002.parquet", "train-00001-of-00002.parquet"),
    lambda w: shards(w, 0),
    lambda w: shards(w, 0, 1),
  ),
  Case(
    "formats.tables parse_columns",
    ("0", "label"),
    lambda w: columns(w, "a.csv", "text,label\na,b\n", "0", "label"),
    lambda w: (
      columns(w, "a.csv", "text,label\na,b\n", "text", "label"),
      columns(w, "b.csv", "a,b\n", "0", "1"),
    ),
  ),
  Case(
    "formats.tables csv_cells",
    ("a.csv:2",),
    lambda w: columns(w, "a.csv", 'text,label\n"a"b,c\n', "text"),
    lambda w: columns(w, "a.csv", 'text,label\n"a""b",c\n', "text"),
  ),
  Case(
    "corpora.sources _read_json_lines",
    ("text.txt:1", "text_column", "body"),
    lambda w: (w.write("text.txt", '{"body": "a b"}\n'), build(w, "jsonl")),
    lambda w: build(w, "jsonl", reading={"text_column": "body"}),
  ),
  Case(
    "corpora.corpus_build _check",
    ("corpus.txt",),
    lambda w: (
      text(w),
      build(w, eval_output_file=w.path("corpus.txt"), eval_fraction=0.5),
    ),
    lambda w: build(w, eval_output_file=w.path("eval.txt"), eval_fraction=0.5),
  ),
  Case(
    "corpora.corpus_build _check_counts",
    ("eval_fraction", "0.0001"),
    lambda w: (
      text(w, documents=40),
      build(w, eval_output_file=w.path("eval.txt"), eval_fraction=1e-4),
    ),
    lambda w: build(w, eval_output_file=w.path("eval.txt"), eval_fraction=0.5),
  ),
  Warned(
    "corpora.corpus_build _warn_of_paragraphs",
    ("documents=file",),
    lambda w: (w.write("text.txt", "One sentence.\n\n" * 9), build(w)),
    lambda w: build(w, reading={"documents": "file"}),
  ),
  Case(
    "data.input_pipeline _count_records",
    ("cut", "record"),
    lambda w: is_gzip(w, "cut", read_records(w)[:-3]),
    lambda w: opened(records(w, "cut")),
  ),
  Case(
    "data.input_pipeline _count_records",
    ("empty",),
    lambda w: is_gzip(w, "empty", b""),
    lambda w: opened(records(w, "empty")),
  ),
  Case(
    "data.input_pipeline _check_name_of_gzip",
    ("packed", "packed.gz"),
    lambda w: is_gzip(w, "packed", gzip.compress(read_records(w))),
    lambda w: (
      w.folder.joinpath("packed").rename(w.path("packed.gz")),
      opened(w.path("packed.gz")),
    ),
  ),
  Case(
    "data.input_pipeline _check_name_of_gzip",
    ("plain.gz", "plain"),
    lambda w: is_gzip(w, "plain.gz", read_records(w)),
    lambda w: (
      w.folder.joinpath("plain.gz").rename(w.path("plain")),
      opened(w.path("plain")),
      opened(records(w, "plain.gz")),
    ),
  ),
  Case(
    "data.input_pipeline check_first_records",
    ("data", "max_seq_length", "16", "32"),
    lambda w: checked(w, records(w), max_seq_length=32),
    lambda w: (
      checked(w, records(w), max_seq_length=16),
      checked(w, records(w, max_seq_length=32), max_seq_length=32),
    ),
  ),
  Case(
    "data.length_schedule phases",
    ("b32", "32", "16:1"),
    lambda w: phases("16:1", *lengths(w)),
    lambda w: (
      phases("16:1", lengths(w)[0]),
      phases("16:0.5,32:0.5", *lengths(w)),
    ),
  ),
  Case(
    "data.length_schedule phases",
    ("32", "input_file"),
    lambda w: phases("16:0.5,32:0.5", lengths(w)[0]),
    lambda w: phases("16:0.5,32:0.5", *lengths(w)),
  ),
  Case(
    "data.pretraining_records check",
    ("unmasked", "data", "mask", "pack_sequences"),
    lambda w: pretraining_records.PretrainingRecords(
      opened(records(w), unmasked(w)), pretraining_records.RecordFormat(16, 2)
    ).check(500),
    lambda w: checked(w, records(w)),
  ),
  Case(
    "data.pretraining_records check_begins",
    ("unmasked", "other.txt"),
    lambda w: begins(w, other_vocab(w)),
    lambda w: begins(w, VOCAB_FILE),
  ),
)
