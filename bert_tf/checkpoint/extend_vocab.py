"""Adds words to a model's vocabulary, config and checkpoint at once.

The embedding of a new word is the mean of the embeddings of its former word
pieces, so that the model keeps its knowledge of the word.
"""

import dataclasses
import itertools
import os
import re
from collections.abc import Iterable, Mapping

import numpy as np

from bert_tf.checkpoint import checkpoint_names, checkpoints, convert
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import atomic, paths


@dataclasses.dataclass(frozen=True)
class Extension:
  """The results of `extend`."""

  ids: Mapping[str, int]  # The id of each new word, in their order.
  pieces: Mapping[str, tuple[str, ...]]  # The former pieces of each new word.
  known: tuple[str, ...]  # Words that the vocabulary had already.
  vocab_size: int  # The new number of rows of the word embeddings.
  num_unused: int  # The number of remaining `[unused]` slots.


def extend(
  files: ModelFolder,
  words: Iterable[str],
  output_dir: str,
  method: str = "unused",
) -> Extension:
  """Writes the model with the words added to its vocabulary, atomically.

  The ids and rows of all other word pieces stay the same, to the bit. The
  tokens of a text change only at words that are, or begin with, a new word.

  Args:
    files: the model.
    words: the words to add.
    output_dir: new or empty; gets the model without an optimizer's state.
    method: "unused" replaces `[unused]` slots, "grow" appends the words.

  Raises:
    ValueError: if a word cannot be one word piece, if there are too few slots
      or no new word, if the files do not fit, or if output_dir is in use.
  """
  tokenizer = files.tokenizer
  model = convert.read_pretrained(files)
  vocab = tokenizer.vocab
  words = tuple(dict.fromkeys(words))
  known = tuple(word for word in words if word in vocab)
  new_words = tuple(word for word in words if word not in vocab)
  longest = tokenizer.wordpiece_tokenizer.max_input_chars_per_word
  for word in new_words:
    tokens = tokenizer.basic_tokenizer.tokenize(word)
    # A piece ##X would also change the pieces of known words.
    if word.startswith("##") or len(word) > longest or tokens != [word]:
      raise ValueError(
        f"{word!r} must be one word of at most {longest} characters, but is "
        f"read as {' '.join(tokens)!r}."
      )
  if not new_words:
    raise ValueError(f"the vocabulary already has all {len(known)} words.")
  slots = [
    i for token, i in vocab.items() if re.fullmatch(r"\[unused\d+\]", token)
  ]
  if method == "unused" and len(new_words) > len(slots):
    raise ValueError(
      f"{len(new_words)} words do not fit into the {len(slots)} [unused] slots "
      f"of {files.vocab_file}; use the method grow."
    )
  free = itertools.count(len(vocab)) if method == "grow" else slots
  ids = dict(zip(new_words, free))
  split = tokenizer.wordpiece_tokenizer.split_word
  pieces = {word: tuple(split(word)) for word in new_words}
  # New words first use rows of the table that have no word piece yet.
  size = max(model.config.vocab_size, *(index + 1 for index in ids.values()))
  tensors = dict(model.tensors)
  # These have a row, or a value, for each word piece.
  for name in (checkpoint_names.WORD_EMBEDDINGS, "cls/predictions/output_bias"):
    if name in tensors:
      old = tensors[name]
      new = np.zeros((size, *old.shape[1:]), old.dtype)
      new[: len(old)] = old
      for word, index in ids.items():
        rows = old[tokenizer.convert_tokens_to_ids(pieces[word])]
        new[index] = rows.mean(axis=0, dtype=np.float64)
      tensors[name] = new
  if not paths.is_free(output_dir):
    raise ValueError(f"output_dir {output_dir} is not empty; choose another.")
  # All other lines stay the same, byte for byte.
  lines = (model.vocab or b"").split(b"\n")
  while not lines[-1].strip():  # As in tokenization.load_vocab.
    lines.pop()
  for word, index in ids.items():
    lines[index : index + 1] = [word.encode()]
  extended = dataclasses.replace(
    model,
    config=dataclasses.replace(model.config, vocab_size=size),
    tensors=tensors,
    run=dataclasses.replace(model.run, scores={}),
    vocab=b"\n".join([*lines, b""]),
  )
  name = checkpoints.RELEASED
  with atomic.folder(output_dir, last=f"{name}.index") as folder:
    convert.write_original(extended, os.path.join(folder, name))
  return Extension(
    ids=ids,
    pieces=pieces,
    known=known,
    vocab_size=size,
    num_unused=len(slots) - (len(ids) if method == "unused" else 0),
  )
