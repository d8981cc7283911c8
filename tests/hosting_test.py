"""Files for contributors and code hosts match the project."""

import pathlib
import re

import pytest

import bert_tf

ROOT = pathlib.Path(__file__).resolve().parents[1]
yaml = pytest.importorskip("yaml")


def load(name):
  return yaml.safe_load((ROOT / name).read_text())


def test_all_files_have_the_same_version():
  assert load("CITATION.cff")["version"] == bert_tf.__version__
  changes = (ROOT / "CHANGELOG.md").read_text()
  headings = re.findall(r"^## (\S+)", changes, re.MULTILINE)
  assert headings[:2] == ["Unreleased", bert_tf.__version__]
