"""Writes a Wikipedia dump of 100 MB from texts.

python -m tests.support.made_dump DUMP.xml.bz2 TEXT ...

Texts have one sentence per line and a blank line between documents, like the
corpora in ../shared/data. The dump adds the markup of articles: a template,
headings, links, footnotes, categories. It also adds talk pages and redirects.
docs/pretraining.md measures on this dump.
"""

import bz2
import itertools
import random
import sys
from collections.abc import Iterable, Iterator, Sequence

from bert_tf.corpora import corpus
from tests.support import wikipedia

_SENTENCES = 120  # Maximum per article.
_PARAGRAPH = 6  # Sentences per paragraph.

_TEMPLATE = """{{{{Infobox topic
| name = {title}
| image = File {number}.jpg
| caption = What is seen from the north, before it was built over.
| established = {{{{start date|19{year:02d}|05|01}}}}
}}}}
"""
_FOOTNOTE = (
  "<ref>{{{{cite web |url=https://www.example.org/archive/{number}/{place} "
  "|title=Volume {place} of the collected papers |publisher=A Press "
  "|access-date=2026-01-{day:02d} |archive-url=https://archive.example.org/"
  "web/20260101000000/{number}-{place}}}}}</ref>"
)


def pages(documents: Iterable[Sequence[str]], seed: int = 1) -> Iterator[str]:
  """Yields articles, with some talk pages and redirects between them."""
  rng = random.Random(seed)
  number = 0
  for document in documents:
    for i in range(0, len(document), _SENTENCES):
      number += 1
      sentences = document[i : i + _SENTENCES]
      title = f"Topic {number}"
      yield wikipedia.page(number, title, article(sentences, number, rng))
      if number % 5 == 0:
        text = "== Sources ==\nWhere is this from? ~~~~"
        yield wikipedia.page(10**7 + number, f"Talk:{title}", text, 1)
      if number % 7 == 0:
        text = f"#REDIRECT [[{title}]]"
        yield wikipedia.page(
          2 * 10**7 + number, f"About {title}", text, redirect=title
        )


def article(sentences: Sequence[str], number: int, rng: random.Random) -> str:
  """Returns the wikitext of an article."""
  title = f"Topic {number}"
  parts = [
    _TEMPLATE.format(title=title, number=number, year=rng.randrange(100))
  ]
  for i in range(0, len(sentences), _PARAGRAPH):
    if i and i % (4 * _PARAGRAPH) == 0:
      parts.append(f"== Part {i // (4 * _PARAGRAPH)} ==")
    marked = [
      _linked(sentence, rng)
      + _FOOTNOTE.format(number=number, place=i, day=rng.randint(1, 28))
      for sentence in sentences[i : i + _PARAGRAPH]
    ]
    parts.append(" ".join(marked) + "\n")
  parts.append("[[Category:Topics]]\n[[Category:Articles of papers]]")
  return "\n".join(parts)


def _linked(sentence: str, rng: random.Random) -> str:
  """Returns a sentence with a link on a random word, if it is alphabetic."""
  words = sentence.split(" ")
  place = rng.randrange(len(words))
  if words[place].isalpha():
    target = words[place].capitalize()
    words[place] = f"[[{target} (topic)|{words[place]}]]"
  return " ".join(words)


def main(target: str, texts: Sequence[str]) -> None:
  """Writes the dump."""
  articles = pages(corpus.documents(texts))
  head, end = wikipedia.dump([]).split("</mediawiki>")
  head = head.replace('xml:lang="de"', 'xml:lang="en"')
  with bz2.open(target, "wt", encoding="utf-8") as writer:
    for piece in itertools.chain([head], articles, ["</mediawiki>" + end]):
      writer.write(piece)


if __name__ == "__main__":
  main(sys.argv[1], sys.argv[2:])
