"""The tasks of GLUE, and XNLI, in their official layouts.

GLUE: Wang et al. 2019, arXiv 1804.07461. XNLI: Conneau et al. 2018, arXiv
1809.05053.
"""

from bert_tf.tasks.classification import examples
from bert_tf.tasks.classification.examples import FileLayout, Split

_BINARY = ("0", "1")
# The order of the original's ids.
_NLI = ("contradiction", "entailment", "neutral")
_ENTAILMENT = ("entailment", "not_entailment")


def _splits(
  text_a: str, text_b: str | None, label: str
) -> dict[str, examples.Split]:
  """Returns train.tsv, dev.tsv and test.tsv with a header of these names."""
  return {
    "train": Split("train.tsv", "train", text_a, text_b, label),
    "dev": Split("dev.tsv", "dev", text_a, text_b, label),
    "test": Split("test.tsv", "test", text_a, text_b),
  }


def _nli(file: str, prefix: str, label: str | None) -> examples.Split:
  """Returns one file of MNLI; its guids end in the column `index`."""
  return Split(file, prefix, "sentence1", "sentence2", label, guid="index")


_TASKS = (
  FileLayout(
    "CoLA",
    _BINARY,
    ("matthews_correlation",),
    # No header but in the test file: source, label, the author's mark, text.
    train=Split("train.tsv", "train", 3, label=1, num_columns=4),
    dev=Split("dev.tsv", "dev", 3, label=1, num_columns=4),
    test=Split("test.tsv", "test", "sentence"),
    submission="CoLA.tsv",
  ),
  FileLayout(
    "SST-2",
    _BINARY,
    (),
    **_splits("sentence", None, "label"),
    submission="SST-2.tsv",
  ),
  FileLayout(
    "MRPC",
    _BINARY,
    ("f1",),
    **_splits("#1 String", "#2 String", "Quality"),
    submission="MRPC.tsv",
  ),
  FileLayout(
    "STS-B",
    (),
    ("pearson", "spearman"),
    **_splits("sentence1", "sentence2", "score"),
    problem_type="regression",
    number_range=(0.0, 5.0),
    submission="STS-B.tsv",
  ),
  FileLayout(
    "QQP",
    _BINARY,
    ("f1",),
    **_splits("question1", "question2", "is_duplicate"),
    submission="QQP.tsv",
  ),
  FileLayout(
    "MNLI",
    _NLI,
    (),
    train=_nli("train.tsv", "train", "gold_label"),
    dev=_nli("dev_matched.tsv", "dev_matched", "gold_label"),
    test=_nli("test_matched.tsv", "test", None),
    submission="MNLI-m.tsv",
  ),
  FileLayout(
    "MNLI-mm",
    _NLI,
    (),
    train=_nli("train.tsv", "train", "gold_label"),
    dev=_nli("dev_mismatched.tsv", "dev_mismatched", "gold_label"),
    test=_nli("test_mismatched.tsv", "test", None),
    submission="MNLI-mm.tsv",
  ),
  FileLayout(
    "QNLI",
    _ENTAILMENT,
    (),
    **_splits("question", "sentence", "label"),
    submission="QNLI.tsv",
  ),
  FileLayout(
    "RTE",
    _ENTAILMENT,
    (),
    **_splits("sentence1", "sentence2", "label"),
    submission="RTE.tsv",
  ),
  FileLayout(
    "WNLI",
    _BINARY,
    (),
    **_splits("sentence1", "sentence2", "label"),
    submission="WNLI.tsv",
  ),
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
  """Returns XNLI in a language: machine-translated MNLI to train on."""
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


NAMES = (*(task.name for task in _TASKS), "XNLI")


def get_task(name: str, xnli_language: str = "zh") -> FileLayout:
  """Returns a task by its name, in any case.

  Args:
    name: one of NAMES.
    xnli_language: of XNLI's texts, such as "de"; no other task has it.

  Raises:
    ValueError: for another name.
  """
  for task in (*_TASKS, _xnli(xnli_language)):
    if task.name.lower() == name.lower():
      return task
  known = [*(n.lower() for n in NAMES), *examples.FILE_FORMATS]
  raise ValueError(f"task_name {name!r} is not known; use {', '.join(known)}.")
