"""Classifies texts as a run with `long_text` did, from its functions on ids.

The functions of a SavedModel that take texts cut them at the end.
"""

from collections.abc import Sequence

import numpy as np

from bert_tf.data import packing
from bert_tf.export import saved_models
from bert_tf.export.signatures import classification
from bert_tf.inference import loaded_model
from bert_tf.model_folder import letter_case
from bert_tf.tasks.classification import records


class LongTexts:
  """Answers single texts of any length.

  Args:
    model: a classifier whose run.json names a long_text.
    max_batch_size: windows that are computed together.
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
    self._tokenizer = letter_case.tokenizer_of(model.vocab_file, info)
    self._cls_id, self._sep_id = self._tokenizer.convert_tokens_to_ids(
      ["[CLS]", "[SEP]"]
    )

  def __call__(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns outputs as the model's function of texts does, of B texts."""
    assert self._info.long_text and self._info.problem_type
    windows = [
      records.cut_windows(
        self._tokenizer.tokenize_to_ids(text),
        self._length - 2,
        self._info.long_text,
      )
      for text in texts
    ]
    logits = self._logits([ids for of_text in windows for ids in of_text])
    num_windows = [len(of_text) for of_text in windows]
    pooled = records.mean_over_windows(logits, num_windows)
    found = classification.named(
      pooled, self._info.problem_type, self._info.labels or ()
    )
    return {name: np.asarray(tensor) for name, tensor in found.items()}

  def _logits(self, windows: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns the logits of each window, float32 [R, C]."""
    found = []
    for first in range(0, len(windows), self._max_batch_size):
      batch = windows[first : first + self._max_batch_size]
      width = max(map(len, batch)) + 2
      rows = [
        packing.pack(ids, None, self._cls_id, self._sep_id, width)
        for ids in batch
      ]
      inputs = {
        name: np.array([row[name] for row in rows], np.int32)
        for name in saved_models.ID_NAMES
      }
      found.append(self._compute(inputs)["logits"])
    return np.concatenate(found)


def of_model(
  model: loaded_model.LoadedModel, max_batch_size: int
) -> LongTexts | None:
  """Returns what answers long texts; None for a model that cuts them."""
  if not classification.cuts_more(model.info) or not model.vocab_file:
    return None
  return LongTexts(model, max_batch_size)
