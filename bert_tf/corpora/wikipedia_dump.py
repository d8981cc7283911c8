"""Reads the articles of a Wikipedia dump, MediaWiki's XML, as wikitext."""

import collections
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from absl import logging

from bert_tf.files import compression

# Numbers of MediaWiki's namespaces.
_ARTICLE, _FILE, _CATEGORY = "0", "6", "14"

# Names of the file and category namespaces in every wiki. Each wiki adds names
# in its language.
_NAMES_EVERYWHERE = ("category", "file", "image")

# The standard attribute xml:lang.
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def articles(
  path: str, language: str, counts: collections.Counter[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
  """Yields (wikitext of an article, namespaces whose links are not text).

  The text is that of the page's last revision. Skips redirects and pages that
  are not articles, and counts them as "pages_passed_over". Warns if the
  language of the dump is not `language`.

  Raises:
    ValueError: if the file is not a dump or is incomplete.
  """
  title, text = None, ""
  with compression.open_file(path) as reader:
    try:
      events = ElementTree.iterparse(reader, events=("start", "end"))
      root, namespaces = _read_head(path, events)
      _compare_languages(path, root.get(_LANGUAGE), language)
      hidden = _find_hidden_namespaces(namespaces)
      for event, element in events:
        tag = _local_name(element) if event == "end" else ""
        if tag == "title":
          title = element.text
        elif tag == "revision":
          text = element.findtext("{*}text") or ""
          element.clear()  # A page may have thousands of revisions.
        elif tag == "page":
          if _is_article(element, namespaces):
            yield text, hidden
          else:
            counts["pages_passed_over"] += 1
          text = ""
          root.clear()  # Otherwise the root would hold all pages.
    except ElementTree.ParseError as error:
      raise _xml_error(path, title, error) from None


def _read_head(
  path: str, events: Iterator[tuple[str, ElementTree.Element]]
) -> tuple[ElementTree.Element, Mapping[str, str]]:
  """Returns the root element, and the namespaces' numbers by name.

  Raises:
    ValueError: unless the file starts with <mediawiki> and <siteinfo>.
  """
  _, root = next(events)
  if _local_name(root) != "mediawiki":
    raise ValueError(
      f"{path} is not a Wikipedia dump: its first element is "
      f"<{_local_name(root)}>, not <mediawiki>."
    )
  for event, element in events:
    name = _local_name(element)
    if event == "end" and name == "siteinfo":
      spaces = element.iterfind("{*}namespaces/{*}namespace")
      return root, {s.text or "": s.get("key", "") for s in spaces}
    if name == "page":
      break
  raise ValueError(
    f"{path} is not a Wikipedia dump: not MediaWiki's XML (no <siteinfo> "
    "before the first page)."
  )


def _local_name(element: ElementTree.Element) -> str:
  """Returns the tag without the XML namespace, which names the version."""
  return element.tag.rpartition("}")[2]


def _is_article(
  page: ElementTree.Element, namespaces: Mapping[str, str]
) -> bool:
  """Returns whether a page is an article and not a redirect."""
  number = page.findtext("{*}ns")
  if number is None:  # Before version 0.6, only the title tells.
    prefix, colon, _ = (page.findtext("{*}title") or "").partition(":")
    number = namespaces.get(prefix, _ARTICLE) if colon else _ARTICLE
  return number == _ARTICLE and page.find("{*}redirect") is None


def _compare_languages(
  path: str, dump_language: str | None, language: str
) -> None:
  """Warns if a dump's language is not the given one."""
  if dump_language and dump_language[:2].lower() != language[:2].lower():
    logging.warning(
      "%s is in the language %s, but sentences are split by the rules of %s; "
      "give `language=%s`.",
      path,
      dump_language,
      language,
      dump_language,
    )


def _xml_error(path: str, title: str | None, error: Exception) -> ValueError:
  """Returns the error for malformed or incomplete XML."""
  reason = str(error).splitlines()[0][:120]
  if title is None:
    return ValueError(
      f"{path} is not a Wikipedia dump: not MediaWiki's XML ({reason})."
    )
  return ValueError(
    f"{path} is not a whole dump: it breaks off after the page {title!r} "
    f"({reason}); fetch it again."
  )


def _find_hidden_namespaces(namespaces: Mapping[str, str]) -> tuple[str, ...]:
  names = {
    name.lower()
    for name, number in namespaces.items()
    if number in (_FILE, _CATEGORY) and name
  }
  return tuple(sorted(names.union(_NAMES_EVERYWHERE)))
