"""Classifies long texts in windows, as a run with `long_text` did.

The text functions of a SavedModel truncate texts, so this uses its function on
word-piece ids.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from bert_tf.data import packing
from bert_tf.export import saved_models
from bert_tf.export.signatures import classification
from bert_tf.inference import loaded_model
from bert_tf.model_folder import letter_case
from bert_tf.tasks.classification import records


class LongTexts:
  """Classifies single texts of any length.

  Args:
    model: a classifier with long_text in its run.json.
    max_batch_size: maximum number of windows in a batch.
  """

  def __init__(
    self, model: loaded_model.LoadedModel, max_batch_size: int
  ) -> None:
    info = model.info
    assert info is not None and info.max_seq_length and model.vocab_file
    self._info = info
    self._length: int = info.max_seq_length
    self._max_batch_size = max_batch_size
    self._compute = model.functions[saved_models.IDS]
    self._tokenizer = letter_case.make_tokenizer(model.vocab_file, info)
    self._cls_id, self._sep_id = self._tokenizer.convert_tokens_to_ids(
      ["[CLS]", "[SEP]"]
    )

  def __call__(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns outputs for B texts, with the names of the text function's."""
    assert self._info.long_text and self._info.problem_type
    windows = [
      records.cut_windows(
        self._tokenizer.tokenize_to_ids(text),
        self._length - 2,
        self._info.long_text,
      )
      for text in texts
    ]
    all_windows = list(itertools.chain.from_iterable(windows))
    parts = []
    for first in range(0, len(all_windows), self._max_batch_size):
      batch = all_windows[first : first + self._max_batch_size]
      width = max(map(len, batch)) + 2
      rows = [
        packing.build_input(ids, None, self._cls_id, self._sep_id, width)
        for ids in batch
      ]
      inputs = {
        name: np.array([row[name] for row in rows], np.int32)
        for name in saved_models.ID_NAMES
      }
      parts.append(self._compute(inputs)["logits"])
    logits = np.concatenate(parts)  # [windows, C]
    pooled = records.mean_over_windows(logits, list(map(len, windows)))
    outputs = classification.label(
      pooled, self._info.problem_type, self._info.labels or ()
    )
    return {name: np.asarray(tensor) for name, tensor in outputs.items()}


def create(
  model: loaded_model.LoadedModel, max_batch_size: int
) -> LongTexts | None:
  """Returns a LongTexts.

  Returns None if the run classified no texts or truncated long ones, or if the
  model has no vocabulary.
  """
  if not classification.truncates_more(model.info) or not model.vocab_file:
    return None
  return LongTexts(model, max_batch_size)
