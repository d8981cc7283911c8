"""Scores of entities by hand, and the files that conlleval reads."""

import pytest

from bert_tf.tasks.ner import task as ner

LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


def sentence(text, tags, document=0):
  row = {"words": text.split(), "document": document}
  return {**row, "label": tags.split()} if tags else row


def scores(pairs, labels=LABELS):
  """Scores of pairs of gold and predicted tags."""
  gold = [sentence("w " * len(tags.split()), tags) for tags, _ in pairs]
  predicted = [tags.split() for _, tags in pairs]
  return ner.compute_scores(gold, predicted, labels)


def test_an_entity_is_correct_if_borders_and_type_match():
  results = scores(
    [
      # A correct entity, one cut short, one of another type.
      ("B-PER I-PER O B-PER I-PER", "B-PER I-PER O B-PER O"),
      ("B-LOC O O O", "B-PER O B-LOC O"),
      ("B-LOC I-LOC", "B-LOC I-LOC"),
    ]
  )
  # PER: 1 right of 3 predicted and 2 true; LOC: 1 of 2 and 2.
  expected = {"precision": 2 / 5, "recall": 2 / 4, "f1": 4 / 9}
  expected |= {"PER_precision": 1 / 3, "PER_recall": 1 / 2, "PER_f1": 2 / 5}
  expected |= {"LOC_precision": 1 / 2, "LOC_recall": 1 / 2, "LOC_f1": 1 / 2}
  assert results == pytest.approx(expected)


# Gold, predicted and how many entities are right, predicted and true, as
# conlleval counts them: an I- after O begins an entity.
CONLLEVAL = [
  ("B-PER I-PER", "I-PER I-PER", (1, 1, 1)),
  ("B-PER B-PER", "B-PER I-PER", (0, 1, 2)),
  ("B-PER I-LOC", "B-PER B-LOC", (2, 2, 2)),
  ("B-PER O B-PER", "B-PER I-PER I-PER", (0, 1, 2)),
]


@pytest.mark.parametrize("gold, predicted, counts", CONLLEVAL)
def test_counts_match_conlleval(gold, predicted, counts):
  right, num_predicted, num_true = counts
  results = scores([(gold, predicted)])
  assert results["precision"] == pytest.approx(right / num_predicted)
  assert results["recall"] == pytest.approx(right / num_true)


def test_scores_without_entities_are_0():
  assert set(scores([("O O", "O O")]).values()) == {0.0}
  results = scores([("O B-PER", "O O")])
  assert set(results) == {*scores([("O", "O")])}
  assert set(results.values()) == {0.0}


def test_tags_without_types_have_no_scores_by_type():
  labels = ("O", "B", "I")
  assert ner.result_names(labels) == ["f1", "precision", "recall"]
  results = scores([("B I O B", "B I O O")], labels)
  assert results == pytest.approx(
    {"f1": 2 / 3, "precision": 1, "recall": 1 / 2}
  )


@pytest.mark.parametrize(
  ("gold", "predicted", "labels"),
  [
    # Labels in a row are one entity: one of two is found.
    ("PER PER O LOC", "PER PER O O", ("O", "PER", "LOC")),
    ("I-PER I-PER O I-LOC", "I-PER I-PER O O", ("O", "I-PER", "I-LOC")),
    ("B-PER E-PER O S-LOC", "B-PER E-PER O O", ("O", "S-LOC", "E-PER")),
    ("B-PER L-PER O U-LOC", "B-PER L-PER O O", ("O", "U-LOC", "L-PER")),
  ],
)
def test_labels_of_other_schemes_are_scored(gold, predicted, labels):
  results = scores([(gold, predicted)], labels)
  found = {name: results[name] for name in ("f1", "PER_f1", "LOC_f1")}
  assert found == pytest.approx({"f1": 2 / 3, "PER_f1": 1, "LOC_f1": 0})
  assert len(results) == 9


def test_predictions_are_in_the_columns_of_conlleval(tmp_path):
  path = str(tmp_path / "x.txt")
  sentences = [
    sentence("EU rejects", "B-ORG O", document=1),
    sentence("Peter", "B-PER", document=1),
    sentence("e x", "O O", document=3),
  ]
  predicted = [["B-ORG", "I-ORG"], ["O"], ["O", "O"]]
  ner.write_conll(path, sentences, predicted)
  assert (tmp_path / "x.txt").read_text() == (
    "-DOCSTART- O O\n\n"
    "EU B-ORG B-ORG\nrejects O I-ORG\n\n"
    "Peter B-PER O\n\n"
    "-DOCSTART- O O\n\n-DOCSTART- O O\n\n"
    "e O O\nx O O\n\n"
  )
  # Without gold tags there are two columns.
  sentences = [sentence("EU", None, document=1)]
  ner.write_conll(path, sentences, [["B-ORG"]])
  assert (tmp_path / "x.txt").read_text() == "-DOCSTART- O\n\nEU B-ORG\n\n"
  assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]
