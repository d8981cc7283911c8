"""Files for contributors and code hosts match the project."""

import pathlib
import re
import shlex
import subprocess
import sys

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


def commands(job):
  return [step["run"] for step in job["steps"] if "run" in step]


def test_all_files_have_the_same_version():
  assert load("CITATION.cff")["version"] == bert_tf.__version__
  changes = (ROOT / "CHANGELOG.md").read_text()
  headings = re.findall(r"^## (\S+)", changes, re.MULTILINE)
  assert headings[:2] == ["Unreleased", bert_tf.__version__]


def test_the_citation_has_the_required_keys():
  # https://github.com/citation-file-format, 1.2.0
  citation = load("CITATION.cff")
  assert {"cff-version", "message", "title", "authors"} <= citation.keys()
  assert citation["references"][0]["doi"] == "10.18653/v1/N19-1423"


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


def test_the_workflow_lints_like_the_test_script(jobs):
  script = (ROOT / "run_scripts" / "test.sh").read_text()
  checks = re.findall(r'^"\$python" (-m (?:ruff|mypy).*)$', script, re.M)
  assert len(checks) == 3
  linting = commands(jobs["lint"])
  assert [c for c in linting if "install" not in c] == [
    f"python {check}" for check in checks
  ]


def test_the_workflow_uses_no_secret():
  text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
  assert "secrets" not in text
  assert load(".github/workflows/ci.yml")["permissions"] == {"contents": "read"}


def test_pre_commit_hooks_are_local_and_run():
  [repository] = load(".pre-commit-config.yaml")["repos"]
  assert repository["repo"] == "local"
  hooks = {hook["id"]: hook for hook in repository["hooks"]}
  assert list(hooks) == ["ruff-check", "ruff-format", "mypy"]
  for name, hook in hooks.items():
    assert hook["language"] == "system", name
    python, *arguments = shlex.split(hook["entry"])
    assert python == "python"
    # mypy takes half a minute, and test.sh runs it.
    file = ["--version"] if name == "mypy" else [__file__]
    command = [sys.executable, *arguments, *file]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
