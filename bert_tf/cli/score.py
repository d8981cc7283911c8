"""Scores sentences or minimal pairs.

bert-tf score --model=out --text="The cat sat on the mat."

The score is the pseudo-log-likelihood: the sum of the log probabilities of the
word pieces, each masked in turn.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import logging

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


@command.of(CommandConfig, model_flags.ModelFlags)
def run() -> None:
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
    texts = {f"row {i}": text for i, text in enumerate(config.text)}
    if path := config.input_file:
      lines = enumerate(text_lines.read_lines(path), 1)
      texts = {f"{path}:{i}": line for i, line in lines if line.strip()}
      if not texts:
        raise ValueError(f"{path} has no text.")
    scorer = sentence_scorer.SentenceScorer(config.scoring)
    unfit = {n: text for n, text in texts.items() if not scorer.fits(text)}
    if 0 < len(unfit) < len(texts):  # Without any other, the scorer complains.
      logging.warning(
        f"{', '.join(unfit)}: left out, not 1 to {scorer.max_tokens} pieces."
      )
      texts = {n: text for n, text in texts.items() if n not in unfit}
    show = None if config.output_file else command.show
    rows = _score_texts(scorer, texts, show)
  if not config.output_file:
    for _ in rows:
      pass
    return
  with atomic.file(config.output_file) as unfinished:
    with compression.text_writer(unfinished, config.output_file) as writer:
      for row in rows:
        writer.write(json.dumps(row, ensure_ascii=False) + "\n")


def _score_texts(
  scorer: "sentence_scorer.SentenceScorer",
  texts: Mapping[str, str],
  show: Callable[[str], None] | None = None,
) -> Iterator[dict]:
  """Yields an object per text and shows its score; prints a summary.

  The texts have the names for errors as keys.
  """
  from bert_tf.inference import sentence_scorer

  scores = []
  for text, score in zip(texts.values(), scorer.score(texts.values(), texts)):
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
  """Prints the accuracy on each file and on all; yields an object per pair."""
  from bert_tf.inference import sentence_scorer

  def show(name: str, is_correct: list[bool]) -> None:
    accuracy = sum(is_correct) / len(is_correct)
    print(f"{name}: accuracy {accuracy:.4f}, {len(is_correct):,} pairs")

  named = [
    (f"{path}:{line}, {column},", text)
    for path, pairs in zip(files, pairs_by_file)
    for line, pair in pairs.items()
    for column, text in zip(sentence_scorer.COLUMNS, pair)
  ]
  names, sentences = zip(*named)
  scores = scorer.score(sentences, names)
  all_correct = []
  for path, pairs in zip(files, pairs_by_file):
    is_correct = []
    for good, bad in pairs.values():
      pair = sentence_scorer.PairScore(next(scores), next(scores))
      is_correct.append(pair.is_correct)
      yield {
        "file": path,
        "good": {"text": good, **_json_object(pair.good)},
        "bad": {"text": bad, **_json_object(pair.bad)},
        "is_correct": pair.is_correct,
      }
    show(path, is_correct)
    all_correct += is_correct
  if len(files) > 1:
    show("all", all_correct)


def _json_object(score: "sentence_scorer.SentenceScore") -> dict:
  log_probs = [round(float(value), 6) for value in score.log_probs]
  score_value = round(score.score, 6)
  return {"score": score_value, "tokens": score.tokens, "log_probs": log_probs}
