"""Reads files in the format of SQuAD 1.1 and 2.0 as rows."""

import bisect
import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_tf import tokenization
from bert_tf.files import json_files, tables
from bert_tf.tasks.rows import Row

# A word, as SQuAD's readers split text. Unlike `str.split`, they do not split
# at other white space, such as U+00A0.
_WORD = re.compile("[^ \t\r\n\u202f]+")

# Maximum faults of one kind that are logged, unless verbose_logging is set.
_MAX_REPORTED = 5


@dataclasses.dataclass(frozen=True)
class FileAnswer:
  """An accepted answer in a SQuAD file."""

  text: str
  answer_start: int = -1  # In characters. Some data sets use -1 for unknown.


@dataclasses.dataclass(frozen=True)
class FileQuestion:
  """A question in a SQuAD file."""

  id: str | int
  question: str
  answers: list[FileAnswer] | None = None
  is_impossible: bool | None = None


@dataclasses.dataclass(frozen=True)
class FileParagraph:
  """A context and its questions in a SQuAD file."""

  context: str
  qas: list[FileQuestion]


@dataclasses.dataclass(frozen=True)
class FileArticle:
  """An article in a SQuAD file."""

  paragraphs: list[FileParagraph]


@dataclasses.dataclass(frozen=True)
class SquadFile:
  """The JSON of a SQuAD file."""

  data: list[FileArticle]


@dataclasses.dataclass(frozen=True, eq=False)
class Context:
  """A paragraph, shared by its questions."""

  text: str

  @functools.cached_property
  def doc_tokens(self) -> list[str]:
    """The words of the text, split at white space."""
    return _WORD.findall(self.text)

  @functools.cached_property
  def char_starts(self) -> list[int]:
    """The index in the text of each word's first character."""
    return [match.start() for match in _WORD.finditer(self.text)]


def read_squad_examples(
  input_file: str,
  is_training: bool,
  version_2_with_negative: bool = False,
  verbose_logging: bool = False,
) -> list[Row]:
  """Reads the questions of a SQuAD file; see `parse`."""
  value = json_files.read(input_file)
  return parse(
    value, input_file, is_training, version_2_with_negative, verbose_logging
  )


def parse(
  value: Any,
  name: str,
  is_training: bool,
  version_2_with_negative: bool = False,
  verbose_logging: bool = False,
) -> list[Row]:
  """Returns the questions of SQuAD's JSON in order; `name` is for messages.

  A row has `id`, `question`, `context`; `answers`, the texts of the accepted
  answers, None if the file has no answers; `label`, the first of them; and
  `is_impossible`, whether there is no answer, None if the file does not say so,
  as in 1.1. Rows for training also have what `locate` adds. A question whose
  answer is not at the position in the file is left out, with a warning.
  Questions for prediction need no answer. verbose_logging logs every fault,
  instead of the first few.

  Raises:
    ValueError: if a field is missing, has another type, is out of bounds or not
      unique; names the field or the question. Also for version_2_with_negative
      with a training file of SQuAD 1.1, or if no question can be used.
  """
  questions = [
    (paragraph.context, qa)
    for article in json_files.check(value, SquadFile, name).data
    for paragraph in article.paragraphs
    for qa in paragraph.qas
  ]
  needs_field = is_training and version_2_with_negative
  if needs_field and all(
    qa.is_impossible is None and qa.answers != [] for _, qa in questions
  ):
    raise ValueError(
      f"{name}: no question has the field is_impossible. Set "
      "`version_2_with_negative=False` for data of SQuAD 1.1."
    )
  rows: tables.Examples[Row] = tables.Examples()
  contexts = functools.cache(Context)
  ids: set[str] = set()
  not_found: list[str] = []
  for context, qa in questions:
    row = make_row(str(qa.id), qa.question, context, qa.answers)
    row["is_impossible"] = qa.is_impossible
    if not is_training and row["id"] in ids:
      raise ValueError(
        f"{name} has two questions with the id {row['id']!r}. Ids identify "
        "predictions, so make them unique."
      )
    ids.add(row["id"])
    if is_training:
      fault = locate(
        row, qa.answers or [], contexts(context), version_2_with_negative, name
      )
      if fault:
        not_found.append(fault)
        continue
    rows.append(row)
  if not_found:
    shown = not_found if verbose_logging else not_found[:_MAX_REPORTED]
    if len(shown) < len(not_found):
      shown.append("... (`verbose_logging` lists all)")
    logging.warning(
      f"{name}: {len(not_found)} questions are left out, because the answer "
      f"is not in the context: {'; '.join(shown)}."
    )
  rows.dropped = not_found
  if not rows:
    raise ValueError(f"{name} has no question that can be used.")
  return rows


