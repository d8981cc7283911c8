"""Reads SWAG and other files of multiple choice as rows."""

import dataclasses
import os
import string
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.files import tables
from bert_tf.files.tables import Column
from bert_tf.tasks.rows import Row
from bert_tf.tasks.swag import config as config_lib


@dataclasses.dataclass(frozen=True)
class ChoiceLayout:
  """The files of a multiple-choice task and their columns."""

  file_format: str  # "tsv", "csv" or "jsonl".
  # The files of "train", "dev" and "test" below the task's folder.
  files: Mapping[str, str]
  context: Column  # Column of the text that is sentence A.
  # Columns of the choices; a single column holds a list of choices.
  choices: tuple[Column, ...]
  label: Column  # Column of the label; the test file needs none.
  # Column of the beginning of sentence B, before each choice; None without one.
  question: Column | None = None
  label_type: str = "number"  # One of config.LABEL_TYPES.
  # The setting that names a column of the user's own files, by column.
  settings: Mapping[Column, str] = dataclasses.field(default_factory=dict)


# Zellers et al. 2018. Sentence A is "the given sentence", and sentence B "a
# possible continuation" (Devlin et al. 2019, 4.4). The endings complete a
# second sentence, whose beginning therefore belongs to B.
SWAG = ChoiceLayout(
  file_format="csv",
  files={"train": "train.csv", "dev": "val.csv", "test": "test.csv"},
  context="sent1",
  choices=("ending0", "ending1", "ending2", "ending3"),
  label="label",
  question="sent2",
)


def file_layout(config: config_lib.SwagConfig) -> ChoiceLayout:
  """Returns the layout of the files that a config describes."""
  file_format = config.task_name.lower()
  if file_format == "swag":
    return SWAG
  if file_format not in config_lib.FILE_FORMATS:
    raise ValueError(
      f"task_name {config.task_name!r} is not known. Use swag, "
      f"{', '.join(config_lib.FILE_FORMATS)}."
    )
  names = (config.context_column, config.label_column, config.question_column)
  columns: list[Any] = tables.parse_columns(
    file_format, (*names, *(config.choice_columns or ()))
  )
  context, label, question, *choices = columns
  least = 1 if file_format == "jsonl" else 2
  if None in (context, label, *choices) or len(set(choices)) < max(
    least, len(choices)
  ):
    raise ValueError(
      "Name the columns of the files: `context_column`, `label_column` and, "
      "separated by commas, the `choice_columns`, one for each choice."
    )
  settings = dict.fromkeys(choices, "choice_columns")
  settings |= {context: "context_column", label: "label_column"}
  if question is not None:
    settings[question] = "question_column"
  return ChoiceLayout(
    file_format,
    {split: f"{split}.{file_format}" for split in ("train", "dev", "test")},
    context,
    tuple(choices),
    label,
    question,
    config.label_type,
    settings,
  )


def read_rows(
  path: str,
  layout: ChoiceLayout,
  has_labels: bool,
  skip_bad_rows: bool | None = None,
) -> list[Row]:
  """Reads one file of a task; skip_bad_rows logs and leaves out faulty rows.

  A row has `id`, its file and line; `context`; `choices`, each with the
  question before it; `choice_labels`, which name them in predictions; and the
  index of the right one as `label`, if the file has labels.

  Raises ValueError with file and line for a faulty row, or if there is none.
  """
  prefix = os.path.splitext(os.path.basename(path))[0]
  needed = [layout.context, *layout.choices]
  needed += [] if layout.question is None else [layout.question]
  needed += [layout.label] if has_labels else []
  num_choices = None

  def convert(line: int, row: tables.Row) -> Row:
    nonlocal num_choices
    cells, names = row, layout.choices
    if len(names) == 1:
      texts = tables.get_cell(row, names[0])
      if not isinstance(texts, list) or len(texts) < 2:
        raise tables.BadRowError(
          f"column {names[0]} must list two texts or more, not {texts!r}"
        )
      cells = {f"{names[0]}[{i}]": text for i, text in enumerate(texts)}
      names = tuple(cells)
    choices = [tables.get_text(cells, name, not has_labels) for name in names]
    if num_choices not in (None, len(choices)):
      raise tables.BadRowError(
        f"{len(choices)} choices, but {num_choices} in the rows before"
      )
    question, label = "", {}
    if layout.question is not None:
      question = tables.get_text(row, layout.question, may_be_empty=True)
    if has_labels:
      value = tables.get_cell(row, layout.label)
      label = {"label": label_id(value, choices, layout.label_type)}
    context = tables.get_text(row, layout.context, not has_labels)
    num_choices = len(choices)
    labels: list[Any] = label_names(choices, layout.label_type)
    if layout.label_type.startswith("number"):
      labels = [*map(int, labels)]
    return {
      "id": f"{prefix}-{line - 1}",
      "context": context,
      "choices": [f"{question} {choice}".strip() for choice in choices],
      "choice_labels": labels,
      **label,
    }

  table = tables.Table(path, layout.file_format, needed, layout.settings)
  rows = tables.read(table, convert, skip_bad_rows)
  if not rows:
    raise ValueError(f"{path} holds no examples.")
  return rows


def label_id(value: Any, choices: Sequence[str], label_type: str) -> int:
  """Returns the index of the choice that a label names; else BadRowError."""
  names = label_names(choices, label_type)
  text = str(value).strip()
  if label_type == "letter":
    text = text.upper()
  if names.count(text) != 1:
    what = "several" if text in names else "none"
    raise tables.BadRowError(
      f"label {value!r} is {what} of {', '.join(names)}; labels are read as "
      f"`label_type={label_type}`, one of {', '.join(config_lib.LABEL_TYPES)}"
    )
  return names.index(text)


def label_names(choices: Sequence[str], label_type: str) -> list[str]:
  """Returns the label of each choice in the form of label_type."""
  if label_type == "text":
    return [choice.strip() for choice in choices]
  if label_type == "letter":
    return list(string.ascii_uppercase[: len(choices)])
  first = 1 if label_type == "number_from_1" else 0
  return [str(first + i) for i in range(len(choices))]
