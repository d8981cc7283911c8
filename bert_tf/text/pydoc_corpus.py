"""Makes a corpus from the docstrings of the running Python and of packages.

Every machine has this small text, so that trials need no download. The source
is read, but never imported. Code, tables, signatures and markup are left out.
"""

import ast
import importlib.util
import os
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from pydoc_data import topics

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

# Folders and files without documentation for users.
_SKIPPED = re.compile(
  r"__pycache__|site-packages|.*tests?|testing|idlelib|lib2to3|turtledemo"
  r"|encodings|.*_internal|third_party|include|.*_test\.py|test_.*\.py"
)

# What separates paragraphs: blank lines, underlines, "name : type", "- ", "1. "
# and "name (type): ".
_BREAK = re.compile(
  r"^(?:\s*\n|[ \t]*[=~^-]{3,}.*\n|[ \t]*[\w*`, ]+ : .*\n"
  r"|[ \t]*(?:[-*+•]|\d+\.|[\w*`]+(?: \([^)\n]*\))?:)\s+)",
  re.MULTILINE,
)
# Marks that are removed: `x`, *x* and the role of :func:`~x`.
_MARKUP = re.compile(r":[a-z:]+:(?=`)|`~?|(?<!\w)\*+(?=\w)|(?<=[\w.])\*+(?!\w)")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.|i\.e\.)\s+(?=[\"'(]?[A-Z])")
_SENTENCE = re.compile(r"[\"'(]*[A-Z][^][{}<>\\|@#$%^~=]*[.!?][\"')]*")
_WORD = re.compile(r"[\"'(]*[A-Za-z][a-z]*(?:['-][A-Za-z]+)*[\"'):;,.!?]*")


def read_documents(packages: Sequence[str] = ()) -> Iterator[list[str]]:
  """Yields the documents of Python, then of packages, as lists of sentences.

  A document is a help topic or a module. Those with fewer than five new
  sentences are joined with the next one.
  """
  folders = [sysconfig.get_paths()["stdlib"]]
  for name in packages:
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if not spec or not spec.submodule_search_locations:
      raise ValueError(f"pydoc_packages: {name} is not an installed package.")
    folders.append(spec.submodule_search_locations[0])
  seen: set[str] = set()
  document: list[str] = []
  for docstrings in _read_modules(folders):
    for sentence in find_sentences("\n\n".join(docstrings)):
      if sentence not in seen:
        seen.add(sentence)
        document.append(sentence)
    if len(document) >= 5:  # Enough for next-sentence prediction.
      yield document
      document = []


def _read_modules(folders: Sequence[str]) -> Iterator[list[str]]:
  """Yields the docstrings of each help topic and of each module."""
  yield from ([text] for _, text in sorted(topics.topics.items()))
  for top in folders:
    for folder, subfolders, files in os.walk(top):
      subfolders[:] = sorted(n for n in subfolders if not _SKIPPED.fullmatch(n))
      for name in sorted(files):
        if not name.endswith(".py") or _SKIPPED.fullmatch(name):
          continue
        path = os.path.join(folder, name)
        try:
          with open(path, "rb") as reader, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Invalid escapes in the code.
            nodes = [*ast.walk(ast.parse(reader.read()))]
        except (SyntaxError, ValueError):
          continue  # A template, or code for another Python version.
        documented = [n for n in nodes if isinstance(n, _DOCUMENTED)]
        yield [ast.get_docstring(node) or "" for node in documented]


def find_sentences(docstring: str) -> Iterator[str]:
  """Yields the English sentences of a docstring, without markup or code."""
  for paragraph in _BREAK.split(docstring):
    if ">>>" in paragraph or "::" in paragraph:
      continue
    text = " ".join(_MARKUP.sub("", paragraph).split())
    for sentence in _SENTENCE_END.split(text):
      words = sentence.split()
      num_prose = sum(bool(_WORD.fullmatch(word)) for word in words)
      if len(words) >= 4 and num_prose >= 0.75 * len(words):
        if _SENTENCE.fullmatch(sentence):
          yield sentence
