"""Scores and prediction files of named entity recognition."""

from collections.abc import Iterator, Sequence
from typing import Any

from bert_tf.files import packages
from bert_tf.tasks.ner import examples
from bert_tf.tasks.rows import Row
from bert_tf.training import results as results_lib

# The prefixes of other schemes, BIOES, BILOU and BMES, as seqeval reads them.
_PREFIXES = dict(zip("BIMELSU", "BIIEESS"))

# Scores of all entities. Scores of one type of entity have the prefix TYPE_.
SCORES = ("f1", "precision", "recall")


def result_names(labels: Sequence[str]) -> list[str]:
  """Returns the names of `scores`: of all entities first, then by type.

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


def scores(
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
  results = dict.fromkeys(result_names(labels), 0.0)
  if {tag for row in (*gold, *predicted) for tag in row} <= {examples.OUTSIDE}:
    return results
  report = seqeval.classification_report(
    gold, predicted, output_dict=True, zero_division=0
  )
  for type_, row in report.items():
    prefix = "" if type_ == "micro avg" else f"{type_}_"
    for name in SCORES:
      if prefix + name in results:
        key = "f1-score" if name == "f1" else name
        results[prefix + name] = float(row[key])
  return results


def write_predictions(
  path: str, sentences: Sequence[Row], predicted: Sequence[Sequence[str]]
) -> None:
  """Writes `word gold predicted` lines, the input of conlleval.

  Without known tags, the lines are `word predicted`. A blank line ends each
  sentence, and -DOCSTART- lines keep their places. Spaces separate columns, or
  tabs if a word contains a space.
  """

  def lines() -> Iterator[str]:
    document = 0
    has_blanks = any(" " in word for row in sentences for word in row["words"])
    separator = "\t" if has_blanks else " "
    for sentence, tags in zip(sentences, predicted):
      columns: tuple[Sequence[str], ...] = (sentence["words"], tags)
      if "label" in sentence:
        columns = (sentence["words"], sentence["label"], tags)
      outside = [examples.OUTSIDE] * (len(columns) - 1)
      number = sentence.get("document", 0)
      for _ in range(document, number):
        yield separator.join([examples.DOCUMENT_START, *outside]) + "\n"
      document = number
      for cells in zip(*columns):
        yield separator.join(cells)
      yield ""

  results_lib.write_lines(path, lines())
