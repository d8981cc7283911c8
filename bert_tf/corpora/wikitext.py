"""Takes the running text out of wikitext.

As for the original BERT, only passages of text stay: lists, tables and
headings are left out (Devlin et al. 2019, section 3.1), and so are templates,
footnotes, pictures and formulas.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

from bert_tf.files import errors

# Elements whose content is no running text.
_DROPPED_TAGS = frozenset(
  "ce chem gallery graph hiero imagemap indicator math mapframe pre ref "
  "references score section source style syntaxhighlight templatestyles "
  "timeline".split()
)
# Templates that only say something of the words which are their last argument.
_KEPT_TEMPLATE = re.compile(r"(?:lang(?:-\w+)?|nowrap|nobr)\s*", re.IGNORECASE)

# Begins the lines of lists.
_LIST_MARK = "\0"

# Comments and footnotes, up to half of an article: cut before it is parsed,
# which takes a third of the time then.
_NOTES = re.compile(
  r"<!--.*?-->|<ref\b[^<>]*/>|<ref\b[^<>]*>(?:(?!<ref).)*?</ref\s*>",
  re.DOTALL | re.IGNORECASE,
)

_REMAINS = re.compile(
  r"'{2,}"  # Bold and italic.
  r"|__[A-Z]+__"  # Switches such as __NOTOC__.
  r"|\s?[(（]\s*(?:[,;:،؛、，；]\s*)*[)）]"  # What was in brackets is gone.
)

# -{A}-, -{zh-hans:A; zh-hant:B}- and -{T|A}-: words that Chinese writes in two
# ways.
_VARIANTS = re.compile(r"-\{(?:([^{}|]*)\|)?([^{};]*)[^{}]*\}-")

# Halves of characters, which entities such as &#xD83D; can name.
_SURROGATE = re.compile("[\ud800-\udfff]")


def plain_text(wikitext: str, hidden_namespaces: Collection[str]) -> str:
  """Returns the text, a paragraph a line, without blank lines.

  Args:
    wikitext: a page.
    hidden_namespaces: lower-cased names of namespaces; links to pages there are
      pictures and categories, not words of the text.

  Raises:
    ImportError: if mwparserfromhell is missing.
  """
  with errors.needs_extra("reading wikitext", extra="corpus"):
    import mwparserfromhell
  # Without style tags it is faster; _REMAINS takes out their marks.
  parsed = mwparserfromhell.parse(
    _NOTES.sub("", wikitext), skip_style_tags=True
  )
  text = "".join(_pieces(parsed, frozenset(hidden_namespaces)))
  if _SURROGATE.search(text):
    text = _without_surrogates(text)
  text = _VARIANTS.sub(_first_variant, text)
  lines = (line.strip() for line in text.split("\n"))
  kept = (line for line in lines if not line.startswith(_LIST_MARK))
  cleaned = (_REMAINS.sub("", line).strip() for line in kept)
  return "\n".join(filter(None, cleaned))


def _without_surrogates(text: str) -> str:
  """Returns text with pairs of surrogates joined, U+FFFD for other ones."""
  encoded = text.encode("utf-16-le", "surrogatepass")
  return encoded.decode("utf-16-le", "replace")


def _first_variant(match: re.Match[str]) -> str:
  """Returns the first way to write a word, nothing of a hidden rule."""
  flags, words = match[1] or "", match[2]
  if "T" in flags or "H" in flags:
    return ""
  return re.sub(r"^\s*zh(?:-\w+)?\s*:", "", words).strip()


def _pieces(code: Any, hidden: frozenset[str]) -> Iterator[str]:
  """Yields the pieces of text of parsed wikitext."""
  for node in code.nodes:
    kind = type(node).__name__
    if kind == "Text":
      yield node.value
    elif kind == "HTMLEntity":
      yield node.normalize()
    elif kind == "Wikilink":
      yield from _link_pieces(node, hidden)
    elif kind == "ExternalLink" and node.brackets and node.title:
      yield from _pieces(node.title, hidden)
    elif kind == "Tag":
      yield from _tag_pieces(node, hidden)
    elif kind == "Template" and _KEPT_TEMPLATE.fullmatch(str(node.name)):
      if node.params:
        yield from _pieces(node.params[-1].value, hidden)


def _link_pieces(link: Any, hidden: frozenset[str]) -> Iterator[str]:
  """Yields the words of a link to a page, nothing of a picture."""
  title = str(link.title).strip()
  namespace, colon, _ = title.partition(":")
  # A colon before it makes a plain link of it.
  if colon and namespace.strip().lower().replace("_", " ") in hidden:
    return
  if link.text is not None:
    yield from _pieces(link.text, hidden)
  else:
    yield title.removeprefix(":")


def _tag_pieces(tag: Any, hidden: frozenset[str]) -> Iterator[str]:
  """Yields the text inside an element."""
  name = str(tag.tag).strip().lower()
  if tag.wiki_markup and name in ("li", "dd", "dt"):
    yield _LIST_MARK
  elif name == "br":
    yield " "
  elif name in ("table", "hr"):
    yield "\n"
  elif name in ("p", "div", "blockquote"):
    yield "\n"
    yield from _pieces(tag.contents, hidden)
    yield "\n"
  elif name not in _DROPPED_TAGS and tag.contents is not None:
    yield from _pieces(tag.contents, hidden)
