"""The site has every page, command and public name, and its links lead on."""

import pathlib
import subprocess
import sys

import pytest

import bert_tf
from bert_tf.cli import main

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_the_site_builds_without_warnings(tmp_path):
  pytest.importorskip("mkdocs", reason="needs the extra docs")
  command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
  result = subprocess.run(
    [*command, "--site-dir", str(tmp_path)],
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=600,
  )
  # Dead links and anchors are warnings, which fail with --strict.
  assert not result.returncode, result.stderr
  assert "not included in the" not in result.stderr  # A page without a place.
  commands = (tmp_path / "cli.html").read_text()
  for name in main.COMMANDS:
    assert f'id="{name}"' in commands, name
  assert "--max_seq_length" in commands
  names = (tmp_path / "api.html").read_text()
  for name in set(bert_tf.__all__) - {"__version__"}:
    assert f"{name}</code>" in names or f".{name}" in names, name
