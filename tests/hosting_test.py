"""Files for contributors and code hosts match the project."""

import pathlib
import re

import pytest

import bert_tf

ROOT = pathlib.Path(__file__).resolve().parents[1]
yaml = pytest.importorskip("yaml")


def load(name):
  return yaml.safe_load((ROOT / name).read_text())


@pytest.fixture(scope="module")
def project():
  tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
  return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def jobs():
  return load(".github/workflows/ci.yml")["jobs"]


def test_all_files_have_the_same_version():
  assert load("CITATION.cff")["version"] == bert_tf.__version__
  changes = (ROOT / "CHANGELOG.md").read_text()
  headings = re.findall(r"^## (\S+)", changes, re.MULTILINE)
  assert headings[:2] == ["Unreleased", bert_tf.__version__]


def test_the_workflow_tests_oldest_and_newest_versions(jobs, project):
  requirements = pytest.importorskip("packaging.requirements")
  specifiers = pytest.importorskip("packaging.specifiers")
  matrix = jobs["test"]["strategy"]["matrix"]
  python = specifiers.SpecifierSet(project["requires-python"])
  assert matrix["python"] == ["3.10", "3.13"]
  assert [python.contains(v) for v in ("3.9", "3.10", "3.13", "3.14")] == [
    *(False, True, True, False)
  ]
  [tensorflow] = [
    r.specifier
    for r in map(requirements.Requirement, project["dependencies"])
    if r.name == "tensorflow"
  ]
  assert matrix["tensorflow"] == ["2.20", "2.21"]
  assert all(tensorflow.contains(f"{v}.0") for v in matrix["tensorflow"])
  assert not tensorflow.contains("2.22.0")


def test_extras_of_the_workflow_exist(jobs, project):
  extras = project["optional-dependencies"]
  include = jobs["test"]["strategy"]["matrix"]["include"]
  named = {entry["tensorflow"]: entry["extra"] for entry in include}
  assert set(named.values()) <= extras.keys()
  # Model Garden has no version for 2.21.
  assert extras[named["2.20"]] == [f"bert_tf[models,{named['2.21']}]"]
  assert not any("models" in line for line in extras[named["2.21"]])
