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
  """Returns the texts whose ids differ, by whether it is a fault.

  It is none if Python or TensorFlow does not know a character of the text.

  Args:
    texts: list of str.
    full: FullTokenizer.
    ops: BertTokenizer with the same vocabulary and settings.
    batch_size: number of texts per call.
  """
  found = {True: [], False: []}
  for start in range(0, len(texts), batch_size):
    batch = texts[start : start + batch_size]
    for text, ids in zip(batch, ops.tokenize(tf.constant(batch)).to_list()):
      if ids != full.tokenize_to_ids(text):
        found[all(map(is_known, text))].append(ascii(text))
  return found


def faults(texts, full, ops, batch_size=5000):
  """Returns the texts, in ASCII, whose ids differ though they are known."""
  return differing(texts, full, ops, batch_size)[True]
