"""Answers questions from their contexts, as the predictions of a run do."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf import tokenization
from bert_tf.model_folder import run_info
from bert_tf.tasks import prediction
from bert_tf.tasks.squad import config, decoding, examples, windows


class SpanAnswerer(prediction.Answerer):
  """Finds the answer to a question in its context.

  An answer has the `answer`, None if there is none, with single spaces between
  words; its `start` and `end` in characters of the context, 0 without one; its
  `probability`; for SQuAD 2.0 `null_odds`; and `nbest`, the best answers as
  `text`, `start`, `end`, `probability`, `start_logit` and `end_logit`.
  """

  fields = ("question", "context")
  num_required = 2
  outputs = ("start_logits", "end_logits")

  def __init__(
    self, tokenizer: tokenization.FullTokenizer, info: run_info.RunInfo
  ) -> None:
    super().__init__(tokenizer, info)
    # As in the original, positions of padding count among the n best.
    self.width = self.max_seq_length
    self._window_config: config.SquadSettings = info.settings
    self._decoding_config = self._window_config

  def prepare(self, row: Mapping[str, Any]) -> prediction.Prepared:
    """Returns the windows of the context; none if it has no word pieces."""
    context = examples.Context(row["context"])
    question = examples.SquadExample("", row["question"], context, None, None)
    [cut] = windows.make_windows(
      [question], self.tokenizer, self._window_config
    )
    inputs = [window.model_input for window in cut]
    return prediction.Prepared(inputs, (question, cut))

  def answer(
    self, prepared: prediction.Prepared, outputs: Sequence[prediction.Outputs]
  ) -> dict[str, Any]:
    """Returns the best answer of all windows."""
    question, cut = prepared.state
    shape = len(cut), self.max_seq_length
    starts, ends = (
      np.array([output[name] for output in outputs]).reshape(shape)
      for name in self.outputs
    )
    decoder = decoding.AnswerDecoder(self.tokenizer, self._decoding_config)
    answer = decoder.predict(question, cut, starts, ends)
    best = next(c for c in answer.nbest if c.text == answer.text)
    answers = [
      {**vars(candidate), "text": candidate.text if candidate.end else None}
      for candidate in answer.nbest
    ]
    odds = {} if answer.null_odds is None else {"null_odds": answer.null_odds}
    return {
      "answer": best.text if best.end else None,
      **{name: getattr(best, name) for name in ("start", "end", "probability")},
      **odds,
      "nbest": answers,
    }
