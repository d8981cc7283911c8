"""docs/*.py, the hooks of the site: links and the command-line reference."""

import importlib.util
import pathlib
import re
import types

from bert_tf.cli import main

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
REPOSITORY = "https://example.org/repository/"


def load_hook(name):
  spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def page(path):
  return types.SimpleNamespace(file=types.SimpleNamespace(src_uri=path))


def site_text(text, path, repo_url):
  config = types.SimpleNamespace(repo_url=repo_url)
  return load_hook("site_links").on_page_markdown(
    text, page(path), config, None
  )


def test_links_within_the_site_stay():
  text = "[a](gpu.md#x) [b](../gpu.md) [c](https://example.org/../d)"
  assert site_text(text, "decisions/index.md", REPOSITORY) == text


def test_links_out_of_docs_lead_into_the_repository():
  text = "see the [log](../../research/LOG.md#a)"
  expected = f"see the [log]({REPOSITORY}blob/main/research/LOG.md#a)"
  assert site_text(text, "decisions/index.md", REPOSITORY) == expected
  assert site_text("[R](../README.md)", "gpu.md", None) == "R"


def test_the_command_line_page_has_every_command():
  text = (DOCS / "cli.md").read_text()
  rows = re.findall(r"^\| `([\w-]+)` \|.*\| `(\w+)\.py` \|$", text, re.M)
  assert sorted(name for name, _ in rows) == sorted(main.COMMANDS)
  for name, script in rows:
    path = DOCS.parent / "run_scripts" / f"{script}.py"
    assert f"bert_tf.cli.{main.COMMANDS[name]}" in path.read_text()


def test_the_command_line_page_has_the_groups_of_the_help():
  groups = {
    title.lower(): main.COMMANDS.keys() & names
    for title, names in main.GROUPS.items()
  }
  text = (DOCS / "cli.md").read_text()
  tables = re.findall(
    r"^\| ([\w ]+) \| \| script \|\n((?:\|.*\n)+)", text, re.M
  )
  names = {
    t: set(re.findall(r"^\| `([\w-]+)`", rows, re.M)) for t, rows in tables
  }
  assert names == {title: group for title, group in groups.items() if group}


def test_the_site_gets_a_table_of_flags_for_a_command():
  section = load_hook("cli_reference").section("fill-mask")
  rows = re.findall(r"^\| `--(\w+)` \| (.*?) \| (.+) \|$", section, re.M)
  flags = {name: default for name, default, _ in rows}
  assert flags["top_k"] == "5"
  assert {"model", "text", "input_file", "vocab_file"} <= flags.keys()
  assert "verbosity" not in flags


def test_other_pages_get_no_flags():
  hook = load_hook("cli_reference")
  assert hook.on_page_markdown("text", page("gpu.md"), None, None) == "text"
