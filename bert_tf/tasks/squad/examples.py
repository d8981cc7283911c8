"""Reads files in the format of SQuAD 1.1 and 2.0."""

import bisect
import dataclasses
import functools
import re
from typing import Any

from absl import logging

from bert_tf import tokenization
from bert_tf.files import json_files, recognize
from bert_tf.formats import tables

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


@dataclasses.dataclass(frozen=True)
class SquadExample:
  """A question about a context."""

  qas_id: str
  question_text: str
  context: Context
  # The texts of the accepted answers; None if the file has no answers.
  answers: tuple[str, ...] | None
  # Whether there is no answer; None if the file does not say so, as in 1.1.
  is_impossible: bool | None
  # Indices of the answer's first and last word in context.doc_tokens. Only for
  # training; -1 without an answer.
  start_position: int = -1
  end_position: int = -1


def read_squad_examples(
  input_file: str,
  is_training: bool,
  version_2_with_negative: bool = False,
  verbose_logging: bool = False,
) -> list[SquadExample]:
  """Reads the questions of a SQuAD file; see `parse`."""
  form = recognize.form_of(input_file)
  if form not in ("", "a JSON object"):
    raise ValueError(
      f"{input_file} holds {form}, but SQuAD's format is one JSON object with "
      "data, paragraphs and qas. docs/question_answering.md converts others."
    )
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
) -> list[SquadExample]:
  """Returns the questions of SQuAD's JSON in order; `name` is for messages.

  Questions for training have the word positions of their answers. A question
  whose answer is not at the position in the file is left out, with a warning.
  Questions for prediction need no answer. verbose_logging logs every fault,
  instead of the first few.

  Raises:
    ValueError: if a field is missing, has another type, is out of bounds or not
      unique; names the field or the question. Also for version_2_with_negative
      with a training file of SQuAD 1.1, or if no question can be used.
  """
  questions = [
    (context, qa)
    for article in json_files.check(value, SquadFile, name).data
    for paragraph in article.paragraphs
    for context in [Context(paragraph.context)]
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
  examples: tables.Examples[SquadExample] = tables.Examples()
  ids: set[str] = set()
  not_found: list[str] = []
  for context, qa in questions:
    answers = None if qa.answers is None else tuple(a.text for a in qa.answers)
    example = SquadExample(
      str(qa.id), qa.question, context, answers, qa.is_impossible
    )
    if not is_training and example.qas_id in ids:
      raise ValueError(
        f"{name} has two questions with the id {example.qas_id!r}. Ids "
        "identify predictions, so make them unique."
      )
    ids.add(example.qas_id)
    if is_training:
      example, fault = _locate(example, qa, name, version_2_with_negative)
      if fault:
        not_found.append(fault)
        continue
    examples.append(example)
  if not_found:
    shown = not_found if verbose_logging else not_found[:_MAX_REPORTED]
    if len(shown) < len(not_found):
      shown.append("... (`verbose_logging` lists all)")
    logging.warning(
      f"{name}: {len(not_found)} questions are left out, because the answer "
      f"is not in the context: {'; '.join(shown)}."
    )
  examples.dropped = not_found
  if not examples:
    raise ValueError(f"{name} has no question that can be used.")
  return examples


def _locate(
  example: SquadExample,
  qa: FileQuestion,
  name: str,
  version_2_with_negative: bool,
) -> tuple[SquadExample, str]:
  """Adds the answer's position; the fault is "" if the answer is there."""
  is_impossible = qa.is_impossible
  if is_impossible is None:
    # Some files mark impossible questions only by an empty list of answers.
    is_impossible = qa.answers == []
  if version_2_with_negative and is_impossible:
    return dataclasses.replace(example, is_impossible=True), ""
  place = f"{name}: question {example.qas_id!r}"
  answers = qa.answers or []
  if len(answers) != 1:
    raise ValueError(
      f"{place} has {len(answers)} answers. A training question has exactly "
      "1, or none with `version_2_with_negative`."
    )
  [answer] = answers
  context, start = example.context, answer.answer_start
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
    fault = f"{cleaned_text!r} is not in {there!r} at {start}"
    return example, f"{example.qas_id!r}, {fault}"
  located = dataclasses.replace(
    example,
    is_impossible=False,
    start_position=start_position,
    end_position=end_position,
  )
  return located, ""
