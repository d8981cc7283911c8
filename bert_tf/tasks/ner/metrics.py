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
  continues no entity begins one. A quotient with the divisor 0 is 0.

  Args:
    sentences: with their tags.
    predicted: the tags of each.
    labels: whose types are reported; bare B and I have no type of their own.
  """
  seqeval = import_seqeval()
  gold = [list(sentence.known_tags) for sentence in sentences]
  predicted = [list(tags) for tags in predicted]
  found = dict.fromkeys(result_names(labels), 0.0)
  types = _types(gold) | _types(predicted)
  if not types:
    return found
  of_all = seqeval.precision_recall_fscore_support(
    gold, predicted, average="micro", zero_division=0
  )
  of_types = seqeval.precision_recall_fscore_support(
    gold, predicted, average=None, zero_division=0
  )
  for name, value, values in zip(
    ("precision", "recall", "f1"), of_all, of_types
  ):
    found[name] = float(value)
    # seqeval gives the types in this order.
    for type_, of_type in zip(sorted(types), values):
      if f"{type_}_{name}" in found:
        found[f"{type_}_{name}"] = float(of_type)
  return found


def accuracy(
  sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]]
) -> float:
  """Returns the share of words whose tag is right."""
  hits = [
    tag == other
    for sentence, tags in zip(sentences, predicted)
    for tag, other in zip(sentence.known_tags, tags)
  ]
  return sum(hits) / len(hits)


def write_predictions(
  path: str,
  sentences: Sequence[Sentence],
  predicted: Sequence[Sequence[str]],
) -> None:
  """Writes `word gold predicted` lines, the input of conlleval.

  Without known tags the lines are `word predicted`. A blank line ends each
  sentence, and -DOCSTART- lines stand where they stood.
  """
  results_lib.write_lines(path, _lines(sentences, predicted))


def _lines(
  sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]]
) -> Iterator[str]:
  """Yields the lines of `write_predictions`."""
  document = 0
  for sentence, tags in zip(sentences, predicted):
    columns: tuple[Sequence[str], ...] = (sentence.words, tags)
    if sentence.tags is not None:
      columns = (sentence.words, sentence.tags, tags)
    outside = f" {examples.OUTSIDE}" * (len(columns) - 1)
    for _ in range(document, sentence.document):
      yield f"{examples.DOCUMENT_START}{outside}\n"
    document = sentence.document
    for cells in zip(*columns):
      yield " ".join(cells)
    yield ""


def _types(tags: Sequence[Sequence[str]]) -> set[str]:
  """Returns the types that occur; "_" is seqeval's name for bare B and I."""
  return {
    tag[2:] or "_" for row in tags for tag in row if tag != examples.OUTSIDE
  }
