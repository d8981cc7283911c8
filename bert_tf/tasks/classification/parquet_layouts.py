"""Layouts of Parquet files: GLUE by Hugging Face, and the user's own data."""

import dataclasses
import os
from collections.abc import Iterable, Sequence

from bert_tf.files import paths
from bert_tf.formats import parquet
from bert_tf.tasks.classification.examples import FileLayout, Split

# Names of the splits in file names.
_TRAIN, _DEV, _TEST = ("train",), ("dev", "validation"), ("test",)

_NLI = ("entailment", "neutral", "contradiction")
_ENTAILMENT = ("entailment", "not_entailment")
_FOLLOWS = ("not_entailment", "entailment")


@dataclasses.dataclass(frozen=True)
class _DataSet:
  """A task of GLUE in Hugging Face's data set."""

  folder: str  # Name of the task's folder in the data set.
  text_a: str  # Column of the text, or of the first of a pair.
  text_b: str | None = None  # Column of the second of a pair, or None.
  classes: tuple[str, ...] = ()  # In the order of the ids in the files.
  kind: str = ""  # Suffix of the names of the dev and test splits.


_PAIR = ("sentence1", "sentence2")
_PREMISE = ("premise", "hypothesis")

_GLUE = {
  "CoLA": _DataSet("cola", "sentence", classes=("unacceptable", "acceptable")),
  "SST-2": _DataSet("sst2", "sentence", classes=("negative", "positive")),
  "MRPC": _DataSet("mrpc", *_PAIR, ("not_equivalent", "equivalent")),
  "STS-B": _DataSet("stsb", *_PAIR),
  "QQP": _DataSet(
    "qqp", "question1", "question2", ("not_duplicate", "duplicate")
  ),
  "MNLI": _DataSet("mnli", *_PREMISE, _NLI, "_matched"),
  "MNLI-mm": _DataSet("mnli", *_PREMISE, _NLI, "_mismatched"),
  "QNLI": _DataSet("qnli", "question", "sentence", _ENTAILMENT),
  "RTE": _DataSet("rte", *_PAIR, _ENTAILMENT),
  "WNLI": _DataSet("wnli", *_PAIR, _FOLLOWS),
  "AX": _DataSet("ax", *_PREMISE, _NLI),
}


def find_glue(layout: FileLayout, data_dir: str) -> FileLayout:
  """Returns the layout of a GLUE task's Parquet files.

  They are in data_dir or in a subfolder with the task's name, such as mrpc.
  Returns `layout` if there are none, or if data_dir has official files.
  """
  official = layout.train, layout.dev, layout.test
  if layout.name not in _GLUE or _any_exists(data_dir, official):
    return layout
  data_set = _GLUE[layout.name]
  # The official label for each class id and each class name.
  spellings: dict[str, str] = {}
  for index, name in enumerate(data_set.classes):
    label = name if name in (layout.labels or ()) else str(index)
    spellings |= {str(index): label, name: label}
  for folder in ("", data_set.folder):
    found = []
    for split, names, kind in (
      (layout.train, _TRAIN, ""),
      (layout.dev, _DEV, data_set.kind),
      (layout.test, _TEST, data_set.kind),
    ):
      if split is not None:
        split = dataclasses.replace(
          split,
          text_a=data_set.text_a,
          text_b=data_set.text_b,
          label=None if split.label is None else "label",
          guid=None,
          num_columns=None,
        )
        files = [os.path.join(folder, name + kind) for name in names]
        split = _with_files(split, data_dir, files)
      found.append(split)
    if _any_exists(data_dir, found):
      train, dev, test = found
      return dataclasses.replace(
        layout,
        file_format="parquet",
        label_spellings=spellings,
        train=train,
        dev=dev,
        test=test,
      )
  return layout


def _any_exists(data_dir: str, splits: Iterable[Split | None]) -> bool:
  return any(
    paths.exists(os.path.join(data_dir, split.file))
    for split in splits
    if split is not None
  )


def find_own(layout: FileLayout, data_dir: str) -> FileLayout:
  """Returns the layout of the user's own Parquet files in data_dir."""
  assert layout.train and layout.dev and layout.test
  return dataclasses.replace(
    layout,
    train=_with_files(layout.train, data_dir, _TRAIN),
    dev=_with_files(layout.dev, data_dir, _DEV),
    test=_with_files(layout.test, data_dir, _TEST),
  )


def _with_files(split: Split, data_dir: str, names: Sequence[str]) -> Split:
  """Returns the split with its Parquet files.

  Without files, the split names a file that does not exist.
  """
  files = [
    path.removeprefix(data_dir).lstrip("/")
    for path in parquet.find_split(data_dir, *names)
  ]
  first, *others = files or [f"{names[-1]}.parquet"]
  return dataclasses.replace(split, file=first, other_files=tuple(others))
