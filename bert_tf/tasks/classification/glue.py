"""The tasks of GLUE, and XNLI: official files, and Hugging Face's of GLUE.

GLUE: Wang et al. 2019, arXiv 1804.07461. XNLI: Conneau et al. 2018, arXiv
1809.05053.
"""

import dataclasses
import os
import re
from typing import NamedTuple

from bert_tf.files import paths
from bert_tf.tasks.classification import config, layouts
from bert_tf.tasks.classification.layouts import FileLayout, Split

# Labels, in the order of the original's label ids.
_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_ENTAILMENT = ("entailment", "not_entailment")

# The class ids in Hugging Face's files have another order.
_NLI_CLASSES = ("entailment", "neutral", "contradiction")

_Texts = tuple[str, str | None]
_TEXT: _Texts = ("sentence", None)
_PAIR: _Texts = ("sentence1", "sentence2")
_QUESTIONS: _Texts = ("question1", "question2")
_PREMISE: _Texts = ("premise", "hypothesis")


class _Task(NamedTuple):
  """A task of GLUE."""

  texts: _Texts  # The columns of the text or the pair, in official files.
  label: str  # The column of the label, in official files.
  labels: tuple[str, ...]  # In official files.
  classes: tuple[str, ...]  # Their names, by the class ids of Hugging Face.
  metrics: tuple[str, ...] = ()  # In addition to accuracy.
  hub_texts: _Texts | None = None  # In Hugging Face's files; None for `texts`.
  kind: str = ""  # The end of the names of the dev and test splits.


_GLUE = {
  "CoLA": _Task(
    _TEXT,
    "label",
    _BINARY,
    ("unacceptable", "acceptable"),
    ("matthews_correlation",),
  ),
  "SST-2": _Task(_TEXT, "label", _BINARY, ("negative", "positive")),
  "MRPC": _Task(
    ("#1 String", "#2 String"),
    "Quality",
    _BINARY,
    ("not_equivalent", "equivalent"),
    ("f1",),
    _PAIR,
  ),
  "STS-B": _Task(_PAIR, "score", (), (), ("pearson", "spearman")),
  "QQP": _Task(
    _QUESTIONS, "is_duplicate", _BINARY, ("not_duplicate", "duplicate"), ("f1",)
  ),
  "MNLI": _Task(
    _PAIR, "gold_label", _NLI, _NLI_CLASSES, (), _PREMISE, "_matched"
  ),
  "MNLI-mm": _Task(
    _PAIR, "gold_label", _NLI, _NLI_CLASSES, (), _PREMISE, "_mismatched"
  ),
  "QNLI": _Task(("question", "sentence"), "label", _ENTAILMENT, _ENTAILMENT),
  "RTE": _Task(_PAIR, "label", _ENTAILMENT, _ENTAILMENT),
  "WNLI": _Task(_PAIR, "label", _BINARY, ("not_entailment", "entailment")),
  # The diagnostic set, for a model that was trained on MNLI.
  "AX": _Task(_PAIR, "", _NLI, _NLI_CLASSES, (), _PREMISE),
}

# Names of the labels that are numbers in the files, by task.
LABEL_NAMES = {
  name: dict(zip(task.labels, task.classes))
  for name, task in _GLUE.items()
  if task.labels == _BINARY
}


def get_task(name: str, xnli_language: str = "zh") -> FileLayout:
  """Returns a task of config.TASK_NAMES; ignores case, "-" and "_".

  xnli_language, such as "de", is the language of XNLI's texts.
  """
  wanted = re.sub("[-_]", "", name.lower())
  if wanted == "xnli":
    return _xnli(xnli_language)
  for known, task in _GLUE.items():
    if known.lower().replace("-", "") == wanted:
      return _official(known, task)
  names = [*map(str.lower, config.TASK_NAMES), *config.FILE_FORMATS]
  raise ValueError(
    f"task_name {name!r} is not one of {', '.join(names)}. To use a "
    "DataProcessor of your own, set `processor=MODULE:CLASS`."
  )


def _official(name: str, task: _Task) -> FileLayout:
  columns = (*task.texts, task.label)
  dev, test = f"dev{task.kind}", f"test{task.kind}"
  guid = "index" if task.kind else None  # In the files of MNLI.
  splits = {
    "train": Split(("train.tsv",), "train", *columns, guid),
    "dev": Split((f"{dev}.tsv",), dev, *columns, guid),
    "test": Split((f"{test}.tsv",), "test", *task.texts, None, guid),
  }
  if name == "CoLA":
    # Only the test file has a header. Columns: source, label, author's mark,
    # text.
    for split in ("train", "dev"):
      splits[split] = dataclasses.replace(splits[split], text_a=3, label=1)
  if name == "AX":
    names = ("diagnostic.tsv",)
    splits = {"test": dataclasses.replace(splits["test"], files=names)}
  return FileLayout(
    name,
    task.labels,
    task.metrics,
    splits,
    problem_type="classification" if task.labels else "regression",
    number_range=None if task.labels else (0.0, 5.0),
    submission="MNLI-m.tsv" if name == "MNLI" else f"{name}.tsv",
  )


def _xnli(language: str) -> FileLayout:
  # The training data are translated MNLI.
  file = f"multinli/multinli.train.{language}.tsv"
  dev = Split(("xnli.dev.tsv",), "dev", *_PAIR, "gold_label")
  return FileLayout(
    "XNLI",
    _NLI,
    (),
    {
      "train": Split((file,), "train", "premise", "hypo", "label"),
      "dev": dataclasses.replace(dev, only=("language", language)),
    },
    label_spellings={"contradictory": "contradiction"},
  )


def find_files(layout: FileLayout, data_dir: str) -> FileLayout:
  """Returns the layout of a task's files: official ones, else Parquet.

  Hugging Face's Parquet files of GLUE are in data_dir or in a subfolder with
  the task's name, such as mrpc. Without any files, returns `layout`.
  """

  def exists(layout: FileLayout) -> bool:
    names = (split.files[0] for split in layout.splits.values())
    return any(paths.exists(os.path.join(data_dir, name)) for name in names)

  if layout.name not in _GLUE or exists(layout):
    return layout
  task = _GLUE[layout.name]
  # The official label for each class id and each class name.
  spellings: dict[str, str] = {}
  for index, name in enumerate(task.classes):
    label = name if name in task.labels else str(index)
    spellings |= {str(index): label, name: label}
  texts = task.hub_texts or task.texts
  splits = {
    name: Split((), split.prefix, *texts, split.label and "label")
    for name, split in layout.splits.items()
  }
  hub = dataclasses.replace(layout, splits=splits, label_spellings=spellings)
  name = layout.name.lower().replace("-", "").removesuffix("mm")
  for folder in ("", name):
    found = layouts.with_parquet_files(hub, data_dir, folder, task.kind)
    if exists(found):
      return found
  return layout
