"""Tests for `bert-tf COMMAND`: names of commands, and unknown names."""

import pathlib
import re
import subprocess
import sys

import pytest

import bert_tf
from bert_tf.cli import main

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_main(monkeypatch, *arguments):
  """Returns the exit status or message of `bert-tf ARGUMENTS`."""
  monkeypatch.setattr(sys, "argv", ["bert-tf", *arguments])
  with pytest.raises(SystemExit) as end:
    main.run()
  return end.value.code


def test_help_lists_the_commands_in_groups(monkeypatch, capsys):
  assert not run_main(monkeypatch, "--help")
  text = capsys.readouterr().out
  lines = [line.split() for line in text.splitlines()]
  result = {words[0]: words for words in lines if words}
  assert all(len(result[name]) > 3 for name in main.COMMANDS)
  assert max(map(len, text.splitlines())) <= 80
  groups = dict(re.findall(r"^([A-Z][\w ]+):\n((?:  .*\n)+)", text, re.M))
  for title, name in (
    ("Data", "build-vocab"),
    ("Train and evaluate", "squad"),
    ("Predict and serve", "serve"),
    ("Convert and inspect", "inspect"),
  ):
    assert f"\n  {name} " in f"\n{groups[title]}"


def test_the_version_needs_no_tensorflow():
  code = """
import sys
from bert_tf.cli import main
sys.argv = ["bert-tf", "--version"]
try:
  main.run()
finally:
  print(sorted({"tensorflow", "keras"} & set(sys.modules)))
"""
  result = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
  )
  assert result.stdout == f"bert-tf {bert_tf.__version__}\n[]\n"


def test_an_unknown_command_is_refused(monkeypatch):
  message = run_main(monkeypatch, "clasifier")
  assert "clasifier. Did you mean classifier?" in message
