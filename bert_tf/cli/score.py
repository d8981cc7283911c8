"""Scores sentences or minimal pairs.

bert-tf score --model=out --text="The cat sat on the mat."

The score is the pseudo-log-likelihood: the sum of the log probabilities of the
word pieces, each masked in turn.
"""

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bert_tf import settings
from bert_tf.cli import command, config_flags, model_flags
from bert_tf.files import atomic, compression, paths, shard_files, text_lines
from bert_tf.inference import config as inference_config

if TYPE_CHECKING:
  from bert_tf.inference import sentence_scorer


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandConfig:
  """The texts, the output and the model."""

  text: tuple[str, ...] = settings.setting(
    (),
    "Text to score; repeat the flag for several texts.",
    repeated=True,
    alternatives=("input_file", "pairs_file"),
  )
  input_file: str | None = settings.setting(
    None, "File with one text a line; may be .gz. Blank lines are skipped."
  )
  pairs_file: tuple[str, ...] = settings.setting(
    (),
    "Files or globs of minimal pairs, separated by commas: .jsonl or .tsv "
    "with sentence_good and sentence_bad, as in BLiMP. Prints the accuracy.",
  )
  output_file: str | None = settings.setting(
    None,
    "File for the scores as JSON lines, instead of stdout; may be .gz.",
    writes="file",
  )
  scoring: inference_config.ScoringConfig


def main() -> None:
  """Prints scores of texts or accuracies on pairs; writes `output_file`."""
  config = config_flags.build(CommandConfig, **model_flags.require_model())
  if sum(map(bool, (config.text, config.input_file, config.pairs_file))) != 1:
    raise ValueError("set one of --text, --input_file and --pairs_file.")
  # A pattern without matches is named as a missing file when it is read.
  pairs_files = [
    path for p in config.pairs_file for path in paths.expand(p) or [p]
  ]
  if config.output_file:
    inputs = filter(None, (config.input_file, *pairs_files))
    shard_files.check_output([config.output_file], inputs)
  from bert_tf.inference import sentence_scorer

  if pairs_files:
    pairs = [sentence_scorer.read_pairs(path) for path in pairs_files]
    scorer = sentence_scorer.SentenceScorer(config.scoring)
    rows = _score_pairs(scorer, pairs_files, pairs)
  else:
    texts = dict(enumerate(config.text))
    name_text: Callable[[int], str] = "row {}".format
    if config.input_file:
      lines = enumerate(text_lines.read_lines(config.input_file), 1)
      texts = {number: line for number, line in lines if line.strip()}
      name_text = _name_lines(config.input_file, texts)
      if not texts:
        raise ValueError(f"{config.input_file} has no text.")
    scorer = sentence_scorer.SentenceScorer(config.scoring)
    show = None if config.output_file else print
    rows = _score_texts(scorer, list(texts.values()), name_text, show)
  if not config.output_file:
    for _ in rows:
      pass
    return
  with atomic.file(config.output_file) as unfinished:
    with compression.text_writer(unfinished, config.output_file) as writer:
      for row in rows:
        writer.write(json.dumps(row, ensure_ascii=False) + "\n")


def _name_lines(path: str, lines: Iterable[int]) -> Callable[[int], str]:
  numbers = list(lines)
  return lambda i: f"{path}:{numbers[i]}"


def _score_texts(
  scorer: "sentence_scorer.SentenceScorer",
  texts: Sequence[str],
  name_text: Callable[[int], str],
  show: Callable[[str], None] | None = None,
) -> Iterator[dict]:
  """Prints a summary; yields an object per text.

  Gives a line with each score to `show`. Checks all texts before the first.
  """
  from bert_tf.inference import sentence_scorer

  scorer.check(texts, name_text)
  scores = []
  for text, score in zip(texts, scorer.score(texts, name_text)):
    if show:
      show(f"{score.score:.4f}  {text}")
    yield {"text": text, **_json_object(score)}
    scores.append(score)
  num_pieces = sum(len(score.tokens) for score in scores)
  perplexity = sentence_scorer.pseudo_perplexity(scores)
  print(
    f"{len(scores):,} texts, {num_pieces:,} word pieces, pseudo-perplexity "
    f"{perplexity:.4f}"
  )


def _score_pairs(
  scorer: "sentence_scorer.SentenceScorer",
  files: Sequence[str],
  pairs_by_file: Sequence[Mapping[int, tuple[str, str]]],
) -> Iterator[dict]:
  """Prints the accuracy on each file and on all; yields an object per pair.

  Checks the pairs of all files before the first.
  """
  from bert_tf.inference import sentence_scorer

  def show(name: str, is_correct: list[bool]) -> None:
    accuracy = sum(is_correct) / len(is_correct)
    print(f"{name}: accuracy {accuracy:.4f}, {len(is_correct):,} pairs")

  names = [_name_lines(p, pairs) for p, pairs in zip(files, pairs_by_file)]
  for name_pair, pairs in zip(names, pairs_by_file):
    sentences = itertools.chain.from_iterable(pairs.values())
    scorer.check(sentences, sentence_scorer.name_sentences(name_pair))
  all_correct = []
  for path, name_pair, pairs in zip(files, names, pairs_by_file):
    is_correct = []
    scores = scorer.score_pairs(pairs.values(), name_pair)
    for pair, score in zip(pairs.values(), scores):
      is_correct.append(score.is_correct)
      yield {
        "file": path,
        "good": {"text": pair[0], **_json_object(score.good)},
        "bad": {"text": pair[1], **_json_object(score.bad)},
        "is_correct": score.is_correct,
      }
    show(path, is_correct)
    all_correct += is_correct
  if len(files) > 1:
    show("all", all_correct)


def _json_object(score: "sentence_scorer.SentenceScore") -> dict:
  log_probs = [round(float(value), 6) for value in score.log_probs]
  score_value = round(score.score, 6)
  return {"score": score_value, "tokens": score.tokens, "log_probs": log_probs}


run = functools.partial(
  command.run, main, __doc__, CommandConfig, model_flags.ModelFlags
)
