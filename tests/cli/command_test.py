"""Tests for the start of commands: help and mistakes on the command line."""

import ast
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys

import pytest

from bert_tf.cli import command, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "run_scripts"


# sweep.py has argparse's help, and no flags of its own in absl.
@pytest.mark.parametrize(
  "name",
  [
    *main.COMMANDS,
    *sorted(p.name for p in SCRIPTS.glob("*.py") if p.name != "sweep.py"),
  ],
)
def test_help_is_short_and_its_examples_can_be_run(name, run_script):
  result = run_script(name, "--help", cwd="/")
  assert result.stderr == ""
  lines = result.stdout.splitlines()
  assert max(len(line) for line in lines if name not in line) <= 80
  assert sum(line.startswith("  --") for line in lines) <= 20
  text = result.stdout.replace("\\\n", "")
  program = f"bert-tf {name}"
  if name.endswith(".py"):
    program = f"python {SCRIPTS / name}"
  examples = re.findall(rf"{program} (.+)", text)
  assert examples
  for example in examples:
    if "--help" not in example:
      # absl's flag ends the command after the check of the flags.
      words = [*shlex.split(example), "--only_check_args"]
      checked = run_script(name, *words, cwd="/")
      assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
  ("script", "arguments", "parts"),
  [
    ("inspect", (), ("CHECKPOINT",)),
    ("inspect", ("a", "b", "c"), ("'c'",)),
    ("squad-evaluate", ("a",), ("PREDICTIONS", "DATA")),
    ("plot-curves", (), ("--output_dir", "--plot_file")),
    ("ner", ("--do_train",), ("--model", "--output_dir")),
    ("run_classifier.py", (), ("--model", "--data_dir or --data_file")),
    ("run_classifier.py", ("--output_dir=",), ("--output_dir",)),
    ("swag", ("--do_eval=a",), ("do_eval", "true")),
    ("pretrain", (), ("--text", "--train_hours", "--output_dir")),
    ("pretrain", ("--output_dir=x",), ("--input_file or --text",)),
    ("serve", ("--model=x", "--port=65536"), ("--port", "65536", "65535")),
    ("serve", ("--model=a=x", "--model=y"), ("--model=NAME=y",)),
    ("benchmark.py", ("speed",), ("tokenizer", "runtimes")),
    ("reproduce.py", ("--output_dir=x",), ("--model", "--report_only")),
  ],
)
def test_a_mistake_on_the_command_line_is_named(
  script, arguments, parts, run_script
):
  result = run_script(script, *arguments, cwd="/")
  assert result.returncode == 1
  assert "Traceback" not in result.stderr
  for part in parts:
    assert part in result.stderr


@pytest.mark.parametrize(
  "arguments",
  [
    ("--help",),
    ("inspect", "--help"),
    ("squad-evaluate", "answers.json", "data.json"),
  ],
  ids=lambda arguments: arguments[0],
)
def test_a_closed_stdout_ends_the_command_quietly(arguments, tmp_path):
  answers = [{"text": "boat", "answer_start": 0}]
  question = {"id": "q", "question": "What?", "answers": answers}
  paragraphs = [{"context": "boat", "qas": [question]}]
  data = {"version": "1.1", "data": [{"paragraphs": paragraphs}]}
  (tmp_path / "data.json").write_text(json.dumps(data))
  (tmp_path / "answers.json").write_text('{"q": "boat"}')
  reader, writer = os.pipe()
  os.close(reader)
  result = subprocess.run(
    [sys.executable, "-m", "bert_tf", *arguments],
    cwd=tmp_path,
    stdout=writer,
    stderr=subprocess.PIPE,
    env={**os.environ, "PYTHONPATH": str(ROOT)},
  )
  os.close(writer)
  assert result.stderr == b""
  assert result.returncode == 128 + signal.SIGPIPE


@pytest.mark.parametrize(
  ("fault", "status", "words"),
  [
    ("raise NotImplementedError('this\\nzip')", 1, "NotImplementedError: this"),
    ("logging.warning('`verbosity`'); exit(3)", 3, "warning: --verbosity"),
    (
      "import tensorflow as tf; "
      "raise tf.errors.ResourceExhaustedError(None, None, full)",
      1,
      "Too many",
    ),
    ("os.kill(os.getpid(), signal.SIGTERM)", 143, ""),
    ("os.kill(os.getpid(), signal.SIGINT)", 130, "interrupted"),
  ],
)
def test_every_end_has_one_line_and_leaves_no_file(
  fault, status, words, tmp_path
):
  code = f"""
import os, signal
from absl import logging
from bert_tf.cli import command
from bert_tf.files import atomic
def main():
  full = "/a; " + os.strerror(24)
  with atomic.file({str(tmp_path / "a")!r}):
    {fault}
command.run(main, None)
"""
  result = subprocess.run(
    [sys.executable, "-c", code],
    cwd=ROOT,
    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    capture_output=True,
    text=True,
  )
  assert result.returncode == status
  lines = result.stderr.splitlines()
  assert len(lines) == bool(words) and words in result.stderr
  assert "memory" not in result.stderr
  assert os.listdir(tmp_path) == []


KERAS = """
import sys
import bert_tf
from bert_tf.cli import command
from bert_tf.model.kernels import backend
sys.meta_path.insert(0, backend.KerasFinder(command.HIDDEN_FROM_KERAS))
import keras
late = {"matplotlib", "sklearn", *command.HIDDEN_FROM_KERAS}
print(sorted(sys.modules.keys() & late))
import PIL
keras.wrappers.SKLearnClassifier, keras.visualization.plot_image_gallery
print(sorted(sys.modules.keys() & late))
"""


def test_keras_imports_packages_when_they_are_used():
  result = subprocess.run(
    [sys.executable, "-c", KERAS], cwd=ROOT, capture_output=True, text=True
  )
  assert result.returncode == 0, result.stderr
  first, later = map(ast.literal_eval, result.stdout.splitlines())
  assert first == []
  assert {"PIL", "matplotlib", "sklearn"} <= set(later)


def test_what_is_printed_has_flags_and_no_control_characters(capsys):
  # absl defines --verbosity for every command.
  result = command.with_flags("set `verbosity` or `verbosity=1`, not `fit`")
  assert result == "set --verbosity or --verbosity=1, not `fit`"
  command.show("caf\xe9 \x9b1m\n\tb\x7f")
  assert capsys.readouterr().out == "caf\xe9 \\u009b1m\n\tb\\u007f\n"


@pytest.mark.parametrize("module", ["numpy", "tensorflow"])
def test_an_interrupt_during_an_import_has_status_130(module):
  code = (
    "import os, signal, sys\n"
    "from bert_tf.cli import main\n"
    "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    "class Finder:\n"
    "  def find_spec(self, name, *unused):\n"
    f"    if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
    "sys.meta_path.insert(0, Finder())\n"
    "sys.argv = ['bert-tf', 'inspect', 'none']\n"
    "main.run()\n"
  )
  result = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT
  )
  assert result.returncode == 130, result.stderr
  assert result.stderr == "interrupted\n"
