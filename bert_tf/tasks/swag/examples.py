"""Reads SWAG and other files of multiple choice as examples."""

import dataclasses
import os
import string
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.formats import tables
from bert_tf.formats.tables import Column, Row
from bert_tf.tasks.swag import config


@dataclasses.dataclass(frozen=True)
class ChoiceLayout:
  """The files of a multiple-choice task and their columns."""

  file_format: str  # "tsv", "csv" or "jsonl".
  train: str  # File to train on, below the task's folder.
  dev: str  # File to evaluate on.
  test: str  # File to predict; it needs no labels.
  context: Column  # Column of the text that is sentence A.
  # Columns of the choices; a single column holds a list of choices.
  choices: tuple[Column, ...]
  label: Column  # Column of the label.
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
  train="train.csv",
  dev="val.csv",
  test="test.csv",
  context="sent1",
  choices=("ending0", "ending1", "ending2", "ending3"),
  label="label",
  question="sent2",
)


@dataclasses.dataclass(frozen=True)
class ChoiceExample:
  """A text and the choices of what follows it."""

  guid: str  # Name of the example: its file and its line, counted from 0.
  context: str
  question: str  # The beginning of sentence B, or "".
  choices: tuple[str, ...]  # At least two.
  # Index of the right choice, or None if it is not known.
  label: int | None = None

  def continuations(self) -> list[str]:
    """Returns sentence B of each choice."""
    return [f"{self.question} {choice}".strip() for choice in self.choices]


def own_files(
  file_format: str,
  context_column: str,
  question_column: str | None,
  choice_columns: Sequence[str],
  label_column: str,
  label_type: str,
) -> ChoiceLayout:
  """Returns the layout of a user's own train, dev and test files.

  The arguments are settings of config.SwagConfig.
  """
  if not all((context_column, label_column, choice_columns, *choice_columns)):
    raise ValueError(
      "name the columns of the files: `context_column`, `choice_columns` and "
      "`label_column` cannot be empty."
    )
  context, question, label, *choices = tables.parse_columns(
    file_format,
    (context_column, question_column, label_column, *choice_columns),
  )
  if file_format != "jsonl" and len(choices) < 2:
    raise ValueError(
      f"`choice_columns={choice_columns[0]}` is one choice; name a column for "
      "each, with commas between them."
    )
  if len(set(choices)) < len(choices):
    raise ValueError(
      f"`choice_columns={','.join(choice_columns)}` names a column twice."
    )
  assert context is not None and label is not None
  settings = {choice: "choice_columns" for choice in choices if choice}
  settings |= {context: "context_column", label: "label_column"}
  if question is not None:
    settings[question] = "question_column"
  return ChoiceLayout(
    file_format=file_format,
    train=f"train.{file_format}",
    dev=f"dev.{file_format}",
    test=f"test.{file_format}",
    context=context,
    choices=tuple(choice for choice in choices if choice is not None),
    label=label,
    question=question,
    label_type=label_type,
    settings=settings,
  )


def read_examples(
  data_dir: str,
  file: str,
  layout: ChoiceLayout,
  has_labels: bool,
  skip_bad_rows: bool = False,
) -> list[ChoiceExample]:
  """Reads one file of a task; skip_bad_rows logs and leaves out faulty rows.

  Raises ValueError with file and line for a faulty row, or if there is none.
  """
  path = os.path.join(data_dir, file)
  prefix = os.path.splitext(file)[0]
  needed = (layout.context, *layout.choices)
  needed += () if layout.question is None else (layout.question,)
  needed += (layout.label,) if has_labels else ()
  num_choices = None

  def convert(line: int, row: Row) -> ChoiceExample:
    nonlocal num_choices
    choices = _choices(row, layout)
    if num_choices not in (None, len(choices)):
      raise tables.BadRowError(
        f"{len(choices)} choices, but {num_choices} in the rows before"
      )
    label = None
    if has_labels:
      label = label_id(
        tables.get_cell(row, layout.label), choices, layout.label_type
      )
    context = tables.get_text(row, layout.context)
    question = ""
    if layout.question is not None:  # It may be empty.
      question = tables.get_cell(row, layout.question)
      if not isinstance(question, str):
        raise tables.BadRowError(
          f"column {layout.question} must be text, not {question!r}"
        )
    num_choices = len(choices)
    return ChoiceExample(
      f"{prefix}-{line - 1}", context, question, choices, label
    )

  table = tables.Table(path, layout.file_format, needed, layout.settings)
  examples = tables.read(table, convert, skip_bad_rows)
  if not examples:
    raise ValueError(f"{path} holds no example.")
  return examples


def label_id(value: Any, choices: Sequence[str], label_type: str) -> int:
  """Returns the index of the choice that a label names; else BadRowError."""
  names = label_names(choices, label_type)
  text = str(value).strip()
  if label_type == "letter":
    text = text.upper()
  if names.count(text) != 1:
    known = "" if label_type == "text" else f" {names[0]} to {names[-1]}"
    what = "several" if text in names else "none"
    raise tables.BadRowError(
      f"label {value!r} is {what} of the {len(choices)} choices{known}; labels "
      f"are read as `label_type={label_type}`, there are also "
      f"{', '.join(name for name in config.LABEL_TYPES if name != label_type)}"
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


def _choices(row: Row, layout: ChoiceLayout) -> tuple[str, ...]:
  """Returns the choices of a row; raises tables.BadRowError if not texts."""
  if len(layout.choices) > 1:
    return tuple(tables.get_text(row, column) for column in layout.choices)
  column = layout.choices[0]
  choices = tables.get_cell(row, column)
  if not isinstance(choices, list) or len(choices) < 2:
    raise tables.BadRowError(
      f"column {column} must be a list of two choices or more, not {choices!r}"
    )
  for choice in choices:
    if not isinstance(choice, str) or not choice.strip():
      raise tables.BadRowError(
        f"a choice of column {column} must be text, not {choice!r}"
      )
  return tuple(choices)
