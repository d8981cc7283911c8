"""Answering questions from Python, with a model that is loaded once.

answerer = question_answering.QuestionAnswerer(
  "bert_config.json", "vocab.txt", "out/model.ckpt-10000"
)
answerer.answer("Who wrote it?", "It was written by Ada in 1843.").text
"""

from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, heads, modeling, tokenization
from bert_tf.data import packing
from bert_tf.tasks.squad import decoding
from bert_tf.tasks.squad import examples as squad_data
from bert_tf.tasks.squad import windows as squad_features

# Windows that the model sees together.
_BATCH_SIZE = 16


class QuestionAnswerer:
  """A model of run_squad.py that finds answers.

  It is safe to share between threads: a call leaves nothing behind.

  Args:
    bert_config_file: the model's sizes.
    vocab_file: the model's vocabulary.
    init_checkpoint: prefix of a fine-tuned checkpoint, or the output_dir of a
      run, whose newest is taken.
    do_lower_case: whether the vocabulary is of lower-cased text.
    windows: how contexts are cut.
    predictions: how answers are chosen.

  Raises:
    ValueError: if config, vocabulary, checkpoint and lengths do not fit one
      another.
  """

  def __init__(
    self,
    bert_config_file: str,
    vocab_file: str,
    init_checkpoint: str,
    do_lower_case: bool = True,
    windows: squad_features.WindowConfig | None = None,
    predictions: decoding.PredictionConfig | None = None,
  ) -> None:
    bert_config = modeling.BertConfig.from_json_file(bert_config_file)
    self._tokenizer = tokenization.FullTokenizer(vocab_file, do_lower_case)
    bert_config.check_vocab(
      len(self._tokenizer.vocab), vocab_file, bert_config_file
    )
    self._windows = windows or squad_features.WindowConfig()
    self._predictions = predictions or decoding.PredictionConfig()
    bert_config.check_lengths(self._windows.max_seq_length, bert_config_file)
    model = heads.SpanModel(bert_config)
    reader = checkpoints.CheckpointReader(init_checkpoint)
    checkpoints.load_variables(reader, model)
    self._logits = tf.function(
      lambda batch: tf.stack(model(batch)), reduce_retracing=True
    )

  def answer(self, question: str, context: str) -> decoding.Prediction:
    """Returns the answer to a question.

    Args:
      question: what is beyond max_query_length word pieces is cut.
      context: the text to find the answer in, of any length.

    Returns:
      `text`, the answer as it stands in the context; `nbest`, the best first,
      with probabilities; and of a model of SQuAD 2.0 `null_odds`, above 0
      where "no answer" is likelier than any.

    Raises:
      ValueError: if the question or the context is empty.
    """
    for name, text in (("question", question), ("context", context)):
      if not text.strip():
        raise ValueError(f"the {name} is empty; both must have a text.")
    example = squad_data.SquadExample(
      qas_id="",
      question_text=question,
      context=squad_data.Context.of(context),
      answers=None,
      is_impossible=None,
    )
    windower = squad_features.Windower(self._tokenizer, self._windows)
    [windows] = windower.windows([example])
    # [windows, 2, F], or [0, 2, 0] for a context without a word.
    logits = np.zeros((0, 2, 0))
    if windows:
      logits = np.concatenate(list(self._batches(windows)))
    predictor = decoding.Predictor(self._tokenizer, self._predictions)
    starts, ends = np.swapaxes(logits, 0, 1)
    return predictor.predict(example, windows, starts, ends)

  def _batches(
    self, windows: list[squad_features.InputFeatures]
  ) -> Iterator[np.ndarray]:
    """Yields the logits of a few windows after the others, [B, 2, F]."""
    # With padding, which takes ranks among the n best in the original.
    width = self._windows.max_seq_length
    for first in range(0, len(windows), _BATCH_SIZE):
      batch = windows[first : first + _BATCH_SIZE]
      features = packing.pad_batch(
        [(window.input_ids, window.doc_offset) for window in batch], width
      )
      yield np.swapaxes(self._logits(features).numpy(), 0, 1)


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
  with open(text[1:].strip(), encoding="utf-8") as reader:
    return reader.read().strip()


def _shown(prediction: decoding.Prediction, num_answers: int) -> str:
  """Returns the answer and the next ones, a line each."""
  lines = [prediction.text or "(no answer)"]
  lines += [
    f"  {candidate.probability:.4f}  {candidate.text or '(no answer)'}"
    for candidate in prediction.nbest[:num_answers]
  ]
  return "\n".join(lines) + "\n"
