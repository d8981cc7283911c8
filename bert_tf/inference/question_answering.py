"""Answers questions from Python, with a model that is loaded once.

answerer = question_answering.QuestionAnswerer(
  "bert_config.json", "vocab.txt", "out/model.ckpt-10000"
)
answerer.answer("Who wrote it?", "It was written by Ada in 1843.").text
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bert_tf.export import config as configs
from bert_tf.export import saved_models
from bert_tf.export.signatures import context_windows
from bert_tf.files import paths
from bert_tf.inference import predictor
from bert_tf.tasks.squad import decoding, windows


class QuestionAnswerer:
  """A model of run_squad.py that finds answers.

  It is safe to share between threads: a call leaves nothing behind.

  Args:
    bert_config_file: the model's sizes; None for those beside the checkpoint.
    vocab_file: the model's vocabulary; None for that beside the checkpoint.
    init_checkpoint: prefix of a fine-tuned checkpoint, folder of a run, whose
      newest checkpoint is taken, or a SavedModel.
    do_lower_case: whether texts are lower-cased; None for what run.json says,
      else what the vocabulary shows.
    window_config: how contexts are cut; None for what run.json says, else the
      defaults.
    predictions: how answers are chosen; None as window_config.

  Raises:
    ValueError: if config, vocabulary, checkpoint and lengths do not fit one
      another.
  """

  def __init__(
    self,
    bert_config_file: str | None,
    vocab_file: str | None,
    init_checkpoint: str,
    do_lower_case: bool | None = None,
    window_config: windows.WindowConfig | None = None,
    predictions: decoding.PredictionConfig | None = None,
  ) -> None:
    given: dict[str, Any] = {}
    for config in (window_config, predictions):
      if config:
        given |= dataclasses.asdict(config)
    # It logs what the files of predictions would not have as they stand.
    given.pop("verbose_logging", None)
    self._predictor = predictor.Predictor(
      configs.ModelConfig(
        init_checkpoint=init_checkpoint,
        task="squad",
        bert_config_file=bert_config_file,
        vocab_file=vocab_file,
        do_lower_case=do_lower_case,
        **given,
      )
    )

  def answer(self, question: str, context: str) -> decoding.Prediction:
    """Returns the answer to a question.

    Args:
      question: what is beyond max_query_length word pieces is cut.
      context: the text to find the answer in, of any length.

    Returns:
      `text`, the answer, its words with one blank between them; `nbest`, the
      best first, with probabilities; and of a model of SQuAD 2.0 `null_odds`,
      above 0 where "no answer" is likelier than any.

    Raises:
      ValueError: if the question or the context is empty.
    """
    for name, text in (("question", question), ("context", context)):
      if not text.strip():
        raise ValueError(f"the {name} is empty; both must have a text.")
    columns = {"question": np.array([question]), "context": np.array([context])}
    found = self._predictor.functions[saved_models.TEXT](columns)
    row = {name: values[0] for name, values in found.items()}
    nbest = tuple(
      decoding.Candidate(_text(text), *map(float, scores))
      for text, *scores in zip(
        row["nbest_text"],
        row["nbest_start_logit"],
        row["nbest_end_logit"],
        row["nbest_probability"],
      )
      # Padding has a probability of 0.
      if scores[-1] > 0
    )
    return decoding.Prediction(
      text=_text(row["answer"]),
      nbest=nbest,
      null_odds=float(row["null_odds"]) if "null_odds" in row else None,
      span_text=next((c.text for c in nbest if c.text), ""),
    )


def _text(answer: bytes) -> str:
  """Returns an answer with one blank between its words, as in result files."""
  text = answer.decode("utf-8", errors="replace")
  return re.sub(context_windows.WHITE_SPACE, " ", text)


def converse(
  answerer: QuestionAnswerer, lines: Iterable[str], num_answers: int = 3
) -> Iterator[str]:
  """Yields what to print, prompts included, in a talk about texts.

  The first line is a context, or @ and the name of a file that holds one; the
  lines after it are questions; after an empty line comes another context.

  Args:
    answerer: answers.
    lines: what is typed.
    num_answers: answers that are shown to a question.
  """
  context = ""
  yield "Context, or @file: "
  for line in lines:
    text = line.strip()
    if not context:
      try:
        context = _context(text)
      except (OSError, ValueError) as error:
        yield f"{error}\n"
    elif text:
      yield _shown(answerer.answer(text, context), num_answers)
    else:
      context = ""
    yield "Question: " if context else "Context, or @file: "


def _context(text: str) -> str:
  """Returns the context that was typed, or that the named file holds."""
  if not text.startswith("@"):
    return text
  return paths.read_text(text[1:].strip()).strip()


def _shown(prediction: decoding.Prediction, num_answers: int) -> str:
  """Returns the answer and the next ones, a line each."""
  lines = [prediction.text or "(no answer)"]
  lines += [
    f"  {candidate.probability:.4f}  {candidate.text or '(no answer)'}"
    for candidate in prediction.nbest[:num_answers]
  ]
  return "\n".join(lines) + "\n"
