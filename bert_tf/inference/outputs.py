"""Outputs of a model's functions as plain Python.

The names of the outputs, which `heads` has for each model, tell what they are.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from bert_tf import heads

Row = dict[str, Any]
Outputs = Mapping[str, np.ndarray]

# Outputs of rows with different numbers of words or masks, which batches pad;
# by the one that is "" there.
_PADDED = {
  frozenset(heads.TokenModel.outputs): "words",
  frozenset(heads.PretrainingModel.outputs): "tokens",
}


def plain(outputs: Outputs) -> list[dict[str, Any]]:
  """Returns the answer to each row, without padding.

  Args:
    outputs: arrays of B rows by name; texts are bytes.

  Returns:
    B dicts. Of a classifier `label` and `probabilities` by label, of a
    multilabel one `labels`, of a regression `prediction`; of questions
    `answer`, None where there is none, `start`, `end`, `probability`, `nbest`
    and, of a model of 2.0, `null_odds`; of words `words`, each of `word`,
    `label`, `probability`, `start` and `end`; of masks `masks`, for each its
    `token`s and their
    `probability`; of choices `choice` and `probabilities`. Of any other
    function its outputs.
  """
  row_of = _reader(outputs.keys())
  return [row_of(row) for row in _rows(outputs)]


def trimmed(outputs: Outputs) -> dict[str, np.ndarray]:
  """Returns outputs that are only as wide as their own rows need.

  Rows of a batch are padded to the widest of them.

  Args:
    outputs: arrays of B rows by name.
  """
  name = _PADDED.get(frozenset(outputs))
  if name is None:
    return dict(outputs)
  texts = outputs[name]
  firsts = texts if texts.ndim == 2 else texts[:, :, 0]
  width = int((firsts != b"").sum(axis=1).max(initial=0))
  return {name: array[:, :width] for name, array in outputs.items()}


def _reader(names: Collection[str]) -> Callable[[Row], Row]:
  """Returns what makes an answer of a row whose outputs have these names."""
  if "nbest_text" in names:
    return _answer
  if "applies" in names:
    return _applying
  if "label" in names:
    return _class
  readers = {
    frozenset(heads.PretrainingModel.outputs): _masks,
    frozenset(heads.TokenModel.outputs): _words,
    frozenset(heads.MultipleChoiceModel.outputs): _choice,
  }
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
  # A text that was no UTF-8 may be cut within a character.
  return value.decode("utf-8", errors="replace")


def _class(row: Row) -> Row:
  probabilities = dict(zip(row["labels"], row["probabilities"]))
  return {"label": row["label"], "probabilities": probabilities}


def _applying(row: Row) -> Row:
  names = zip(row["labels"], row["applies"])
  return {
    "labels": [name for name, applies in names if applies],
    "probabilities": dict(zip(row["labels"], row["probabilities"])),
  }


def _masks(row: Row) -> Row:
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


def _words(row: Row) -> Row:
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


def _choice(row: Row) -> Row:
  return {name: row[name] for name in ("choice", "probabilities")}


def _answer(row: Row) -> Row:
  fields = (
    *("text", "start", "end", "probability"),
    *("start_logit", "end_logit"),
  )
  # An answer that stands in the context has a character at least.
  texts = [text or None for text in row["nbest_text"]]
  row = {**row, "answer": row["answer"] or None, "nbest_text": texts}
  columns = [row[f"nbest_{field}"] for field in fields]
  nbest = [dict(zip(fields, values)) for values in zip(*columns)]
  names = ("answer", "start", "end", "probability", "null_odds")
  return {
    **{name: row[name] for name in names if name in row},
    # Padding has a probability of 0.
    "nbest": [answer for answer in nbest if answer["probability"] > 0],
  }
