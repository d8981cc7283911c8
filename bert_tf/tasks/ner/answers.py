"""Labels the words of texts, as the predictions of a run do."""

import functools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.tasks import prediction
from bert_tf.tasks.ner import examples
from bert_tf.tasks.ner import windows as windows_lib

_WORD = re.compile(r"\S+")
# Words that keep a period after them: initials, U.S. and titles.
_ABBREVIATION = re.compile(
  r".*[^\W\d_]\.[^\W\d_]+|[^\W\d_]|Mrs?|Ms|Dr|St|Prof|Jr|Sr"
)
_POSSESSIVE = re.compile(r"(?<=.)['’][sS]$")
# Parts of words that were split already: 's, n't.
_CLITIC = re.compile(r"['’][^\W\d_]{1,2}|n['’]t")
_SIGN = re.compile(r"\.\.+|.")  # An ellipsis is a single sign.


class WordAnswerer(prediction.Answerer):
  """Labels the words of a text, which white space separates.

  An answer has `words`, each with `word`, `label`, `probability`, `start` and
  `end`, in characters of the text.
  """

  def split(self, text: str) -> Iterator[tuple[str, int]]:
    """Yields the words of a text, each with its index in the text."""
    return ((match[0], match.start()) for match in _WORD.finditer(text))

  def prepare(self, row: Mapping[str, Any]) -> prediction.Prepared:
    """Returns the windows that label the words of the text."""
    places = list(self.split(row["text"]))
    sentence = examples.Sentence(tuple(word for word, _ in places), None, 1)
    [windows] = windows_lib.make_windows(
      [sentence], self.tokenizer, self.max_seq_length
    )
    return prediction.Prepared(windows.inputs, (places, windows.state))

  def answer(
    self, prepared: prediction.Prepared, outputs: Sequence[prediction.Outputs]
  ) -> dict[str, Any]:
    """Returns the most probable label of each word."""
    places, positions = prepared.state
    logits = np.concatenate(
      [output["logits"][each] for each, output in zip(positions, outputs)]
    )  # [words, C]
    rows = prediction.probabilities(logits)
    assert self.info.labels
    labels = [self.info.labels.labels[i] for i in logits.argmax(axis=-1)]
    return {
      "words": [
        {
          "word": word,
          "label": label,
          "probability": probability,
          "start": start,
          "end": start + len(word),
        }
        for (word, start), label, probability in zip(
          places, labels, prediction.digits(rows.max(axis=-1))
        )
      ]
    }


class PlainTextAnswerer(WordAnswerer):
  """Labels the words of ordinary text, with punctuation beside words.

  In "He left Bonn, Germany's old capital (in 1843)." the comma is a word, as in
  the data of named entities. Only the edges of words are split: U.S.,
  20-year-old and 3.5 stay whole.
  """

  def split(self, text: str) -> Iterator[tuple[str, int]]:
    """Yields the words and signs of a text, each with its index."""
    quotes = "\"'`" + _signs("Pi", "Pf")
    for match in _WORD.finditer(text):
      word, start = match[0], match.start()
      core = word.lstrip("¿¡" + quotes + _signs("Ps"))
      first = len(word) - len(core)
      core = core.rstrip(".,;:!?…" + quotes + _signs("Pe"))
      last = first + len(core)
      if (
        word[last:].startswith(".")
        and _ABBREVIATION.fullmatch(core)
        and (len(core) > 1 or core.isupper())
      ):
        last += 1
      if not core or _CLITIC.fullmatch(word):
        first, last = 0, len(word)
      possessive = _POSSESSIVE.search(word[first:last])
      middle = first + possessive.start() if possessive else last
      bounds = [
        *(sign.span() for sign in _SIGN.finditer(word, 0, first)),
        *((first, middle), (middle, last)),
        *(sign.span() for sign in _SIGN.finditer(word, last)),
      ]
      for begin, end in bounds:
        if begin < end:
          yield word[begin:end], start + begin


@functools.cache
def _signs(*categories: str) -> str:
  # The characters of these categories of Unicode.
  chars = map(chr, range(0x10000))
  return "".join(c for c in chars if unicodedata.category(c) in categories)


WordAnswerer.variants = {"plain_text": PlainTextAnswerer}
