"""Makes a corpus from the English documentation of the running Python.

Every machine has this small text, so that trials need no download. It comes
from the topics of `help()` and the docstrings of the standard library, of a few
C modules, and of chosen packages, whose source is read but never imported.
Code, tables, signatures and markup are left out.
"""

import ast
import importlib
import importlib.util
import inspect
import os
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pydoc_data import topics

# C modules with docstrings. Importing them has no side effects.
_C_MODULES = (
  "builtins _collections _csv _datetime _decimal _functools _io _socket "
  "_struct array atexit binascii cmath errno fcntl gc itertools marshal math "
  "mmap operator posix pwd resource select signal syslog time unicodedata zlib"
).split()

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

# Folders without documentation for users.
_SKIPPED_FOLDERS = re.compile(
  r"__pycache__|site-packages|.*tests?|testing|.*test_?data|idlelib|lib2to3"
  r"|turtledemo|encodings|.*_internal|.*\.egg-info|third_party|include"
)
_SKIPPED_FILES = re.compile(r".*_test\.py|test_.*\.py|conftest\.py|gen_.*\.py")

# Sentences that a document needs for next-sentence prediction.
_MIN_SENTENCES = 5
# Limits of a sentence.
_MIN_WORDS = 4
_MAX_CHARS = 500


def documents(packages: Sequence[str] = ()) -> Iterator[list[str]]:
  """Yields the documents of Python, then of packages, as lists of sentences.

  A document is a help topic or a module with at least five sentences of four
  words or more. Small modules of one folder are joined into one document, and
  repeated sentences are dropped.
  """
  folders = []
  for name in packages:
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if not spec or not spec.submodule_search_locations:
      raise ValueError(f"pydoc_packages: {name} is not an installed package.")
    folders.append(spec.submodule_search_locations[0])
  seen: set[str] = set()
  for topic in sorted(topics.topics):
    yield from _make_documents([[topics.topics[topic]]], seen)
  for name in _C_MODULES:
    yield from _make_documents([_import_docstrings(name)], seen)
  yield from _read_folder(sysconfig.get_paths()["stdlib"], seen)
  for folder in folders:
    yield from _read_folder(folder, seen)


def _read_folder(top: str, seen: set[str]) -> Iterator[list[str]]:
  for folder, subfolders, files in os.walk(top):
    subfolders[:] = sorted(
      name for name in subfolders if not _SKIPPED_FOLDERS.fullmatch(name)
    )
    modules = [
      os.path.join(folder, name)
      for name in sorted(files)
      if name.endswith(".py") and not _SKIPPED_FILES.fullmatch(name)
    ]
    yield from _make_documents(map(_read_docstrings, modules), seen)


def _make_documents(
  modules: Iterable[Iterable[str]], seen: set[str]
) -> Iterator[list[str]]:
  """Yields a document per module, and one that joins all small modules.

  Sentences that are in `seen` are dropped; the others join it.
  """
  small = []
  for docstrings in modules:
    document = []
    for docstring in docstrings:
      for sentence in sentences(docstring):
        key = sentence.lower().rstrip(".:")
        if key not in seen:
          seen.add(key)
          document.append(sentence)
    if len(document) >= _MIN_SENTENCES:
      yield document
    else:
      small.extend(document)
  if len(small) >= _MIN_SENTENCES:
    yield small


def _read_docstrings(path: str) -> Iterator[str]:
  try:
    with open(path, "rb") as reader, warnings.catch_warnings():
      warnings.simplefilter("ignore")  # Invalid escapes in the parsed code.
      tree = ast.parse(reader.read())
  except (SyntaxError, ValueError):
    return  # A template, or code for another Python version.
  yield from _find_docstrings(tree)


def _find_docstrings(node: ast.AST) -> Iterator[str]:
  if isinstance(node, _DOCUMENTED):
    if docstring := ast.get_docstring(node):
      yield docstring
    for child in ast.iter_child_nodes(node):
      yield from _find_docstrings(child)


def _import_docstrings(name: str) -> Iterator[str]:
  if not importlib.util.find_spec(name):
    return
  module = importlib.import_module(name)
  members: list[object] = [module]
  for _, member in sorted(vars(module).items()):
    if inspect.isclass(member) or callable(member):
      members.append(member)
    if inspect.isclass(member):
      members += [method for _, method in sorted(vars(member).items())]
  for member in members:
    doc = getattr(member, "__doc__", None)
    if isinstance(doc, str):
      yield inspect.cleandoc(doc)


# Patterns of markup and the text that replaces them, applied in order.
_INLINE = (
  (r":(?:[a-z]+:)?[a-z]+:`[~!.]?([^`<]+?)(?:\s*<[^>`]*>)?`", r"\1"),  # Roles.
  (r"`{1,3}([^`]+)`{1,3}_*", r"\1"),
  (r"(?<![\w*])\*{1,2}(\w(?:[^*]*\w)?[.:!]?)\*{1,2}(?![\w*])", r"\1"),
  (r"`(\w+)'", r"'\1'"),
  (r"\s+", " "),
  (r"\s+([,.;:!?)])(?=\s|$)", r"\1"),
  (r"::$", ":"),
)
_UNDERLINE = re.compile(r"([=\-~^*+#\"'`.])\1{2,}[\s=\-~^*+]*")
_BULLET = re.compile(r"\A(?:[-*+•o]|\(?[0-9a-z]{1,2}[.)]|\[[0-9]+\])\s+(?=\S)")
# "name: text", "name (type): text" and "name -- text" of argument lists.
_ENTRY = re.compile(
  r"\A[`*\"']*[\w.*]+[`*\"']*(?:,\s[`*]*[\w.*]+[`*]*)*"
  r"\s*(?:\([^)]*\))?\s*(?::|--|–)\s+(?=\S)"
)
_TYPE_LINE = re.compile(
  r"[`*\"']*[\w.*]+[`*]*(?:,\s*[`*]*[\w.*]+[`*]*)*\s:\s.*"
)


