"""pyproject.toml declares exactly the imported packages."""

import ast
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Modules of distributions whose names differ.
MODULES = {
  "absl-py": "absl",
  "ai-edge-litert": "ai_edge_litert",
  "apache-beam": "apache_beam",
  "prometheus-client": "prometheus_client",
  "protobuf": "google",
  "scikit-learn": "sklearn",
  "tensorflow-text": "tensorflow_text",
}


# Maximum size of the wheel. Data of research/ would exceed it.
MAX_WHEEL_BYTES = 700_000
# What a person who has only the sdist needs, to read, build and test.
IN_SDIST = (
  *("BUILD_NOTES.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"),
  *("LICENSE", "README.md", "SECURITY.md", "constraints.txt", "setup.py"),
  *(".github/workflows/ci.yml", ".ci/run", "deploy/Dockerfile"),
  *("docs/index.md", "docs/notebooks/the_2018_workflow.ipynb", "mkdocs.yml"),
  *("research/rows.py", "run_scripts/run_classifier.py", "tests/conftest.py"),
  *("tests/golden/tiny/vocab.txt", "vocab/README.md"),
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
  """Returns wheel and sdist, built from a copy of the checkout."""
  checkout = tmp_path_factory.mktemp("checkout") / "bert_tf"
  ignored = shutil.ignore_patterns("__pycache__", ".git", ".venv", "build")
  shutil.copytree(ROOT, checkout, ignore=ignored)
  # setuptools before 77 refuses these keys.
  text = re.sub("(?m)^license.*\n", "", (ROOT / "pyproject.toml").read_text())
  (checkout / "pyproject.toml").write_text(text)
  code = "from setuptools import build_meta; build_meta.build_{}('dist')"
  for kind in ("wheel", "sdist"):
    command = [sys.executable, "-c", code.format(kind)]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
  [wheel] = (checkout / "dist").glob("*.whl")
  [sdist] = (checkout / "dist").glob("*.tar.gz")
  return wheel, sdist


@pytest.fixture(scope="module")
def project():
  tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
  return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def imported():
  """Returns all top-level modules that the package imports."""
  names = set()
  for path in (ROOT / "bert_tf").rglob("*.py"):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Import):
        names.update(alias.name.split(".")[0] for alias in node.names)
      elif isinstance(node, ast.ImportFrom):
        names.add(str(node.module).split(".")[0])
  return names - sys.stdlib_module_names - {"bert_tf"}


def modules(lines):
  names = [re.split(r"[<>=!;\[ ]", line)[0] for line in lines]
  return {MODULES.get(name, name) for name in names}


def test_imported_packages_are_the_declared_ones(project):
  extras = project["optional-dependencies"]
  # Tools for tests, site and notebooks; tests compare with Model Garden.
  tools = ("test", "test-minimal", "docs", "models", "notebooks")
  used = [extras[name] for name in extras if name not in tools]
  declared = modules(sum(used, project["dependencies"]))
  assert imported() == declared - {"httptools"}  # uvicorn imports it.


def test_the_wheel_contains_only_the_library(built):
  wheel, _ = built
  names = zipfile.ZipFile(wheel).namelist()
  tops = {name.split("/")[0] for name in names}
  assert {top for top in tops if not top.endswith(".dist-info")} == {"bert_tf"}
  files = {path for path in (ROOT / "bert_tf").rglob("*") if path.is_file()}
  expected = {
    str(path.relative_to(ROOT)) for path in files if path.suffix != ".pyc"
  }
  assert {name for name in names if name.startswith("bert_tf/")} == expected
  assert wheel.stat().st_size < MAX_WHEEL_BYTES


def test_the_sdist_contains_the_checkout(built):
  _, sdist = built
  with tarfile.open(sdist) as archive:
    names = {name.partition("/")[2] for name in archive.getnames()}
  assert set(IN_SDIST) <= names
  library = (ROOT / "bert_tf").rglob("*.py")
  assert {str(path.relative_to(ROOT)) for path in library} <= names


def test_the_constraints_pin_all_dependencies_within_their_ranges(project):
  requirements = pytest.importorskip("packaging.requirements")
  lines = (ROOT / "constraints.txt").read_text().splitlines()
  versions = dict(
    line.split("==") for line in lines if line and not line.startswith("#")
  )
  extras = project["optional-dependencies"].values()
  for line in sum(extras, project["dependencies"]):
    required = requirements.Requirement(line)
    if not required.extras:  # bert_tf itself.
      assert versions[required.name] in required.specifier, line
