"""Compares the Python tokenizer with the one in TensorFlow operations."""

import functools
import re
import unicodedata

import tensorflow as tf

# Letters of Unicode 14 that TensorFlow's Unicode 13 does not lower-case.
_NEW_CAPITALS = "\u2c2f\ua7c0\ua7d0\ua7d6\ua7d8\U00010570-\U00010595"


@functools.cache
def is_known(char):
  """Returns whether both Python and TensorFlow know a character."""
  is_new = re.match(f"[{_NEW_CAPITALS}]", char)
  return unicodedata.category(char) not in ("Cn", "Cs") and not is_new


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
