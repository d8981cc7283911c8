"""Comments, docstrings, messages and names avoid phrases that are hard to read.

CONTRIBUTING.md has the rules of style with examples. This test knows only the
phrases that are never right in this project, so a text that passes it can still
need work.
"""

import ast
import io
import pathlib
import re
import textwrap
import tokenize

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("bert_tf", "research", "run_scripts", "tests")

# A pattern, and what to write instead.
PHRASES = (
  (
    r"\b(that|which|what|who|it|they) (is|are|was|were) no\b(?! longer\b)",
    "is not a",
  ),
  (r"\bas far as (there|it|they|that)\b", "if any; if known"),
  (
    r"\bone's\b|\b(that|if|as) one (has|can|wants|needs|may)\b",
    "you; the user",
  ),
  (r"\bbesides[.,;:)]", "also; in addition"),
  (r"\bthere (is|are|was|were) none\b", "there is no THING; returns None if"),
  (r"\bwhatever the \w+ says\b", "regardless of"),
  (r"\b(is|are|was|were) (of|from|with|for|by)[.,;:)]", "name the thing"),
  (r"\b(the|this|a) position that speaks for\b", "[CLS] position"),
  (r"\bgoes without saying\b", "leave it out"),
  (r"\bbut for (the|its|those|that)\b", "except"),
  (r"\blikewise\b", "also; in the same way"),
)
# Docstrings start with a noun phrase or a verb.
OPENING = re.compile(r"(What|Which|Where|Whose|Whoever|Of|Those|That)\b")

VAGUE_NAMES = frozenset(
  "found said one every none at told asked done kept those these".split()
)


def python_files(folder):
  """The Python files of a folder of the checkout."""
  return sorted((ROOT / folder).rglob("*.py"))


def documented(tree):
  """The nodes that have a docstring, each with it."""
  kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
  for node in ast.walk(tree):
    if isinstance(node, kinds) and ast.get_docstring(node):
      yield node.body[0].value, ast.get_docstring(node)


def comments(source):
  """(line, text) of each block of comments."""
  block, first, last = [], 0, 0
  for token in tokenize.generate_tokens(io.StringIO(source).readline):
    if token.type != tokenize.COMMENT:
      continue
    line = token.start[0]
    if block and line != last + 1:
      yield first, " ".join(block)
      block = []
    if not block:
      first = line
    block.append(token.string.lstrip("#: "))
    last = line
  if block:
    yield first, " ".join(block)


def texts(source):
  """(line, text) of the docstrings, messages and comments of a module."""
  tree = ast.parse(source)
  docstrings = {id(node) for node, _ in documented(tree)}
  for node, text in documented(tree):
    yield node.lineno, text
  for node in ast.walk(tree):
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    if is_text and id(node) not in docstrings and len(node.value.split()) > 3:
      yield node.lineno, node.value
  yield from comments(source)


def hard_phrases(source):
  """(line, phrase, advice) of each phrase to replace in a module."""
  for line, text in texts(source):
    text = " ".join(text.split())
    for pattern, advice in PHRASES:
      for match in re.finditer(pattern, text, re.IGNORECASE):
        yield line, match.group(), advice
  for node, text in documented(ast.parse(source)):
    if OPENING.match(text):
      opening = textwrap.shorten(text, 40)
      yield node.lineno, opening, "start with a noun phrase or a verb"


def vague_names(source):
  """(line, name) of each variable and argument with a name to replace."""
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
      name = node.id
    elif isinstance(node, ast.arg):
      name = node.arg
    else:
      continue
    if name in VAGUE_NAMES:
      yield node.lineno, name


@pytest.mark.parametrize("folder", FOLDERS)
def test_texts_have_no_phrases_that_are_never_right(folder):
  places = [
    f"{path.relative_to(ROOT)}:{line}: {phrase!r}; write: {advice}"
    for path in python_files(folder)
    if path != pathlib.Path(__file__).resolve()
    for line, phrase, advice in hard_phrases(path.read_text("utf-8"))
  ]
  assert not places, "\n".join(["", *places])


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_say_what_they_hold(folder):
  places = [
    f"{path.relative_to(ROOT)}:{line}: {name}"
    for path in python_files(folder)
    for line, name in vague_names(path.read_text("utf-8"))
  ]
  assert not places, "\n".join(["", *places])


def test_each_kind_of_text_is_read():
  source = '''
"""Of a module."""
def run(found):  # As far as there are any.
  said = "that is no file here"
'''
  phrases = [phrase for _, phrase, _ in hard_phrases(source)]
  assert phrases == ["that is no", "As far as there", "Of a module."]
  assert sorted(n for _, n in vague_names(source)) == ["found", "said"]