def _skip_code(docstring: str) -> Iterator[tuple[int, str]]:
  """Yields (indent, text) of the lines outside code; "" for blank lines.

  Code is fenced, a doctest, or indented deeper than a line that ends in "::" or
  begins a reST directive.
  """
  is_fenced = is_doctest = False
  code_indent = None  # Lines indented deeper belong to a code block.
  for line in docstring.expandtabs().splitlines():
    text = line.strip()
    indent = len(line) - len(line.lstrip())
    if text.startswith(("```", "~~~")):
      is_fenced = not is_fenced
      text = ""
    if is_fenced:
      continue
    if not text:
      is_doctest = False
      yield indent, text
      continue
    if code_indent is not None and indent <= code_indent:
      code_indent = None
    is_doctest = is_doctest or text.startswith(">>>")
    is_directive = text.startswith(".. ")
    if code_indent is None and not is_doctest:
      yield indent, "" if is_directive else text
      if is_directive or text.endswith("::"):
        code_indent = indent


def _split_paragraphs(docstring: str) -> Iterator[str]:
  paragraph: list[str] = []
  previous_indent = 0
  for indent, text in _skip_code(docstring):
    if _UNDERLINE.fullmatch(text):
      paragraph = paragraph[:-1]  # Drop a heading or a row of a table.
      continue
    never_prose = not text or _TYPE_LINE.fullmatch(text)
    is_field = text.startswith((":", "@"))
    is_item = is_field or _BULLET.match(text) or _ENTRY.match(text)
    # The explanation of a term in a definition list.
    is_explanation = indent > previous_indent + 2 and text[:1].isupper()
    if never_prose or is_item or is_explanation:
      yield " ".join(paragraph)
      paragraph = []
    previous_indent = indent
    if not never_prose:
      paragraph.append(text)
  yield " ".join(paragraph)


_ABBREVIATION = re.compile(
  r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|ca|approx|resp|incl|Fig|Eq|Sec|Ref|No|Vol"
  r"|pp?|Dr|Mr|Mrs|Ms|Prof|Jr|St|Inc|Ltd|[A-Z]))\.$",
  re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9])")


def _split_sentences(paragraph: str) -> Iterator[str]:
  start = 0
  for match in _SENTENCE_END.finditer(paragraph):
    head = paragraph[start : match.end()].rstrip()
    if _ABBREVIATION.search(head) and not head.endswith("etc."):
      continue
    yield head
    start = match.end()
  yield paragraph[start:].strip()


_PROSE_WORD = re.compile(
  r"[\"'(\[]*[A-Za-z][a-z]*(?:['-][A-Za-z]+)*[\"'):;,.!?\]]*"
)
_FUNCTION_WORD = re.compile(
  r"\b(?:a|an|the|of|to|in|is|are|be|by|for|with|from|on|at|as|if|when|that"
  r"|this|it|or|and|not|can|will|was|has|have)\b",
  re.IGNORECASE,
)
_CODE_MARK = re.compile(
  r"https?:|://|[{}<>\\|@#$%^~`]|(?<!\w)=|=(?![\w'\"])|\w\([^\s)]|->|\]\[|\]_"
  r"|::|\.\.\.$|--\w|\w/\w+/"
)
_LABEL = re.compile(
  r"\A(?:Note|Notes|Returns?|Warning|Raises?|Example|Args?|TODO)\W*:\s+"
)


def _is_prose(sentence: str) -> bool:
  words = sentence.split()
  is_ended = sentence.rstrip("\"')]").endswith((".", "!", "?"))
  num_needed = _MIN_WORDS if is_ended and sentence[0].isupper() else 6
  if len(words) < num_needed or len(sentence) > _MAX_CHARS:
    return False
  if not (sentence[0].isalpha() or sentence[0] in "\"'("):
    return False
  if sentence[0].islower() and not is_ended:
    return False
  if _CODE_MARK.search(sentence) or not _FUNCTION_WORD.search(sentence):
    return False
  num_prose = sum(bool(_PROSE_WORD.fullmatch(word)) for word in words)
  return num_prose >= 0.75 * len(words)


def sentences(docstring: str) -> Iterator[str]:
  """Yields the English sentences of a docstring, without markup or code."""
  for paragraph in _split_paragraphs(docstring):
    text = _BULLET.sub("", paragraph.strip(), count=1)
    text = _ENTRY.sub("", text, count=1)
    for pattern, replacement in _INLINE:
      text = re.sub(pattern, replacement, text)
    for sentence in _split_sentences(text.strip()):
      sentence = _LABEL.sub("", sentence, count=1)
      if _is_prose(sentence):
        yield sentence
