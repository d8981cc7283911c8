"""docs/*.py, the hooks of the site, and the links of the built site."""

import html.parser
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

import pytest

from bert_tf.cli import main

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"


def load_hook(name):
  spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def test_the_command_line_page_has_every_command():
  text = (DOCS / "cli.md").read_text()
  table = text.split("## Commands\n")[1].split("\n## ")[0]
  names = re.findall(r"^\| `([\w-]+)` \|", table, re.M)
  assert sorted(names) == sorted(main.COMMANDS)


def test_the_site_gets_a_table_of_flags_for_a_command():
  section = load_hook("cli_reference").section("fill-mask")
  rows = re.findall(r"^\| `--(\w+)` \| (.*?) \| (.+) \|$", section, re.M)
  flags = {name: default for name, default, _ in rows}
  assert flags["top_k"] == "5"
  assert {"model", "text", "input_file", "vocab_file"} <= flags.keys()
  assert "verbosity" not in flags


class Page(html.parser.HTMLParser):
  """The link targets and the anchors of an HTML page."""

  def __init__(self, path):
    super().__init__()
    self.targets, self.anchors = set(), {""}
    self.feed(path.read_text())

  def handle_starttag(self, tag, attributes):
    for name, value in attributes:
      if name in ("href", "src") and value:
        self.targets.add(value)
      elif name in ("id", "name") and value:
        self.anchors.add(value)


def dead_links(folder):
  """Returns (page, target) of the links to missing pages and anchors."""
  pages = {path: Page(path) for path in folder.rglob("*.html")}
  dead = []
  for path, content in pages.items():
    for target in content.targets:
      url = urllib.parse.urlsplit(target)
      if url.scheme or url.netloc or path.name == "404.html":
        continue
      name = urllib.parse.unquote(url.path)
      linked = path.parent / name if name else path
      linked = pathlib.Path(os.path.normpath(linked))
      if linked.is_dir():
        linked /= "index.html"
      anchor = urllib.parse.unquote(url.fragment)
      is_known = linked not in pages or anchor in pages[linked].anchors
      if not (linked.exists() and is_known):
        dead.append((str(path.relative_to(folder)), target))
  return dead


def test_the_site_builds_without_warnings_and_dead_links(tmp_path):
  pytest.importorskip("mkdocs", reason="needs the extra docs")
  command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
  result = subprocess.run(
    [*command, "--site-dir", str(tmp_path)],
    cwd=DOCS.parent,
    capture_output=True,
    text=True,
    timeout=600,
  )
  assert not result.returncode, result.stderr
  assert not dead_links(tmp_path)
  assert "--max_seq_length" in (tmp_path / "cli.html").read_text()
  assert 'id="bert_tf.' in (tmp_path / "api.html").read_text()
