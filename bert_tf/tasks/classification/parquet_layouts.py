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

  Returns `layout` if data_dir has no such files, or if it has official files of
  the task. The Parquet files are in data_dir or in a subfolder with the name of
  the task, such as mrpc.

  Args:
    layout: the layout of the task's official files.
    data_dir: the folder of the files.

  Raises:
    ValueError: if a shard is missing.
  """
  official = layout.train, layout.dev, layout.test
  if layout.name not in _GLUE or _any_exists(data_dir, official):
    return layout
  data_set = _GLUE[layout.name]
  for folder in ("", data_set.folder):
    parquet_layout = _in_folder(layout, data_set, data_dir, folder)
    if parquet_layout:
      return parquet_layout
  return layout


def _in_folder(
  layout: FileLayout, data_set: _DataSet, data_dir: str, folder: str
) -> FileLayout | None:
  """Returns the layout of the files in a subfolder; None if it has none."""

  def find(split: Split | None, names: Sequence[str]) -> Split | None:
    if split is None:
      return None
    split = dataclasses.replace(
      split,
      text_a=data_set.text_a,
      text_b=data_set.text_b,
      label=None if split.label is None else "label",
      guid=None,
      num_columns=None,
    )
    names = [os.path.join(folder, name) for name in names]
    return _with_files(split, data_dir, names)

  train = find(layout.train, _TRAIN)
  dev = find(layout.dev, [name + data_set.kind for name in _DEV])
  test = find(layout.test, [name + data_set.kind for name in _TEST])
  if not _any_exists(data_dir, (train, dev, test)):
    return None
  return dataclasses.replace(
    layout,
    file_format="parquet",
    label_spellings=_spellings(layout, data_set),
    train=train,
    dev=dev,
    test=test,
  )


def _any_exists(data_dir: str, splits: Iterable[Split | None]) -> bool:
  """Returns whether the first file of any split exists."""
  return any(
    paths.exists(os.path.join(data_dir, split.file))
    for split in splits
    if split is not None
  )


def _spellings(layout: FileLayout, data_set: _DataSet) -> dict[str, str]:
  """Returns the official label for each class id and each class name."""
  spellings: dict[str, str] = {}
  for index, name in enumerate(data_set.classes):
    label = name if name in (layout.labels or ()) else str(index)
    spellings |= {str(index): label, name: label}
  return spellings


def find_own(layout: FileLayout, data_dir: str) -> FileLayout:
  """Returns the layout of the user's own Parquet files in data_dir.

  Raises:
    ValueError: if a shard is missing.
  """
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
