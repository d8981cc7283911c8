"""Scores sentences by the probability of their words.

bert-tf score --model=out --text="The cat sat on the mat."

The score is the pseudo-log-likelihood: the sum of the log probabilities of the
word pieces, each masked in turn.
"""

import dataclasses

from absl import logging

from bert_tf import settings
from bert_tf.cli import command, model_flags
from bert_tf.files import atomic, json_files, shard_files, text_lines
from bert_tf.inference import config as inference_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandConfig(inference_config.ModelFiles, model_flags.TextFlags):
  """The texts, the output and the model."""

  output_file: str | None = settings.setting(
    None,
    "The file for the scores, as JSON lines. Default: they are printed.",
    writes="file",
  )
  do_lower_case: bool | None = settings.saved_setting(
    inference_config.ExtractionConfig, "do_lower_case"
  )
  batch_tokens: int = settings.setting(
    4096,
    "The maximum number of word pieces in a batch, where each piece of a text "
    "needs a copy of the text.",
    minimum=1,
  )


@command.of(CommandConfig, needs_model=True)
def run(config: CommandConfig) -> None:
  """Prints scores of texts; writes `output_file`."""
  texts = config.read_texts()
  if config.output_file and config.input_file:
    shard_files.check_output([config.output_file], [config.input_file])
  from bert_tf.inference import sentence_scorer

  scorer = sentence_scorer.SentenceScorer(
    config.open(do_lower_case=config.do_lower_case),
    batch_tokens=config.batch_tokens,
  )
  fitting = {name: text for name, text in texts.items() if scorer.fits(text)}
  if unfit := [name for name in texts if name not in fitting]:
    limits = f"1 to {scorer.max_tokens} word pieces: {', '.join(unfit)}."
    if not fitting:
      raise ValueError(f"no text has {limits}")
    logging.warning(f"These texts are left out, as they do not have {limits}")
  scores = scorer.predict([*fitting.values()])
  if config.output_file:
    with (
      atomic.file(config.output_file) as unfinished,
      text_lines.text_writer(unfinished) as writer,
    ):
      for text, score in zip(fitting.values(), scores):
        row = {
          "text": text,
          "score": round(score.score, 6),
          "tokens": score.tokens,
          "log_probs": [round(float(value), 6) for value in score.log_probs],
        }
        writer.write(f"{json_files.encode(row)}\n")
  else:
    for text, score in zip(fitting.values(), scores):
      command.show(f"{score.score:.4f}  {text}")
  num_pieces = sum(len(score.tokens) for score in scores)
  print(
    f"{len(scores):,} texts, {num_pieces:,} word pieces, pseudo-perplexity "
    f"{sentence_scorer.pseudo_perplexity(scores):.4f}"
  )
