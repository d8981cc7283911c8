"""Tests for `bert-tf COMMAND`: names of commands, and unknown names."""

import importlib
import pathlib
import sys

import pytest

from bert_tf.cli import main

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_main(monkeypatch, *arguments):
  """Returns the exit status or message of `bert-tf ARGUMENTS`."""
  monkeypatch.setattr(sys, "argv", ["bert-tf", *arguments])
  with pytest.raises(SystemExit) as end:
    main.run()
  return end.value.code


def test_every_script_is_a_command():
  scripts = {path.stem for path in (ROOT / "run_scripts").glob("*.py")}
  assert scripts - {"ablations", "benchmark"} == set(main.COMMANDS.values())


@pytest.mark.parametrize("name", ["ablations", "benchmark"])
def test_the_error_for_a_research_command_names_its_script(name, monkeypatch):
  message = run_main(monkeypatch, name, "--seeds=1")
  assert f"run_scripts/{name}.py" in message and "\n" not in message
  assert (ROOT / "run_scripts" / f"{name}.py").is_file()


def test_help_lists_the_commands(monkeypatch, capsys):
  assert not run_main(monkeypatch, "--help")
  lines = [line.split() for line in capsys.readouterr().out.splitlines()]
  result = {words[0]: words for words in lines if words}
  assert all(len(result[name]) > 3 for name in main.COMMANDS)


@pytest.mark.parametrize(
  ("name", "near"),
  [("clasifier", "classifier"), ("run_squad.py", "squad"), ("xyz", "--help")],
)
def test_an_unknown_command_is_refused_with_similar_names(
  name, near, monkeypatch
):
  message = run_main(monkeypatch, name)
  assert near in message
  assert name in message and "\n" not in message


def test_a_command_gets_its_arguments(monkeypatch):
  module = importlib.import_module("bert_tf.cli.plot_curves")
  monkeypatch.setattr(module, "run", lambda: sys.exit(" ".join(sys.argv)))
  result = run_main(monkeypatch, "plot-curves", "--output_dir=x")
  assert result == "bert-tf plot-curves --output_dir=x"
