"""Scores and prediction files of named entity recognition."""

from collections.abc import Sequence
from typing import Any

from bert_tf.files import packages
from bert_tf.tasks.ner import examples
from bert_tf.tasks.rows import Row
from bert_tf.training import results

# The prefixes of other schemes, BIOES, BILOU and BMES, as seqeval reads them.
_PREFIXES = dict(zip("BIMELSU", "BIIEESS"))

# Scores of all entities. Scores of one type of entity have the prefix TYPE_.
SCORES = ("f1", "precision", "recall")


def result_names(labels: Sequence[str]) -> list[str]:
  """Returns the names of `compute_scores`: of all entities first, then by type.

  The labels B and I, without a type, have no scores of their own.
  """
  types = dict.fromkeys(_entity_tag(label)[2:] for label in labels)
  prefixes = ["", *(f"{type_}_" for type_ in types if type_)]
  return [prefix + name for prefix in prefixes for name in SCORES]


def _entity_tag(label: str) -> str:
  """Returns a label as seqeval reads it: without a prefix it means I-."""
  prefix, dash, type_ = label.partition("-")
  if dash and prefix in _PREFIXES:
    return f"{_PREFIXES[prefix]}-{type_}"
  return label if examples.is_tag(label) else f"I-{label}"


def import_seqeval() -> Any:
  """Returns the module that scores entities; ImportError without seqeval."""
  with packages.needs_extra("scoring entities", extra="ner"):
    from seqeval.metrics import sequence_labeling
  return sequence_labeling


def compute_scores(
  sentences: Sequence[Row],
  predicted: Sequence[Sequence[str]],
  labels: Sequence[str],
) -> dict[str, float]:
  """Returns precision, recall and F1 of entities, as conlleval does.

  An entity is correct if its first word, its last word and its type are. An I-
  that does not continue an entity begins one, and equal labels without B- and
  I- in a row are one entity. Division by 0 results in 0. The names are those of
  `result_names`.
  """
  seqeval = import_seqeval()
  gold = [[*map(_entity_tag, row["label"])] for row in sentences]
  predicted = [[*map(_entity_tag, tags)] for tags in predicted]
  found = dict.fromkeys(result_names(labels), 0.0)
  if {tag for row in (*gold, *predicted) for tag in row} <= {examples.OUTSIDE}:
    return found
  report = seqeval.classification_report(
    gold, predicted, output_dict=True, zero_division=0
  )
  for type_, row in report.items():
    prefix = "" if type_ == "micro avg" else f"{type_}_"
    for name in SCORES:
      if prefix + name in found:
        key = "f1-score" if name == "f1" else name
        found[prefix + name] = float(row[key])
  return found


def write_predictions(
  path: str, sentences: Sequence[Row], predicted: Sequence[Sequence[str]]
) -> None:
  """Writes `word gold predicted` lines, the input of conlleval.

  Without known tags, the lines are `word predicted`. A blank line ends each
  sentence, and -DOCSTART- lines keep their places. Spaces separate columns, or
  tabs if a word contains a space.
  """
  has_blanks = any(" " in word for row in sentences for word in row["words"])
  separator = "\t" if has_blanks else " "
  lines: list[str] = []
  document = 0
  for row, tags in zip(sentences, predicted):
    columns = [row["words"], tags]
    if "label" in row:
      columns.insert(1, row["label"])
    outside = [examples.OUTSIDE] * (len(columns) - 1)
    start = separator.join([examples.DOCUMENT_START, *outside])
    number = row.get("document", 0)
    lines += [start, ""] * (number - document)
    document = number
    lines += [*map(separator.join, zip(*columns)), ""]
  results.write_lines(path, lines)
