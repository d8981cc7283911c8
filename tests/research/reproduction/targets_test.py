"""Published figures, against those that the ablations and the docs quote."""

import pathlib
import re

from bert_tf.checkpoint.hub import catalog
from research.ablations import papers
from research.features import config as features_config
from research.reproduction import report, targets

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"


def published(model, task):
  """Returns the figures on dev by name of our result."""
  key = model, task, targets.DEV
  found = [t for t in targets.TARGETS if (t.model, t.task, t.split) == key]
  return {t.result: t.low for t in found}


def test_models_and_results_are_known():
  names = {source.name for source in catalog.list_sources()}
  assert {target.model for target in targets.TARGETS} <= names
  for target in targets.TARGETS:
    assert target.result in report.RESULTS
    assert 0 <= target.low <= target.high <= 100
  keys = [
    (t.model, t.task, t.result, t.source, t.split) for t in targets.TARGETS
  ]
  assert len(set(keys)) == len(keys)


def test_dev_figures_of_the_paper_are_those_of_the_ablations():
  base = papers.OBJECTIVES.numbers["masked LM and NSP"]
  for column, task, result in (
    ("MNLI-m", "MNLI", "eval_accuracy"),
    ("QNLI", "QNLI", "eval_accuracy"),
    ("SST-2", "SST-2", "eval_accuracy"),
    ("SQuAD", "SQuAD-1.1", "f1"),
  ):
    assert published(targets.BASE, task)[result] == base[column]
  layers = papers.FEATURE_LAYERS.numbers
  names = ("embeddings", "second to last hidden", "last hidden")
  names += ("weighted sum of the last four", "concatenation of the last four")
  names += ("weighted sum of all",)
  for ours, theirs in zip(features_config.FEATURE_LAYERS, names, strict=True):
    figures = published(targets.CASED_BASE, f"CoNLL-2003-{ours}")
    assert figures == {"f1": layers[theirs]["Dev-F1"]}
  assert published(targets.CASED_BASE, "CoNLL-2003") == {
    "f1": layers["fine-tuning"]["Dev-F1"]
  }


def test_figures_of_the_readme_are_those_of_the_docs():
  page = (DOCS / "question_answering.md").read_text()
  f1, exact = re.findall(r"reached F1 ([\d.]+) and exact match ([\d.]+)", page)[
    0
  ]
  assert published(targets.BASE, "SQuAD-1.1-README") == {
    "f1": float(f1),
    "exact_match": float(exact),
  }
