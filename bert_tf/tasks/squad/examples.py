"""Reads files in the format of SQuAD 1.1 and 2.0."""

import bisect
import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import Any

from absl import logging

from bert_tf import tokenization
from bert_tf.files import json_files
from bert_tf.formats import tables

# A word, as SQuAD's readers split text. Unlike `str.split`, they do not split
# at other white space, such as U+00A0.
_WORD = re.compile("[^ \t\r\n\u202f]+")

_UNREAD = "questions have answers that cannot be read, so nothing is scored"
_EMPTY = "questions are used that are empty, or their context is"
_NOT_FOUND = "questions are left out, whose answer is not in their context"

# Maximum faults of one kind that are logged, unless verbose_logging is set.
_MAX_REPORTED = 5

# Names of types, for messages.
_KINDS: dict[Any, str] = {
  dict: "an object",
  list: "a list",
  str: "a string",
  int: "a whole number",
  bool: "true or false",
  str | int: "a string",
  bool | int | None: "true or false",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Context:
  """A paragraph, shared by its questions."""

  text: str
  doc_tokens: Sequence[str]  # Its words, split at white space.

  @classmethod
  def from_text(cls, text: str) -> "Context":
    """Splits a text into words."""
    return cls(text, _WORD.findall(text))

  @functools.cached_property
  def char_starts(self) -> list[int]:
    """The index in the text of each word's first character."""
    return [match.start() for match in _WORD.finditer(self.text)]

  def word_at(self, char: int) -> int:
    """Returns the index of the word at or before a character.

    Returns -1 before the first word.
    """
    return bisect.bisect_right(self.char_starts, char) - 1


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


@dataclasses.dataclass(frozen=True)
class _Node:
  """A JSON value and its path in the file."""

  file: str
  # Keys and indices that lead to the value. The path of an object in a list
  # ends with ".", to which `get` appends a key.
  path: str
  value: Any

  def get(self, key: str, kind: Any) -> "_Node":
    """Returns a field; raises ValueError if missing or of another type."""
    if key not in self.value:
      raise ValueError(
        f"{self.file}: {self.path}{key} is missing; the file is not in the "
        "format of SQuAD."
      )
    path = f"{self.path}{key}"
    return _Node(self.file, path, self.value[key]).checked(kind)

  def objects(self) -> list["_Node"]:
    """Returns the elements of a list, each of which must be an object."""
    return [
      _Node(self.file, f"{self.path}[{i}].", value).checked(dict)
      for i, value in enumerate(self.value)
    ]

  def checked(self, kind: Any) -> "_Node":
    """Returns this node; raises ValueError if its value has another type."""
    if not isinstance(self.value, kind):
      actual = _KINDS.get(type(self.value), repr(self.value))
      raise ValueError(
        f"{self.file}: {self.path.rstrip('.')} is {actual}, expected "
        f"{_KINDS[kind]}; the file is not in the format of SQuAD."
      )
    return self


def read_squad_examples(
  input_file: str,
  is_training: bool,
  version_2_with_negative: bool = False,
  verbose_logging: bool = False,
) -> list[SquadExample]:
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
) -> list[SquadExample]:
  """Returns the questions of SQuAD's JSON in order; `name` is for messages.

  Questions for training have the word positions of their answers. A question
  whose answer is not at the position in the file is left out, with a warning.
  Questions for prediction need no answer; a faulty answer is ignored, with a
  warning. verbose_logging logs every fault, instead of the first few.

  Raises:
    ValueError: if a field is missing, has another type, is out of bounds or not
      unique; names file and path. Also for version_2_with_negative with a
      training file of SQuAD 1.1, or if no question can be used.
  """
  examples: tables.Examples[SquadExample] = tables.Examples()
  not_found = []
  empty = []
  unread: list[str] = []
  paths: dict[str, str] = {}
  _Node(name, "the whole", value).checked(dict)
  questions = []
  for article in _Node(name, "", value).get("data", list).objects():
    for paragraph in article.get("paragraphs", list).objects():
      context = Context.from_text(paragraph.get("context", str).value)
      questions += [
        (context, qa) for qa in paragraph.get("qas", list).objects()
      ]
  if (
    is_training
    and version_2_with_negative
    and not any(
      "is_impossible" in qa.value or qa.value.get("answers") == []
      for _, qa in questions
    )
  ):
    raise ValueError(
      f"{name}: no question has the field is_impossible; set "
      "`version_2_with_negative=False` for data of SQuAD 1.1."
    )
  for context, qa in questions:
    example = _example(context, qa, None if is_training else unread)
    first = paths.setdefault(example.qas_id, qa.path)
    if not is_training and first != qa.path:
      raise ValueError(
        f"{name}: {qa.path}id is {example.qas_id!r}, and so is {first}id; "
        "ids identify predictions, so make them unique."
      )
    if not example.question_text.strip():
      empty.append(f"{qa.path}question is empty")
    elif not context.doc_tokens:
      empty.append(f"{qa.path.rpartition('qas[')[0]}context is empty")
    if is_training:
      example, fault = _locate(example, qa, version_2_with_negative)
      if fault:
        not_found.append(fault)
        continue
    examples.append(example)
  _report(name, unread, _UNREAD, verbose_logging)
  _report(name, empty, _EMPTY, verbose_logging)
  _report(name, not_found, _NOT_FOUND, verbose_logging)
  examples.num_dropped = len(not_found)
  if not examples:
    raise ValueError(f"{name} has no question that can be used.")
  return examples


