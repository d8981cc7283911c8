"""Finds the messages of bert_tf that give advice, by reading its source.

A message gives advice if a clause of it begins with an imperative. Tests
identify a message by its module and function, so that its wording may change.
"""

import ast
import collections
import pathlib
import re

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "bert_tf"

_CALLS = ("logging.warning", "config_flags.refuse_given")

# Imperatives that begin a clause.
_VERBS = (
  "add call choose convert copy drop export fetch fill fine-tune free get give "
  "leave lower make mend move name open pass predict put raise read remove "
  "rename replace restart run save see send separate set shorten split start "
  "take train try unpack use write"
).split()
_ADVICE = re.compile(
  rf"(?:^|[.;:,] |\bor |\band )(?:{'|'.join(_VERBS)})\b(?!s)", re.IGNORECASE
)


def _text(node: ast.AST) -> str:
  """Returns the constant text of an expression; values become braces."""
  if isinstance(node, ast.Constant):
    return node.value if isinstance(node.value, str) else "{}"
  if isinstance(node, ast.JoinedStr):
    return "".join(map(_text, node.values))
  if isinstance(node, ast.BinOp):
    return _text(node.left) + _text(node.right)
  if isinstance(node, ast.BoolOp):
    return ". ".join(map(_text, node.values))
  if isinstance(node, ast.IfExp):
    return f"{_text(node.body)} | {_text(node.orelse)}"
  return "{}"


def _messages(node: ast.AST) -> list[str]:
  """Returns the messages that a node itself raises, logs or returns."""
  if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
    return [_text(argument) for argument in node.exc.args]
  if isinstance(node, ast.Call) and ast.unparse(node.func) in _CALLS:
    return [_text(argument) for argument in node.args[:1]]
  if isinstance(node, ast.Return) and node.value is not None:
    value = node.value  # A message, or an error made of it.
    parts = value.args if isinstance(value, ast.Call) else [value]
    return [text for text in map(_text, parts) if " " in text.strip()]
  return []


def _walk(node: ast.AST, scope: str) -> list[tuple[str, str]]:
  messages = [(scope, text) for text in _messages(node)]
  for child in ast.iter_child_nodes(node):
    inner = scope
    if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
      inner = f"{scope.split()[0]} {child.name}"
    messages += _walk(child, inner)
  return messages


def with_advice() -> collections.Counter[str]:
  """Returns the number of messages with advice, by "module function"."""
  counts: collections.Counter[str] = collections.Counter()
  for path in sorted(PACKAGE.rglob("*.py")):
    module = path.relative_to(PACKAGE).with_suffix("").as_posix()
    scope = module.replace("/", ".") + " "
    for where, text in _walk(ast.parse(path.read_text()), scope):
      if _ADVICE.search(text):
        counts[where.strip()] += 1
  return counts
