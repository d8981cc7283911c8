"""Leads the notebooks' links to pages of the site; a hook of mkdocs."""

import re
from typing import Any


def on_post_page(output: str, page: Any, config: Any) -> str:
  """Returns a page whose links to pages and notebooks end in .html."""
  if not page.file.src_uri.endswith(".ipynb"):
    return output
  return re.sub(
    r'href="((?:\.\./)?\w+)\.(?:md|ipynb)(?=["#])', r'href="\1.html', output
  )
