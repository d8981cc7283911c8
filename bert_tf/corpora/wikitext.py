"""Extracts the running text from wikitext.

As for the original BERT, only text passages remain. Lists, tables and headings
are left out (Devlin et al. 2019, section 3.1), and so are templates, footnotes,
pictures and formulas.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

from bert_tf.files import errors

# Elements whose content is not running text.
_DROPPED_TAGS = frozenset(
  "ce chem gallery graph hiero imagemap indicator math mapframe pre ref "
  "references score section source style syntaxhighlight templatestyles "
  "timeline".split()
)
# Templates that only annotate their last argument, such as {{lang|fr|mot}}.
_KEPT_TEMPLATE = re.compile(r"(?:lang(?:-\w+)?|nowrap|nobr)\s*", re.IGNORECASE)

# Marks the lines of lists.
_LIST_MARK = "\0"

# Comments and footnotes, up to half of an article. Removing them first cuts the
# time of parsing to a third.
_NOTES = re.compile(
  r"<!--.*?-->|<ref\b[^<>]*/>|<ref\b[^<>]*>(?:(?!<ref).)*?</ref\s*>",
  re.DOTALL | re.IGNORECASE,
)

_REMAINS = re.compile(
  r"'{2,}"  # Bold and italic.
  r"|__[A-Z]+__"  # Switches such as __NOTOC__.
  r"|\s?[(（]\s*(?:[,;:،؛、，；]\s*)*[)）]"  # Brackets without content.
)

# Chinese words with several spellings: -{A}-, -{zh-hans:A; zh-hant:B}- and
# -{T|A}-.
_VARIANTS = re.compile(r"-\{([^{}]*)\}-")

# The parser scans to the end of the page for each unclosed mark. If unclosed
# marks times characters exceed this limit, parsing would take over a second, so
# the page is cut into blocks of _BLOCK_CHARS characters.
_MAX_UNCLOSED_CHARS = 1 << 25
_BLOCK_CHARS = 500
_BLOCK = re.compile(rf"[^\n]{{1,{_BLOCK_CHARS}}}\n?|\n")

_MARK = re.compile(r"[\[\]{}]|<!--|-->|</?[a-z]\w*|/>", re.IGNORECASE)
_CLOSING_MARKS = {"[": "]", "{": "}", "<!--": "-->"}
_SINGLE_TAGS = frozenset("<br <hr <img <link <meta <wbr".split())

# Surrogates, which entities such as &#xD83D; can name.
_SURROGATE = re.compile("[\ud800-\udfff]")


def plain_text(wikitext: str, hidden_namespaces: Collection[str]) -> str:
  """Returns the text of a page, one paragraph per line, without blank lines.

  Args:
    wikitext: the page.
    hidden_namespaces: lower-cased names of namespaces, such as "category".
      Links to their pages are not text.

  Raises:
    ImportError: if mwparserfromhell is missing.
  """
  with errors.needs_extra("reading wikitext", extra="corpus"):
    import mwparserfromhell
  hidden = frozenset(hidden_namespaces)
  text = ""
  for block in _split_blocks(wikitext):
    # Skipping style tags is faster. _REMAINS removes their marks.
    parsed = mwparserfromhell.parse(_NOTES.sub("", block), skip_style_tags=True)
    text += "".join(_extract_text(parsed, hidden))
  if _SURROGATE.search(text):
    text = _join_surrogates(text)
  text = _VARIANTS.sub(_choose_variant, text)
  lines = (line.strip() for line in text.split("\n"))
  text_lines = (line for line in lines if not line.startswith(_LIST_MARK))
  cleaned = (_REMAINS.sub("", line).strip() for line in text_lines)
  return "\n".join(filter(None, cleaned))


def _split_blocks(wikitext: str) -> list[str]:
  """Returns the page, cut into blocks if parsing would take too long."""
  if _count_unclosed(wikitext) * len(wikitext) <= _MAX_UNCLOSED_CHARS:
    return [wikitext]
  return _BLOCK.findall(wikitext)


def _count_unclosed(wikitext: str) -> int:
  """Returns the number of marks that are not closed in the right order."""
  expected: list[str] = []
  for mark in map(str.lower, _MARK.findall(wikitext)):
    if mark in _CLOSING_MARKS:
      expected.append(_CLOSING_MARKS[mark])
    elif mark[0] == "<" and mark[1] != "/":
      if mark not in _SINGLE_TAGS:
        expected.append(f"</{mark[1:]}")
    elif expected and (
      expected[-1] == mark or (mark == "/>" and expected[-1].startswith("</"))
    ):
      expected.pop()
  return len(expected)


def _join_surrogates(text: str) -> str:
  """Joins pairs of surrogates and replaces single ones by U+FFFD."""
  encoded = text.encode("utf-16-le", "surrogatepass")
  return encoded.decode("utf-16-le", "replace")


def _choose_variant(match: re.Match[str]) -> str:
  """Returns the first spelling of a word; "" for a hidden conversion rule."""
  flags, bar, words = match[1].partition("|")
  if not bar:
    flags, words = "", flags
  if "T" in flags or "H" in flags:
    return ""
  words = words.partition(";")[0]
  return re.sub(r"^\s*zh(?:-\w+)?\s*:", "", words).strip()


def _extract_text(code: Any, hidden: frozenset[str]) -> Iterator[str]:
  for node in code.nodes:
    kind = type(node).__name__
    if kind == "Text":
      yield node.value
    elif kind == "HTMLEntity":
      yield node.normalize()
    elif kind == "Wikilink":
      yield from _extract_link(node, hidden)
    elif kind == "ExternalLink" and node.brackets and node.title:
      yield from _extract_text(node.title, hidden)
    elif kind == "Tag":
      yield from _extract_tag(node, hidden)
    elif kind == "Template" and _KEPT_TEMPLATE.fullmatch(str(node.name)):
      if node.params:
        yield from _extract_text(node.params[-1].value, hidden)


def _extract_link(link: Any, hidden: frozenset[str]) -> Iterator[str]:
  """Yields the words of a link; nothing for pictures and categories."""
  title = str(link.title).strip()
  namespace, colon, _ = title.partition(":")
  # A leading colon makes it a plain link, so the namespace is then "".
  if colon and namespace.strip().lower().replace("_", " ") in hidden:
    return
  if link.text is not None:
    yield from _extract_text(link.text, hidden)
  else:
    yield title.removeprefix(":")


def _extract_tag(tag: Any, hidden: frozenset[str]) -> Iterator[str]:
  name = str(tag.tag).strip().lower()
  if tag.wiki_markup and name in ("li", "dd", "dt"):
    yield _LIST_MARK
  elif name == "br":
    yield " "
  elif name in ("table", "hr"):
    yield "\n"
  elif name in ("p", "div", "blockquote"):
    yield "\n"
    yield from _extract_text(tag.contents, hidden)
    yield "\n"
  elif name not in _DROPPED_TAGS and tag.contents is not None:
    yield from _extract_text(tag.contents, hidden)
