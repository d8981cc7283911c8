"""What the functions of a model return, as plain Python.

The kind of a model is told by the names of its outputs, which the modules of
`bert_tf.serving` document.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

Outputs = Mapping[str, np.ndarray]

# The names that tell functions of words and of masks.
_WORDS = frozenset(("words", "labels", "probabilities", "starts", "ends"))
_MASKS = frozenset(("tokens", "probabilities"))

# Of each, the output that is filled with "" to the most of them in a batch.
_FILLED = {_WORDS: "words", _MASKS: "tokens"}


def plain(outputs: Outputs) -> list[dict[str, Any]]:
  """Returns what was computed of each row, without what fills batches up.

  Args:
    outputs: arrays of B rows by name; texts are bytes.

  Returns:
    B dicts. Of a classifier `label` and `probabilities` by label, of a
    multilabel one `labels`, of a regression `prediction`; of questions
    `answer`, `start`, `end`, `probability`, `nbest` and, of a model of 2.0,
    `null_odds`; of words `words`, each of `word`, `label`, `probability`,
    `start` and `end`; of masks `masks`, for each its `token`s and their
    `probability`; of choices `choice` and `probabilities`. Of any other
    function its outputs.
  """
  row_of = _reader(outputs.keys())
  return [row_of(row) for row in _rows(outputs)]


def trimmed(outputs: Outputs) -> dict[str, np.ndarray]:
  """Returns outputs that are as wide as their own rows need.

  Rows that were computed with others are filled up to the widest of them.

  Args:
    outputs: arrays of B rows by name.
  """
  name = _FILLED.get(frozenset(outputs))
  if name is None:
    return dict(outputs)
  texts = outputs[name]
  firsts = texts if texts.ndim == 2 else texts[:, :, 0]
  width = int((firsts != b"").sum(axis=1).max(initial=0))
  return {name: array[:, :width] for name, array in outputs.items()}


def _reader(names: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
  """Returns what makes the dict of a row of outputs of these names."""
  readers = {
    frozenset(("label", "labels", "probabilities")): _class,
    frozenset(("applies", "labels", "probabilities")): _applying,
    _MASKS: _masks,
    _WORDS: _words,
    frozenset(("choice", "probabilities", "logits")): _choice,
  }
  if "nbest_text" in names:
    return _answer
  return readers.get(frozenset(names), lambda row: row)


def _rows(outputs: Outputs) -> Iterator[dict[str, Any]]:
  """Yields the values of each row, as numbers, texts and lists of them."""
  columns = {name: _values(array) for name, array in outputs.items()}
  for values in zip(*columns.values()):
    yield dict(zip(columns, values))


def _values(array: np.ndarray) -> Any:
  """Returns an array as lists, its bytes as texts."""
  if array.dtype != object:
    return array.tolist()
  return _texts(array.tolist())


def _texts(value: Any) -> Any:
  if isinstance(value, list):
    return [_texts(item) for item in value]
  # A model cuts texts where bytes begin that are no UTF-8, if it is given any.
  return value.decode("utf-8", errors="replace")


def _class(row: dict[str, Any]) -> dict[str, Any]:
  probabilities = dict(zip(row["labels"], row["probabilities"]))
  return {"label": row["label"], "probabilities": probabilities}


def _applying(row: dict[str, Any]) -> dict[str, Any]:
  names = zip(row["labels"], row["applies"])
  return {
    "labels": [name for name, applies in names if applies],
    "probabilities": dict(zip(row["labels"], row["probabilities"])),
  }


def _masks(row: dict[str, Any]) -> dict[str, Any]:
  return {
    "masks": [
      [
        {"token": token, "probability": probability}
        for token, probability in zip(tokens, probabilities)
      ]
      for tokens, probabilities in zip(row["tokens"], row["probabilities"])
      if tokens[0]
    ]
  }


def _words(row: dict[str, Any]) -> dict[str, Any]:
  fields = {
    "word": "words",
    "label": "labels",
    "probability": "probabilities",
    "start": "starts",
    "end": "ends",
  }
  columns = [row[name] for name in fields.values()]
  words = [dict(zip(fields, values)) for values in zip(*columns)]
  return {"words": [word for word in words if word["word"]]}


def _choice(row: dict[str, Any]) -> dict[str, Any]:
  return {name: row[name] for name in ("choice", "probabilities")}


def _answer(row: dict[str, Any]) -> dict[str, Any]:
  fields = ("text", "start", "end", "probability")
  columns = [row[f"nbest_{field}"] for field in fields]
  nbest = [dict(zip(fields, values)) for values in zip(*columns)]
  names = ("answer", "start", "end", "probability", "null_odds")
  return {
    **{name: row[name] for name in names if name in row},
    # What fills the list up has a probability of 0.
    "nbest": [answer for answer in nbest if answer["probability"] > 0],
  }