def make_row(
  qas_id: str, question: str, context: str, answers: list[FileAnswer] | None
) -> Row:
  """Returns the row of a question; `answers` are None if they are not known."""
  texts = None if answers is None else [answer.text for answer in answers]
  return {
    "id": qas_id,
    "question": question,
    "context": context,
    "answers": texts,
    "label": next(iter(texts or ()), None),
  }


def to_answers(label: Any, context: str) -> list[FileAnswer]:
  """Returns the accepted answers of a label from Python; [] for no answer.

  The label is a text in the context, a dict of `text` and `answer_start`, a
  list of accepted texts, or None or "". Raises ValueError for another one.
  """
  starts: list[Any] = []
  if isinstance(label, Mapping):
    starts = _as_list(label.get("answer_start"))
    label = label.get("text")
  texts = _as_list(label)
  if not all(isinstance(text, str) for text in texts):
    raise ValueError(f"its answer is not a text: {label!r:.60}.")
  starts = starts or [context.find(text) for text in texts]
  if len(starts) != len(texts) or -1 in starts:
    raise ValueError(f"its answer is not in its context: {label!r:.60}.")
  return [FileAnswer(text, start) for text, start in zip(texts, starts)]


def _as_list(value: Any) -> list[Any]:
  if value is None or value == "":
    return []
  return [*value] if isinstance(value, list | tuple) else [value]


def locate(
  row: Row,
  answers: list[FileAnswer],
  context: Context,
  version_2_with_negative: bool,
  name: str,
) -> str:
  """Adds the word positions of a training row's answer; returns its fault.

  `start_position` and `end_position` are indices of `context.doc_tokens`, -1
  without an answer; `is_impossible` says which. The fault is "" if the answer
  is where the file says. `name` is that of the file, for messages.
  """
  row |= {"start_position": -1, "end_position": -1}
  is_impossible = row.get("is_impossible")
  if is_impossible is None:
    # Some files mark impossible questions only by an empty list of answers.
    is_impossible = row["answers"] == []
  if version_2_with_negative and is_impossible:
    row["is_impossible"] = True
    return ""
  place = f"{name}: question {row['id']!r}"
  if len(answers) != 1:
    raise ValueError(
      f"{place} has {len(answers)} answers. A training question has exactly "
      "1, or none with `version_2_with_negative`."
    )
  [answer] = answers
  start = answer.answer_start
  last = start + len(answer.text) - 1
  if max(start, last) >= len(context.text):
    raise ValueError(
      f"{place}: answer_start is {start} and the answer of {len(answer.text)} "
      f"characters exceeds its context of {len(context.text)}."
    )
  # The words at or before both characters; -1 before the first word.
  start_position, end_position = (
    bisect.bisect_right(context.char_starts, char) - 1 for char in (start, last)
  )
  words = context.doc_tokens[start_position : end_position + 1]
  there = " ".join(words) if start_position >= 0 else ""
  cleaned_text = " ".join(tokenization.whitespace_tokenize(answer.text))
  if not cleaned_text or cleaned_text not in there:
    return f"{row['id']!r}, {cleaned_text!r} is not in {there!r} at {start}"
  row |= {"start_position": start_position, "end_position": end_position}
  row["is_impossible"] = False
  return ""
