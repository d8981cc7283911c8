"""Reads the articles of a Wikipedia dump, MediaWiki's XML, as wikitext."""

import collections
from collections.abc import Iterator
from typing import Any, BinaryIO
from xml.etree import ElementTree

from absl import logging

from bert_tf.files import compression, errors

# Numbers of MediaWiki's namespaces.
_ARTICLE, _FILE, _CATEGORY = 0, 6, 14

# Names of the file and category namespaces in every wiki. Each wiki adds names
# in its language.
_NAMES_EVERYWHERE = ("category", "file", "image")

# The standard attribute xml:lang.
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def articles(
  path: str, language: str, counts: collections.Counter[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
  """Yields (wikitext of an article, namespaces whose links are not text).

  Skips redirects and pages that are not articles, and counts them as
  "pages_passed_over". Warns if the language of the dump is not `language`.

  Raises:
    ValueError: if the file is not a dump or is incomplete.
    ImportError: if mwxml is missing.
  """
  with errors.needs_extra("reading Wikipedia dumps", extra="corpus"):
    import mwxml
    from mwxml import errors as mwxml_errors
  title = None
  with compression.open_file(path) as reader:
    try:
      root = _read_root(path, reader)
      _compare_languages(path, root.attr(_LANGUAGE), language)
      dump = mwxml.Dump.from_element(root)
      hidden = _find_hidden_namespaces(dump.site_info)
      for page in dump.pages:
        title = page.title
        text = ""
        for revision in page:
          text = revision.text or ""
        if page.namespace != _ARTICLE or page.redirect:
          counts["pages_passed_over"] += 1
        else:
          yield text, hidden
        root.element.clear()  # Otherwise the root would hold all pages.
    except (ElementTree.ParseError, mwxml_errors.MalformedXML) as error:
      raise _xml_error(path, title, error) from None


def _read_root(path: str, reader: BinaryIO) -> Any:
  """Returns the root element after reading its first tag."""
  from mwxml import element_iterator

  root = element_iterator.ElementIterator.from_file(reader)
  if root.tag != "mediawiki":
    raise ValueError(
      f"{path} is not a Wikipedia dump: its first element is <{root.tag}>, not "
      "<mediawiki>."
    )
  return root


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


def _find_hidden_namespaces(site_info: Any) -> tuple[str, ...]:
  names = {
    space.name.lower()
    for space in site_info.namespaces or ()
    if space.id in (_FILE, _CATEGORY) and space.name
  }
  return tuple(sorted(names.union(_NAMES_EVERYWHERE)))
