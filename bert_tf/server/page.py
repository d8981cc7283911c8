"""The page that the server shows, and its content security policy."""

import base64
import hashlib
import importlib.resources
import re
from collections.abc import Mapping
from typing import NamedTuple


class Page(NamedTuple):
  """A page."""

  html: str  # The whole page; its only requests are to the model.
  headers: Mapping[str, str]  # Of the response.


def load() -> Page:
  """Returns the page that is installed with the package.

  Its styles and scripts, named in braces, are put into it: one request has all.
  """
  folder = importlib.resources.files("bert_tf.server")
  html = (folder / "page.html").read_text(encoding="utf-8")
  html = re.sub(
    r"(?<=>)\{(\w+\.\w+)\}(?=<)",
    lambda found: (folder / found[1]).read_text(encoding="utf-8"),
    html,
  )
  # Texts are never parsed as HTML; the policy is a second line of defence.
  policy = "; ".join(
    [
      "default-src 'none'",
      f"script-src {_hashes(html, 'script')}",
      f"style-src {_hashes(html, 'style')}",
      "connect-src 'self'",
      "img-src data:",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ]
  )
  headers = {
    "Content-Security-Policy": policy,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
  }
  return Page(html, headers)


def _hashes(html: str, tag: str) -> str:
  """Returns the hashes that allow the page's own scripts or styles."""
  contents = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
  digests = [hashlib.sha256(text.encode()).digest() for text in contents]
  return " ".join(f"'sha256-{base64.b64encode(d).decode()}'" for d in digests)
