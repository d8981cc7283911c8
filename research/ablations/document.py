"""A report as blocks, written as Markdown and as one page of HTML.

Imports no TensorFlow.
"""

import base64
import dataclasses
import html
import os
from collections.abc import Iterator, Sequence

from bert_tf.files import paths


@dataclasses.dataclass(frozen=True)
class Heading:
  """A title; level 1 is that of the whole."""

  text: str
  level: int


@dataclasses.dataclass(frozen=True)
class Text:
  """A paragraph of plain text, in which `code` stands between backticks."""

  text: str


@dataclasses.dataclass(frozen=True)
class Table:
  """Rows of cells under a header; the first column is text."""

  header: Sequence[str]
  rows: Sequence[Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Picture:
  """A drawn file in the folder of the report."""

  file: str
  caption: str


Block = Heading | Text | Table | Picture


def markdown(blocks: Sequence[Block]) -> Iterator[str]:
  """Yields the lines of a Markdown file."""
  for block in blocks:
    if isinstance(block, Heading):
      yield f"{'#' * block.level} {block.text}"
    elif isinstance(block, Text):
      yield block.text
    elif isinstance(block, Picture):
      yield f"![{block.caption}]({block.file})"
    else:
      yield _row(block.header)
      yield _row(["---", *["--:"] * (len(block.header) - 1)])
      yield from map(_row, block.rows)
    yield ""


def _row(cells: Sequence[str]) -> str:
  shown = " | ".join(cell.replace("|", "\\|") for cell in cells)
  return f"| {shown} |"


_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1f2937;
  max-width: 62rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.9rem; } h2 { margin-top: 3rem; border-top: 1px solid #e5e7eb;
  padding-top: 1.5rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .92rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid
  #e5e7eb; }
th:first-child, td:first-child { text-align: left; }
th { border-bottom: 2px solid #9ca3af; }
div.wide { overflow-x: auto; }
figure { margin: 1.5rem 0; } img { max-width: 100%; height: auto; }
figcaption { color: #6b7280; font-size: .9rem; }
code { background: #f3f4f6; padding: .1em .3em; border-radius: 3px; }
"""


def page(blocks: Sequence[Block], folder: str) -> Iterator[str]:
  """Yields the lines of an HTML page that holds its pictures.

  Args:
    blocks: of the report.
    folder: where its pictures are.
  """
  title = next(b.text for b in blocks if isinstance(b, Heading))
  yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
  yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
  yield f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>"
  yield "<body>"
  for block in blocks:
    if isinstance(block, Heading):
      yield f"<h{block.level}>{_text(block.text)}</h{block.level}>"
    elif isinstance(block, Text):
      yield f"<p>{_text(block.text)}</p>"
    elif isinstance(block, Picture):
      yield _figure(block, folder)
    else:
      yield '<div class="wide"><table>'
      yield _cells("th", block.header)
      yield from (_cells("td", row) for row in block.rows)
      yield "</table></div>"
  yield "</body></html>"


def _text(text: str) -> str:
  """Returns text as HTML; every other part between backticks is code."""
  parts = html.escape(text, quote=False).split("`")
  return "".join(
    f"<code>{part}</code>" if number % 2 else part
    for number, part in enumerate(parts)
  )


def _cells(tag: str, cells: Sequence[str]) -> str:
  inner = "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells)
  return f"<tr>{inner}</tr>"


def _figure(picture: Picture, folder: str) -> str:
  content = paths.read_bytes(os.path.join(folder, picture.file))
  encoded = base64.b64encode(content).decode()
  caption = html.escape(picture.caption)
  return (
    f'<figure><img alt="{caption}" src="data:image/png;base64,{encoded}">'
    f"<figcaption>{caption}</figcaption></figure>"
  )