def _example(
  context: Context, qa: _Node, unread: list[str] | None
) -> SquadExample:
  """Returns a question without the positions of its answers.

  Appends faults of the answers to `unread`, or raises them if `unread` is None.
  """
  answers = is_impossible = None
  try:
    if qa.value.get("answers") is not None:
      nodes = qa.get("answers", list).objects()
      answers = tuple(node.get("text", str).value for node in nodes)
    if "is_impossible" in qa.value:
      # The original also accepted numbers and null.
      is_impossible = bool(qa.get("is_impossible", bool | int | None).value)
  except ValueError as error:
    if unread is None:
      raise
    answers = is_impossible = None
    unread.append(str(error))
  qas_id = qa.get("id", str | int).value
  return SquadExample(
    qas_id=str(qas_id),
    question_text=qa.get("question", str).value,
    context=context,
    answers=answers,
    is_impossible=is_impossible,
  )


def _locate(
  example: SquadExample, qa: _Node, version_2_with_negative: bool
) -> tuple[SquadExample, str]:
  """Returns the question with its answer's position, and a fault.

  The fault is "" if the answer is at its position in the context.
  """
  if version_2_with_negative and example.is_impossible is None:
    # Some files mark impossible questions only by an empty list of answers.
    is_impossible = not qa.get("answers", list).value
    example = dataclasses.replace(example, is_impossible=is_impossible)
  if version_2_with_negative and example.is_impossible:
    return example, ""
  answers = qa.get("answers", list).objects()
  if len(answers) != 1:
    raise ValueError(
      f"{qa.file}: {qa.path}answers has {len(answers)} answers; a question to "
      "train has exactly 1, or none with `version_2_with_negative`."
    )
  (answer,) = answers
  text = answer.get("text", str).value
  start = answer.get("answer_start", int).value
  context = example.context
  last = start + len(text) - 1
  if max(start, last) >= len(context.text):
    raise ValueError(
      f"{qa.file}: {answer.path}answer_start is {start} and the answer of "
      f"{len(text)} characters exceeds its context of {len(context.text)}."
    )
  start_position = context.word_at(start)
  end_position = context.word_at(last)
  # Some data sets use -1 for an answer that is not in the context.
  words = context.doc_tokens[start_position : end_position + 1]
  there = " ".join(words) if start_position >= 0 else ""
  cleaned_text = " ".join(tokenization.whitespace_tokenize(text))
  if not cleaned_text or cleaned_text not in there:
    path = answer.path.rstrip(".")
    return example, f"{path}: {cleaned_text!r} is not in {there!r} at {start}"
  located = dataclasses.replace(
    example,
    is_impossible=False,
    start_position=start_position,
    end_position=end_position,
  )
  return located, ""


def _report(
  input_file: str, faults: Sequence[str], what: str, verbose_logging: bool
) -> None:
  if not faults:
    return
  logging.warning("%s: %d %s.", input_file, len(faults), what)
  num_shown = len(faults) if verbose_logging else _MAX_REPORTED
  for fault in faults[:num_shown]:
    logging.warning("  %s", fault)
  if len(faults) > num_shown:
    logging.warning(
      "  ... and %d more; `verbose_logging` lists them.",
      len(faults) - num_shown,
    )
