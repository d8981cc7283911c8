"""Adapts links and directives for the site; a hook of mkdocs."""

import posixpath
import re
from typing import Any

# A docstring to insert; a comment, because GitHub would show the directive.
_DIRECTIVE = re.compile(r"<!-- (::: \S+) -->")
_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)\s]+)\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
  """Replaces links to files outside docs/, and comments with directives."""
  markdown = _DIRECTIVE.sub(r"\1\n", markdown)
  folder = posixpath.dirname(page.file.src_uri)
  return replace_outside_links(markdown, folder, config.repo_url)


def on_post_page(output: str, page: Any, config: Any) -> str:
  """Returns a page whose links to pages and notebooks end in .html."""
  if not page.file.src_uri.endswith(".ipynb"):
    return output
  return re.sub(
    r'href="((?:\.\./)?\w+)\.(?:md|ipynb)(?=["#])', r'href="\1.html', output
  )


def replace_outside_links(
  markdown: str, folder: str, repo_url: str | None
) -> str:
  """Replaces links that leave docs/ by links into the repository.

  Args:
    markdown: text of a page.
    folder: the page's folder, relative to docs/.
    repo_url: the repository's address; without one the file's path is given.
  """

  def replace(match: re.Match[str]) -> str:
    text, target = match.groups()
    path = posixpath.normpath(posixpath.join(folder, target))
    if not path.startswith("../"):
      return match[0]
    if not repo_url:
      return f"{text} (`{path[3:].partition('#')[0]}`)"
    return f"[{text}]({repo_url.rstrip('/')}/blob/main/{path[3:]})"

  return _LINK.sub(replace, markdown)
