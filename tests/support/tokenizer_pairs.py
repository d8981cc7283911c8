"""Compares the Python tokenizer with the one in TensorFlow operations."""

import functools
import unicodedata

import numpy as np
import tensorflow as tf


@functools.cache
def _scripts():
  """Returns the script of each code point, as TensorFlow knows it."""
  return tf.strings.unicode_script(np.arange(0x110000, dtype=np.int32)).numpy()


def is_known(char):
  """Returns whether both Python and TensorFlow know a character."""
  category = unicodedata.category(char)
  if category in ("Cn", "Cs"):
    return False
  # 103 is the script of unassigned characters, and of those for private use.
  return _scripts()[ord(char)] != 103 or category == "Co"


def faults(texts, full, ops, batch_size=5000):
  """Returns the texts, in ASCII, whose ids differ though they are known.

  Args:
    texts: list of str.
    full: FullTokenizer.
    ops: BertTokenizer with the same vocabulary and settings.
    batch_size: number of texts per call.
  """
  starts = range(0, len(texts), batch_size)
  batches = [texts[start : start + batch_size] for start in starts]
  return [
    ascii(text)
    for batch in batches
    for text, ids in zip(batch, ops.tokenize(tf.constant(batch)).to_list())
    if ids != full.tokenize_to_ids(text) and all(map(is_known, text))
  ]
