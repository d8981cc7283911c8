"""Loads the web page of the server, with its content security policy."""

import base64
import hashlib
import importlib.resources
import re


def load() -> tuple[str, dict[str, str]]:
  """Returns the page, with its styles and scripts, and its response headers.

  page.html names these files in braces. The page makes no requests except those
  to the server's API.
  """
  folder = importlib.resources.files("bert_tf.server")
  html = (folder / "page.html").read_text(encoding="utf-8")
  html = re.sub(
    r"(?<=>)\{(\w+\.\w+)\}(?=<)",
    lambda match: (folder / match[1]).read_text(encoding="utf-8"),
    html,
  )
  # The scripts never parse texts as HTML; the policy is a second defence.
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
  return html, headers


def _hashes(html: str, tag: str) -> str:
  contents = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
  digests = [hashlib.sha256(text.encode()).digest() for text in contents]
  return " ".join(f"'sha256-{base64.b64encode(d).decode()}'" for d in digests)
