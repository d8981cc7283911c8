"""README, CHANGELOG, docs/...: blocks run, flags exist, links lead on."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.support import docs_files, docs_pages, forks
from tests.support.ports import free_port

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = [
  *sorted(ROOT.glob("*.md")),
  *sorted((ROOT / "docs").rglob("*.md")),
  *sorted((ROOT / "research").rglob("*.md")),
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
# A block below this comment is not run, for the reason it gives.
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


def blocks(page):
  """Yields (line number, language, text, reason not to run it or None)."""
  lines = page.read_text().splitlines()
  start = None
  for number, line in enumerate(lines):
    if not line.startswith("```"):
      continue
    if start is None:
      start = number
      continue
    reason = NOT_RUN.fullmatch(lines[start - 1])
    text = "\n".join(lines[start + 1 : number]) + "\n"
    yield start + 1, lines[start][3:], text, reason and reason.group(1)
    start = None
  assert start is None, f"{page}:{start}: the block does not end"


def commands(text):
  """Yields the words of each command of a shell block."""
  for line in text.replace("\\\n", " ").splitlines():
    words = shlex.split(line, comments=True)
    while words and "=" in words[0]:
      words = words[1:]
    if words:
      yield words


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_to_files_and_headings(page):
  text = re.sub("```.*?```", "", page.read_text(), flags=re.DOTALL)
  docs_pages.check_links(page, text)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_have_the_flags(page):
  for number, language, text, _ in blocks(page):
    for words in commands(text) if language == "shell" else ():
      assert not docs_pages.unknown_flags(words), f"{page.name}:{number}"
  for words in docs_pages.inline_commands(page.read_text()):
    assert not docs_pages.unknown_flags(words), " ".join(words)


def blocks_to_run(page):
  """Yields (line number, language, text) of the blocks that run."""
  for number, language, text, reason in blocks(page):
    if language in ("shell", "python") and not reason:
      yield number, language, text


def _stand_in(path, *command):
  path.write_text(
    "#!/bin/sh\nexec " + shlex.join(map(str, command)) + ' "$@"\n'
  )
  path.chmod(0o755)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  """A folder with the files that commands name."""
  folder = tmp_path_factory.mktemp("files")
  docs_files.write_all(folder)
  return folder


@pytest.fixture
def folder(files, tmp_path):
  """A copy of the files that commands name, and programs for them."""
  shutil.copytree(files, tmp_path, dirs_exist_ok=True)
  (tmp_path / "run_scripts").symlink_to(ROOT / "run_scripts")
  programs = tmp_path / "programs"
  programs.mkdir()
  python = [sys.executable, ROOT / "tests" / "support" / "docs_python.py"]
  _stand_in(programs / "python", *python)
  _stand_in(programs / "bert-tf", *python, "-m", "bert_tf")
  _stand_in(programs / "curl", "/usr/bin/curl", "--silent", "--fail")
  for name in ("pip", "tensorboard"):
    _stand_in(programs / name, "true")
  return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
  "name", [n for n, page in zip(NAMES, PAGES) if any(blocks_to_run(page))]
)
def test_blocks_run_one_after_the_other(name, folder, fork_server):
  page = ROOT / name
  if page == ROOT / "README.md":
    shutil.rmtree(folder / "stars")  # README makes it for the other pages.
  ports = {p: str(free_port()) for p in ("8501", "8502", "12345", "12346")}
  path = f"{folder / 'programs'}{os.pathsep}{os.environ['PATH']}"
  environment = os.environ | {
    "PATH": path,
    "PYTHONPATH": str(ROOT),
    forks.VARIABLE: fork_server,
  }
  for number, language, text in blocks_to_run(page):
    for old, new in ports.items():
      text = text.replace(old, new)
    if language == "shell":
      text = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + text
      program = ["bash", "-euo", "pipefail", "-c", text]
    else:
      if name := re.match(r"# (\w+)\.py\n", text):
        (folder / f"{name.group(1)}.py").write_text(text)
        text = f"import {name.group(1)}"
      (folder / "block.py").write_text(text)
      program = [sys.executable, forks.__file__, fork_server, "block.py"]
    result = subprocess.run(
      program,
      cwd=folder,
      env=environment,
      capture_output=True,
      text=True,
      timeout=1800,
    )
    assert not result.returncode, f"{page.name}:{number}\n{result.stderr}"
