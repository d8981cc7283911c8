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


def differing(texts, full, ops, batch_size=5000):
  """Returns the texts, escaped to ASCII, whose ids differ.

  Those with a character that Python or TensorFlow does not know may differ.

  Args:
    texts: list of str.
    full: FullTokenizer.
    ops: BertTokenizer with the same vocabulary and settings.
    batch_size: number of texts per call.
  """
  differing_texts = []
  for start in range(0, len(texts), batch_size):
    batch = texts[start : start + batch_size]
    ids = ops.tokenize(tf.constant(batch)).to_list()
    differing_texts += [
      ascii(text)
      for text, text_ids in zip(batch, ids)
      if text_ids != full.tokenize_to_ids(text) and all(map(is_known, text))
    ]
  return differing_texts
