"""The tasks of GLUE, and XNLI, in their official files.

GLUE: Wang et al. 2019, arXiv 1804.07461. XNLI: Conneau et al. 2018, arXiv
1809.05053.
"""

import dataclasses
import re
from typing import NamedTuple

from bert_tf.tasks.classification import config
from bert_tf.tasks.classification.sources import Source, Split

# Labels, in the order of the original's label ids.
_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_ENTAILMENT = ("entailment", "not_entailment")

_TEXT = ("sentence", None)
_PAIR = ("sentence1", "sentence2")


class _Task(NamedTuple):
  """A task of GLUE."""

  texts: tuple[str, str | None]  # The columns of the text or the pair.
  label: str  # The column of the label.
  labels: tuple[str, ...]
  metrics: tuple[str, ...] = ()  # In addition to accuracy.
  suffix: str = ""  # The end of the names of the dev and test splits.


_GLUE = {
  "CoLA": _Task(_TEXT, "label", _BINARY, ("matthews_correlation",)),
  "SST-2": _Task(_TEXT, "label", _BINARY),
  "MRPC": _Task(("#1 String", "#2 String"), "Quality", _BINARY, ("f1",)),
  "STS-B": _Task(_PAIR, "score", (), ("pearson", "spearman")),
  "QQP": _Task(("question1", "question2"), "is_duplicate", _BINARY, ("f1",)),
  "MNLI": _Task(_PAIR, "gold_label", _NLI, suffix="_matched"),
  "MNLI-mm": _Task(_PAIR, "gold_label", _NLI, suffix="_mismatched"),
  "QNLI": _Task(("question", "sentence"), "label", _ENTAILMENT),
  "RTE": _Task(_PAIR, "label", _ENTAILMENT),
  "WNLI": _Task(_PAIR, "label", _BINARY),
  # The diagnostic set, for a model that was trained on MNLI.
  "AX": _Task(_PAIR, "", _NLI),
}

# Names of the labels that are numbers in the files, by task.
LABEL_NAMES = {
  "CoLA": {"0": "unacceptable", "1": "acceptable"},
  "SST-2": {"0": "negative", "1": "positive"},
  "MRPC": {"0": "not_equivalent", "1": "equivalent"},
  "QQP": {"0": "not_duplicate", "1": "duplicate"},
  "WNLI": {"0": "not_entailment", "1": "entailment"},
}


def get_task(
  name: str, xnli_language: str = "zh", data_dir: str = ""
) -> Source:
  """Returns a task of config.TASK_NAMES; ignores case, "-" and "_".

  xnli_language, such as "de", is the language of XNLI's texts.
  """
  names = {each.lower().replace("-", ""): each for each in config.TASK_NAMES}
  wanted = re.sub("[-_]", "", name.lower())
  if wanted not in names:
    allowed = [*map(str.lower, config.TASK_NAMES), *config.FILE_FORMATS]
    raise ValueError(
      f"task_name {name!r} is not one of {', '.join(allowed)}. To use a "
      "DataProcessor of your own, set `processor=MODULE:CLASS`."
    )
  name = names[wanted]
  if name == "XNLI":
    # The training data are translated MNLI.
    file = f"multinli/multinli.train.{xnli_language}.tsv"
    only = ("language", xnli_language)
    dev = Split("xnli.dev.tsv", "dev", *_PAIR, "gold_label", only=only)
    return Source(
      name=name,
      labels=_NLI,
      label_spellings={"contradictory": "contradiction"},
      data_dir=data_dir,
      splits={
        "train": Split(file, "train", "premise", "hypo", "label"),
        "dev": dev,
      },
    )
  task = _GLUE[name]
  columns = (*task.texts, task.label)
  dev_name, test_name = f"dev{task.suffix}", f"test{task.suffix}"
  row_id = "index" if task.suffix else None  # In the files of MNLI.
  splits = {
    "train": Split("train.tsv", "train", *columns, row_id),
    "dev": Split(f"{dev_name}.tsv", dev_name, *columns, row_id),
    "test": Split(f"{test_name}.tsv", "test", *task.texts, None, row_id),
  }
  if name == "CoLA":
    # Only the test file has a header. Columns: source, label, author's mark,
    # text.
    for split in ("train", "dev"):
      splits[split] = dataclasses.replace(splits[split], text=3, label=1)
  if name == "AX":
    test = dataclasses.replace(splits["test"], file="diagnostic.tsv")
    splits = {"test": test}
  return Source(
    name=name,
    labels=task.labels,
    metrics=task.metrics,
    problem_type="classification" if task.labels else "regression",
    number_range=(0.0, 5.0),  # Of STS-B, the only regression.
    submission="MNLI-m.tsv" if name == "MNLI" else f"{name}.tsv",
    data_dir=data_dir,
    splits=splits,
  )
