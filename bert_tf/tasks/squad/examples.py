"""Reads files in the format of SQuAD 1.1 and 2.0 as rows; their windows."""

import bisect
import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf import tokenization
from bert_tf.files import json_files, messages
from bert_tf.tasks.rows import Row

# A word, as SQuAD's readers split text. Unlike `str.split`, they do not split
# at other white space, such as U+00A0.
_WORD = re.compile("[^ \t\r\n\u202f]+")


@dataclasses.dataclass(frozen=True)
class FileAnswer:
  """An accepted answer in a SQuAD file."""

  text: str
  answer_start: int = -1  # In characters. Some data sets use -1 for unknown.


@dataclasses.dataclass(frozen=True)
class _Question:
  id: str | int
  question: str
  answers: list[FileAnswer] | None = None
  is_impossible: bool | None = None


@dataclasses.dataclass(frozen=True)
class _Paragraph:
  context: str
  qas: list[_Question]


@dataclasses.dataclass(frozen=True)
class _Article:
  paragraphs: list[_Paragraph]


@dataclasses.dataclass(frozen=True)
class _SquadFile:
  data: list[_Article]


class Context:
  """A paragraph, shared by its questions.

  Attributes:
    text: the text.
    doc_tokens: its words, split at white space.
    char_starts: the index in the text of each word's first character.
  """

  def __init__(self, text: str) -> None:
    words = [*_WORD.finditer(text)]
    self.text = text
    self.doc_tokens = [word[0] for word in words]
    self.char_starts = [word.start() for word in words]


@dataclasses.dataclass(frozen=True)
class InputFeatures:
  """One window, which is one record."""

  unique_id: int  # Counted from 1000000000 over all windows.
  # Without padding: [CLS] question [SEP] context [SEP].
  input_ids: Sequence[int]
  doc_offset: int  # The position of the first piece of the context.
  words: np.ndarray  # int32 [pieces]. The word of each piece of the context.
  # bool [pieces]. Whether the piece has the most context in this window.
  is_max_context: np.ndarray
  # First and last position of the answer; 0 if it is not in the window.
  start_position: int
  end_position: int


def read_squad_examples(
  input_file: str,
  is_training: bool,
  version_2_with_negative: bool = False,
  verbose_logging: bool = False,
) -> list[Row]:
  """Reads the questions of a SQuAD file, in order.

  A row has `id`, `question`, `context`; `answers`, the texts of the accepted
  answers, None if the file has no answers; `label`, the first of them; and
  `is_impossible`, whether there is no answer, None if the file does not say so,
  as in 1.1. Rows for training also have what `locate` adds. A question whose
  answer is not at the position in the file is left out, with a warning.
  Questions for prediction need no answer. verbose_logging logs every fault,
  instead of the first few.

  Raises:
    ValueError: if a field is missing, has another type, is out of bounds or not
      unique; names the field or the question. Also if no question can be used.
  """
  rows: list[Row] = []
  ids: set[str] = set()
  not_found: list[str] = []
  articles = json_files.read(input_file, _SquadFile).data
  for paragraph in itertools.chain(*(each.paragraphs for each in articles)):
    context = Context(paragraph.context)
    for qa in paragraph.qas:
      row = make_row(
        str(qa.id), qa.question, context.text, qa.answers, qa.is_impossible
      )
      if is_training:
        if fault := locate(
          row, qa.answers or [], context, version_2_with_negative, input_file
        ):
          not_found.append(fault)
          continue
      elif row["id"] in ids:
        raise ValueError(
          f"{input_file} has two questions with the id {row['id']!r}. Ids "
          "identify predictions, so make them unique."
        )
      ids.add(row["id"])
      rows.append(row)
  if not_found:
    num_shown = len(not_found) if verbose_logging else 5
    faults = messages.join_names(not_found, num_shown)
    logging.warning(
      f"{input_file}: {len(not_found)} questions are left out, because the "
      f"answer is not in the context: {faults} (`verbose_logging` lists all)."
    )
  if not rows:
    raise ValueError(f"{input_file} has no question that can be used.")
  return rows


def make_row(
  qas_id: str,
  question: str,
  context: str,
  answers: list[FileAnswer] | None,
  is_impossible: bool | None = None,
) -> Row:
  """Returns the row of a question; None stands for what is not known."""
  texts = None if answers is None else [answer.text for answer in answers]
  return {
    "id": qas_id,
    "question": question,
    "context": context,
    "answers": texts,
    "label": texts[0] if texts else None,
    "is_impossible": is_impossible,
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
  if row["is_impossible"] is None:
    # Some files mark impossible questions only by an empty list of answers.
    row["is_impossible"] = row["answers"] == []
  row["is_impossible"] &= version_2_with_negative
  if row["is_impossible"]:
    return ""
  if len(answers) != 1:
    raise ValueError(
      f"{name}: question {row['id']!r} has {len(answers)} answers. A training "
      "question has exactly 1, or none with `version_2_with_negative`."
    )
  [answer] = answers
  start = answer.answer_start
  last = start + len(answer.text) - 1
  # The words at or before both characters; -1 before the first word.
  first_word, last_word = (
    bisect.bisect_right(context.char_starts, char) - 1 for char in (start, last)
  )
  words = context.doc_tokens[first_word : last_word + 1]
  text = " ".join(words) if first_word >= 0 else ""
  answer_text = " ".join(tokenization.whitespace_tokenize(answer.text))
  if not answer_text or answer_text not in text:
    return f"{row['id']!r}, {answer_text!r} is not in {text!r} at {start}"
  row |= {"start_position": first_word, "end_position": last_word}
  return ""
