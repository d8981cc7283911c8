"""Advice about the flags of commands, followed on the command line."""

import pathlib
from typing import NamedTuple

from tests.support import tiny_models

TINY = tiny_models.TINY
VOCAB_FILE = str(TINY / "vocab.txt")


class Command(NamedTuple):
  """A refused command line, and the command lines that its advice leads to.

  In a command line, @NAME is a shared model and %NAME a path in the folder of
  the case. Words before the flags are VARIABLE=VALUE or another script.
  """

  where: str  # "module function" of the message.
  names: tuple[str, ...]  # Values that the message must name.
  script: str  # Default script of the command lines.
  broken: str
  advised: tuple[str, ...]


FILL = "--model=@pretraining --top_k=1"
COMMANDS = (
  Command(
    "cli.fill_mask main",
    ("--text", "--input_file"),
    "fill_mask.py",
    FILL,
    (f"{FILL} --text=[MASK]", f"{FILL} --input_file=%masks.txt"),
  ),
  Command(
    "cli.extend_vocab main",
    ("--words", "--words_file"),
    "extend_vocab.py",
    "--model=@pretraining --method=grow --output_dir=%a",
    (
      "--model=@pretraining --method=grow --output_dir=%b --words=zebra",
      "--model=@pretraining --method=grow --output_dir=%c "
      "--words_file=%words.txt",
    ),
  ),
  Command(
    "cli.inspect_checkpoint main",
    ("CHECKPOINT", "--config"),
    "inspect_checkpoint.py",
    "",
    ("@encoder", "@encoder @encoder", "--config=%bert_config.json"),
  ),
  Command(
    "cli.command check_and_run",
    ("PREDICTIONS", "DATA"),
    "squad_evaluate.py",
    "%predictions.json",
    ("%predictions.json %squad.json",),
  ),
  Command(
    "cli.convert_checkpoint main",
    ("--model", "--input_checkpoint"),
    "convert_checkpoint.py",
    "--model=@encoder --input_checkpoint=@encoder --output_checkpoint=%o/c",
    (
      "--model=@encoder --output_checkpoint=%o/c",
      "--input_checkpoint=@encoder --output_checkpoint=%p/c",
    ),
  ),
  Command(
    "cli.extract_features main",
    ("--use_tpu",),
    "extract_features.py",
    "--model=@encoder --layers=-1 --use_tpu --input_file=%masks.txt "
    "--output_file=%f.jsonl",
    (
      "--model=@encoder --layers=-1 --input_file=%masks.txt "
      "--output_file=%f.jsonl",
    ),
  ),
  Command(
    "cli.model_flags read_flags",
    ("--init_checkpoint", "--model", "pretraining", "encoder"),
    "fill_mask.py",
    "--model=@pretraining --init_checkpoint=@encoder --text=[MASK]",
    (
      "--model=@pretraining --text=[MASK]",
      "--init_checkpoint=@pretraining --text=[MASK]",
    ),
  ),
  Command(
    "cli.model_flags require_model",
    ("--model",),
    "fill_mask.py",
    "--text=[MASK]",
    ("--model=@pretraining --text=[MASK]",),
  ),
  Command(
    "cli.model_flags resolve_files",
    ("--model", "--bert_config_file", "--vocab_file"),
    "run_classifier.py",
    "--task_name=csv --data_dir=%. --output_dir=%out --do_predict",
    (
      "--task_name=csv --data_dir=%. --output_dir=%out --do_predict "
      "--predict_batch_size=1 --model=@classifier",
    ),
  ),
  Command(
    "cli.config_flags refuse_given",
    ("--average_last",),
    "convert_checkpoint.py",
    "--model=@encoder --to=hf --average_last=2 --output_checkpoint=%hf",
    ("--model=@encoder --to=hf --output_checkpoint=%hf",),
  ),
  Command(
    "cli.text_flags check_beam",
    ("--num_workers=2", "--runner=DirectRunner"),
    "build_corpus.py",
    "--input_file=%text.txt --output_file=%c.txt --num_workers=2 "
    "--runner=DirectRunner",
    ("--input_file=%text.txt --output_file=%c.txt --num_workers=1",),
  ),
  Command(
    "cli.text_flags check_beam",
    ("--pipeline_options", "--runner"),
    "build_corpus.py",
    "--input_file=%text.txt --output_file=%c.txt "
    "--pipeline_options=--direct_num_workers=1",
    ("--input_file=%text.txt --output_file=%c.txt",),
  ),
  Command(
    "cli.build_vocab _find_files",
    ("rows.jsonl", "build-corpus"),
    "build_vocab.py",
    "--input_file=%rows.jsonl --output_file=%v.txt --vocab_size=60 "
    "--num_unused=0",
    (
      "build_corpus.py --input_file=%rows.jsonl --output_file=%rows.txt",
      "--input_file=%rows.txt --output_file=%v.txt --vocab_size=30 "
      "--num_unused=0",
    ),
  ),
  Command(
    "cli.build_vocab main",
    ("holdout_every", "1", "2"),
    "build_vocab.py",
    "--input_file=%text.txt --output_file=%v.txt --vocab_size=50 "
    "--num_unused=0 --holdout_every=1",
    (
      "--input_file=%text.txt --output_file=%v.txt --vocab_size=50 "
      "--num_unused=0 --holdout_every=2",
    ),
  ),
  Command(
    "cli.run_squad _check_is_one_run",
    ("--interactive", "--num_runs", "--model", "do_train"),
    "run_squad.py",
    "--model=@squad --output_dir=%q --interactive --num_runs=2 --do_train",
    (
      "--model=@squad --output_dir=%q --interactive --max_seq_length=64 "
      "--doc_stride=16 --max_query_length=16",
    ),
  ),
)


def write_files(folder: pathlib.Path) -> None:
  """Writes the files that the command lines name."""
  (folder / "masks.txt").write_text("the [MASK]\n")
  (folder / "words.txt").write_text("zebra\n")
  text = "".join(f"the old boat {i} sails .\n\n" for i in range(20))
  (folder / "text.txt").write_text(text)
  (folder / "rows.jsonl").write_text('{"text": "The old boat. It sails."}\n')
  (folder / "test.csv").write_text("text,label\na,good\n")
  config = (TINY / "bert_config.json").read_bytes()
  (folder / "bert_config.json").write_bytes(config)
  (folder / "predictions.json").write_text('{"q": "boat"}')
  answer = '[{"text": "boat", "answer_start": 0}]'
  (folder / "squad.json").write_text(
    '{"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": '
    '"boat", "qas": [{"id": "q", "question": "What?", "answers": '
    f"{answer}}}]}}]}}]}}"
  )
