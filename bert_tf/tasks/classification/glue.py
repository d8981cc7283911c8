"""The tasks of GLUE, and XNLI, in their official layouts.

GLUE: Wang et al. 2019, arXiv 1804.07461. XNLI: Conneau et al. 2018, arXiv
1809.05053.
"""

import re
from collections.abc import Mapping

from bert_tf.tasks.classification import config
from bert_tf.tasks.classification.examples import FileLayout, Split

_BINARY = ("0", "1")
# In the order of the original's label ids.
_NLI = ("contradiction", "entailment", "neutral")
_ENTAILMENT = ("entailment", "not_entailment")


def _layout(
  name: str,
  labels: tuple[str, ...],
  metrics: tuple[str, ...],
  columns: tuple[str, str | None, str],
  number_range: tuple[float, float] | None = None,
) -> FileLayout:
  """Returns the layout of train.tsv, dev.tsv and test.tsv with a header.

  columns are those of the first text, the second text and the label.
  """
  text_a, text_b, label = columns
  return FileLayout(
    name,
    labels,
    metrics,
    train=Split("train.tsv", "train", text_a, text_b, label),
    dev=Split("dev.tsv", "dev", text_a, text_b, label),
    test=Split("test.tsv", "test", text_a, text_b),
    problem_type="regression" if number_range else "classification",
    number_range=number_range,
    submission=f"{name}.tsv",
  )


def _mnli(name: str, kind: str, submission: str) -> FileLayout:
  """Returns MNLI with its "matched" or "mismatched" dev and test files."""

  def split(file: str, prefix: str, label: str | None) -> Split:
    """Returns the split in a file. Its guids end in the column `index`."""
    return Split(file, prefix, "sentence1", "sentence2", label, guid="index")

  return FileLayout(
    name,
    _NLI,
    (),
    train=split("train.tsv", "train", "gold_label"),
    dev=split(f"dev_{kind}.tsv", f"dev_{kind}", "gold_label"),
    test=split(f"test_{kind}.tsv", "test", None),
    submission=submission,
  )


# Names of the labels that are numbers in the files.
LABEL_NAMES: Mapping[str, Mapping[str, str]] = {
  "CoLA": {"0": "unacceptable", "1": "acceptable"},
  "SST-2": {"0": "negative", "1": "positive"},
  "MRPC": {"0": "another meaning", "1": "paraphrase"},
  "QQP": {"0": "another question", "1": "duplicate"},
  "WNLI": {"0": "does not follow", "1": "follows"},
}

_TASKS = (
  FileLayout(
    "CoLA",
    _BINARY,
    ("matthews_correlation",),
    # Only the test file has a header. Columns: source, label, author's mark,
    # text.
    train=Split("train.tsv", "train", 3, label=1, num_columns=4),
    dev=Split("dev.tsv", "dev", 3, label=1, num_columns=4),
    test=Split("test.tsv", "test", "sentence"),
    submission="CoLA.tsv",
  ),
  _layout("SST-2", _BINARY, (), ("sentence", None, "label")),
  _layout("MRPC", _BINARY, ("f1",), ("#1 String", "#2 String", "Quality")),
  _layout(
    "STS-B",
    (),
    ("pearson", "spearman"),
    ("sentence1", "sentence2", "score"),
    (0.0, 5.0),
  ),
  _layout("QQP", _BINARY, ("f1",), ("question1", "question2", "is_duplicate")),
  _mnli("MNLI", "matched", "MNLI-m.tsv"),
  _mnli("MNLI-mm", "mismatched", "MNLI-mm.tsv"),
  _layout("QNLI", _ENTAILMENT, (), ("question", "sentence", "label")),
  _layout("RTE", _ENTAILMENT, (), ("sentence1", "sentence2", "label")),
  _layout("WNLI", _BINARY, (), ("sentence1", "sentence2", "label")),
  # GLUE's diagnostic set, for a model that was trained on MNLI.
  FileLayout(
    "AX",
    _NLI,
    (),
    train=None,
    dev=None,
    test=Split("diagnostic.tsv", "test", "sentence1", "sentence2"),
    submission="AX.tsv",
  ),
)


def _xnli(language: str) -> FileLayout:
  """Returns XNLI in a language. Its training data are translated MNLI."""
  return FileLayout(
    "XNLI",
    _NLI,
    (),
    train=Split(
      f"multinli/multinli.train.{language}.tsv",
      "train",
      "premise",
      "hypo",
      "label",
    ),
    dev=Split(
      "xnli.dev.tsv",
      "dev",
      "sentence1",
      "sentence2",
      "gold_label",
      only=("language", language),
    ),
    test=None,
    label_spellings={"contradictory": "contradiction"},
  )


def get_task(name: str, xnli_language: str = "zh") -> FileLayout:
  """Returns a task of config.TASK_NAMES; ignores case, "-" and "_".

  xnli_language, such as "de", is the language of XNLI's texts.
  """
  wanted = re.sub("[-_]", "", name.lower())
  for task in (*_TASKS, _xnli(xnli_language)):
    if task.name.lower().replace("-", "") == wanted:
      return task
  known = [*map(str.lower, config.TASK_NAMES), *config.FILE_FORMATS]
  raise ValueError(f"task_name {name!r} is not known; use {', '.join(known)}.")
