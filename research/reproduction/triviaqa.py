"""Turns TriviaQA's questions on Wikipedia into SQuAD's format.

python -m research.reproduction.triviaqa --questions=qa/wikipedia-train.json \
    --evidence=evidence/wikipedia --output_file=triviaqa-train.json

Takes the folders of triviaqa-rc.tar.gz. The paper trained on TriviaQA before
SQuAD (Devlin et al. 2019, 4.2 and its footnote): each context is the first 400
tokens of a document that has one of the answers there. The answer is the first
place with an alias of it, ignoring case, punctuation and articles.
"""

import collections
import dataclasses
import json
import os
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from bert_tf import settings
from bert_tf.cli import command, config_flags
from bert_tf.files import atomic, json_files, text_lines

# The footnote does not say what a token is. Here, a token is a word or a
# punctuation mark, as BERT's basic tokenizer splits them.
_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"[^\W_]+")

_NUM_TOKENS = 400  # Of a document, as in the paper.


@dataclasses.dataclass(frozen=True, kw_only=True)
class TriviaConfig:
  """The files to read and to write."""

  questions: str = settings.setting(
    help="The file of questions with answers, such as wikipedia-train.json."
  )
  evidence: str = settings.setting(
    help="The folder with the documents, evidence/wikipedia."
  )
  output_file: str = settings.setting(
    help="The file to write, in the format of SQuAD 1.1.", writes="file"
  )


def convert(
  config: TriviaConfig,
) -> tuple[list[dict[str, Any]], collections.Counter[str]]:
  """Returns the articles of SQuAD's format, one for each document.

  Also counts the pairs of a question and a document: "used", "without answer"
  if the first tokens have no alias, and "without file" if the folder lacks the
  document.

  Raises:
    ValueError: if a question has no answer, as in TriviaQA's test set, or if
      no document has an answer.
  """
  # Names differ in case and Unicode form from those in the file of questions.
  files = {_file_key(name): name for name in os.listdir(config.evidence)}
  articles: dict[str, dict[str, Any]] = {}
  contexts: dict[str, str] = {}
  counts: collections.Counter[str] = collections.Counter()
  for question in json_files.read_object(config.questions)["Data"]:
    if "Answer" not in question:
      raise ValueError(
        f"{config.questions}: {question['QuestionId']} has no answer; "
        "`questions` must be the training or the dev file."
      )
    answers = question["Answer"]
    texts = [answers["Value"], *answers.get("Aliases", [])]
    texts += answers.get("NormalizedAliases", [])
    words = [[word for word, _, _ in _words(text)] for text in texts]
    aliases = [alias for alias in words if alias]
    pages = (page["Filename"] for page in question.get("EntityPages", []))
    for page in dict.fromkeys(pages):
      file = files.get(_file_key(page))
      if not file:
        counts["without file"] += 1
        continue
      if file not in contexts:
        text = text_lines.read_text(os.path.join(config.evidence, file))
        contexts[file] = cut(text, _NUM_TOKENS)
      answer = find_answer(contexts[file], aliases)
      if not answer:
        counts["without answer"] += 1
        continue
      counts["used"] += 1
      paragraph = {"context": contexts[file], "qas": []}
      article = {"title": page.removesuffix(".txt"), "paragraphs": [paragraph]}
      questions = articles.setdefault(file, article)["paragraphs"][0]["qas"]
      questions.append(
        {
          # As TriviaQA's own converter names it.
          "id": f"{question['QuestionId']}--{page}",
          "question": question["Question"],
          "answers": [answer],
        }
      )
  if not counts["used"]:
    raise ValueError(
      f"no document in {config.evidence} has an answer to {config.questions}; "
      f"{counts['without file']} documents are missing. Set `evidence` to "
      "TriviaQA's evidence/wikipedia."
    )
  return list(articles.values()), counts


def _file_key(name: str) -> str:
  return unicodedata.normalize("NFC", name).lower()


def _words(text: str) -> list[tuple[str, int, int]]:
  """Returns each word in lower case, with its start and end in the text."""
  matches = _WORD.finditer(text)
  return [(m[0].lower(), m.start(), m.end()) for m in matches]


def cut(text: str, num_tokens: int) -> str:
  """Returns the beginning of a text, up to its token of that number."""
  text = unicodedata.normalize("NFC", text)
  end = 0
  for number, match in enumerate(_TOKEN.finditer(text)):
    if number == num_tokens:
      break
    end = match.end()
  return text[:end]


def find_answer(
  context: str, aliases: Sequence[Sequence[str]]
) -> dict[str, Any] | None:
  """Returns the first answer in a context as SQuAD writes it, else None.

  Args:
    context: the text.
    aliases: the words of each alias, in lower case. Of those at the same place,
      the longest is the answer.
  """
  words = _words(context)
  by_word: dict[str, list[Sequence[str]]] = {}
  for alias in sorted(aliases, key=len, reverse=True):
    by_word.setdefault(alias[0], []).append(alias)
  for i, (word, start, _) in enumerate(words):
    for alias in by_word.get(word, ()):
      place = words[i : i + len(alias)]
      if [other for other, _, _ in place] == list(alias):
        text = context[start : place[-1][2]]
        return {"text": text, "answer_start": start}
  return None


def main() -> None:
  """Converts the file of the command line and prints the counts."""
  config = config_flags.build(TriviaConfig)
  articles, counts = convert(config)
  squad = {"version": "1.1", "data": articles}
  atomic.write_lines(config.output_file, [json.dumps(squad)])
  print(
    f"{counts['used']} questions on {len(articles)} documents. Left out: "
    f"{counts['without answer']} without an answer in the first {_NUM_TOKENS} "
    f"tokens, {counts['without file']} without their file."
  )


if __name__ == "__main__":
  config_flags.define(TriviaConfig)
  command.run(main, __doc__)
