"""Scores and files of predictions of named entity recognition."""

from collections.abc import Iterator, Sequence
from typing import Any

from bert_tf.files import errors
from bert_tf.tasks.ner import examples
from bert_tf.tasks.ner.examples import Sentence
from bert_tf.training import results as results_lib

# Of all entities, and with TYPE_ before them of those of one type.
SCORES = ("f1", "precision", "recall")


def result_names(labels: Sequence[str]) -> list[str]:
  """Returns the names of `scores`, those of all entities first."""
  types = examples.entity_types(labels)
  return [*SCORES, *(f"{type_}_{name}" for type_ in types for name in SCORES)]


def import_seqeval() -> Any:
  """Returns the module that scores entities.

  Raises:
    ImportError: without the package seqeval.
  """
  with errors.needs_extra("scoring entities", extra="ner"):
    from seqeval.metrics import sequence_labeling
  return sequence_labeling


def scores(
  sentences: Sequence[Sentence],
  predicted: Sequence[Sequence[str]],
  labels: Sequence[str],
) -> dict[str, float]:
  """Returns precision, recall and F1 of entities, as conlleval has them.

  An entity is right if its first word, last word and type are. An I- that
  continues no entity begins one. A quotient with the divisor 0 is 0. Types are
  those of the labels; bare B and I have none of their own.
  """
  seqeval = import_seqeval()
  gold = [list(sentence.known_tags) for sentence in sentences]
  predicted = [list(tags) for tags in predicted]
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
        found[prefix + name] = float(row["f1-score" if name == "f1" else name])
  return found


def accuracy(
  sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]]
) -> float:
  """Returns the share of words whose tag is right."""
  gold = [list(sentence.known_tags) for sentence in sentences]
  return import_seqeval().accuracy_score(gold, [list(t) for t in predicted])


def write_predictions(
  path: str, sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]]
) -> None:
  """Writes `word gold predicted` lines, the input of conlleval.

  Without known tags the lines are `word predicted`. A blank line ends each
  sentence, and -DOCSTART- lines stand where they stood. Columns are separated
  by blanks, or by tabs if a word has a blank in it.
  """
  results_lib.write_lines(path, _lines(sentences, predicted))


def _lines(
  sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]]
) -> Iterator[str]:
  """Yields the lines of `write_predictions`."""
  document = 0
  has_blanks = any(" " in word for s in sentences for word in s.words)
  separator = "\t" if has_blanks else " "
  for sentence, tags in zip(sentences, predicted):
    columns: tuple[Sequence[str], ...] = (sentence.words, tags)
    if sentence.tags is not None:
      columns = (sentence.words, sentence.tags, tags)
    outside = [examples.OUTSIDE] * (len(columns) - 1)
    for _ in range(document, sentence.document):
      yield separator.join([examples.DOCUMENT_START, *outside]) + "\n"
    document = sentence.document
    for cells in zip(*columns):
      yield separator.join(cells)
    yield ""
