"""Converts outputs of a model's functions to plain Python.

The names of the outputs, which `heads` defines, determine the kind of answer.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from bert_tf import heads

Row = dict[str, Any]
Outputs = Mapping[str, np.ndarray]

# Functions that pad outputs, because texts differ in their number of words or
# masks: the names of all outputs, and the output that is "" in padding.
_PADDED = {
  frozenset(heads.TokenModel.outputs): "words",
  frozenset(heads.PretrainingModel.outputs): "tokens",
}


def to_python(outputs: Outputs) -> list[dict[str, Any]]:
  """Returns the answer for each row, without padding.

  Args:
    outputs: arrays of B rows by name; texts are bytes.

  Returns:
    B dicts, by the kind of model:
      classification: `label` and `probabilities` by label. The label is a list
        for multilabel, and for regression a number without probabilities.
      question answering: `answer` (None for no answer), `start`, `end`,
        `probability`, `nbest`, and `null_odds` for SQuAD 2.0.
      named entities: `words`, each with `word`, `label`, `probability`, `start`
        and `end`.
      masked words: `masks`, each a list of `token` and `probability`.
      multiple choice: `choice` and `probabilities`.
      any other function: its outputs.
  """
  return answers(
    {
      name: _texts(array.tolist()) if array.dtype == object else array.tolist()
      for name, array in outputs.items()
    }
  )


def answers(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
  """Returns the answers of `to_python` for outputs as nested lists by name."""
  convert = _converter(columns.keys())
  return [
    convert(dict(zip(columns, values))) for values in zip(*columns.values())
  ]


def trim(outputs: Outputs) -> dict[str, np.ndarray]:
  """Removes padding that no row of the outputs needs.

  Rows are padded to the widest of their batch, which may be another request's.

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


def _converter(names: Collection[str]) -> Callable[[Row], Row]:
  """Returns the function that converts rows with these outputs."""
  if "nbest_text" in names:
    return _answer
  if "applies" in names:
    return _applying
  if {"label", "labels"} <= set(names):
    return _class
  converters = {
    frozenset(heads.PretrainingModel.outputs): _masks,
    frozenset(heads.TokenModel.outputs): _words,
    frozenset(heads.MultipleChoiceModel.outputs): _choice,
    frozenset(("prediction",)): _number,
  }
  return converters.get(frozenset(names), lambda row: row)


def _texts(value: Any) -> Any:
  """Decodes nested lists of bytes."""
  if isinstance(value, list):
    return [_texts(item) for item in value]
  # A text that is not UTF-8 may be cut within a character.
  return value.decode("utf-8", errors="replace")


def _class(row: Row) -> Row:
  probabilities = dict(zip(row["labels"], row["probabilities"]))
  return {"label": row["label"], "probabilities": probabilities}


def _applying(row: Row) -> Row:
  names = zip(row["labels"], row["applies"])
  return {
    "label": [name for name, applies in names if applies],
    "probabilities": dict(zip(row["labels"], row["probabilities"])),
  }


def _number(row: Row) -> Row:
  return {"label": row["prediction"], "probabilities": {}}


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
  # An answer from the context is never empty, so "" means no answer.
  texts = [text or None for text in row["nbest_text"]]
  row = {**row, "answer": row["answer"] or None, "nbest_text": texts}
  columns = [row[f"nbest_{field}"] for field in fields]
  nbest = [dict(zip(fields, values)) for values in zip(*columns)]
  names = ("answer", "start", "end", "probability", "null_odds")
  return {
    **{name: row[name] for name in names if name in row},
    # Padding has probability 0.
    "nbest": [answer for answer in nbest if answer["probability"] > 0],
  }
