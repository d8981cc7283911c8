"""Adds words to a model's vocabulary, config and checkpoint at once.

The embedding of a new word is the mean of the embeddings of its former word
pieces, so that the model keeps its knowledge of the word.
"""

import dataclasses
import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bert_tf import (
  checkpoint_names,
  checkpoints,
  model_folder,
  modeling,
  tokenization,
)
from bert_tf.convert import pretrained
from bert_tf.files import atomic, paths, text_lines
from bert_tf.formats import sentence_transformers, tokenizer_files
from bert_tf.model_folder import letter_case, run_info

CHECKPOINT_NAME = "bert_model.ckpt"

_UNUSED = re.compile(r"\[unused\d+\]")


@dataclasses.dataclass(frozen=True)
class Extension:
  """The results of `extend`."""

  ids: Mapping[str, int]  # The id of each new word, in their order.
  pieces: Mapping[str, tuple[str, ...]]  # The former pieces of each new word.
  known: tuple[str, ...]  # Words that the vocabulary had already.
  vocab_size: int  # The new number of rows of the word embeddings.
  num_unused: int  # The number of remaining `[unused]` slots.


def read_words(path: str) -> list[str]:
  """Returns the words of a file, one a line; ignores blank lines."""
  return list(filter(None, map(str.strip, text_lines.read_lines(path))))


def extend(
  bert_config_file: str,
  vocab_file: str,
  init_checkpoint: str,
  words: Iterable[str],
  output_dir: str,
  method: str = "unused",
  do_lower_case: bool | None = None,
) -> Extension:
  """Writes the model with the words added to its vocabulary, atomically.

  The ids and rows of all other word pieces stay the same, to the bit. The
  tokens of a text change only at words that are, or begin with, a new word.

  Args:
    bert_config_file: the model's sizes.
    vocab_file: the model's vocabulary.
    init_checkpoint: prefix of the model's checkpoint.
    words: the words to add.
    output_dir: new or empty; gets the model without an optimizer's state.
    method: "unused" replaces `[unused]` slots, "grow" appends the words.
    do_lower_case: None for run.json's value or a guess from the vocabulary.

  Raises:
    ValueError: if a word cannot be one word piece, if there are too few slots
      or no new word, if the files do not fit, or if output_dir is in use.
  """
  if do_lower_case is not None:
    tokenization.validate_case_matches_checkpoint(
      do_lower_case, init_checkpoint
    )
  weights = model_folder.find_weights(init_checkpoint)
  reader = checkpoints.CheckpointReader(weights)
  run = pretrained.resolve_run(
    model_folder.read_run(weights), reader.shapes, do_lower_case, vocab_file
  )
  run = dataclasses.replace(run, scores=None)
  tokenizer = letter_case.make_tokenizer(vocab_file, run)
  vocab = tokenizer.vocab
  config = modeling.BertConfig.from_json_file(bert_config_file)
  config.check_vocab(len(vocab), vocab_file, bert_config_file)
  new_words, known = _select_new(words, tokenizer)
  slots = [i for token, i in vocab.items() if _UNUSED.fullmatch(token)]
  if method == "unused" and len(new_words) > len(slots):
    raise ValueError(
      f"{len(new_words)} words to add, but {vocab_file} has {len(slots)} "
      "[unused] slots; use the method grow."
    )
  free = itertools.count(len(vocab)) if method == "grow" else slots
  ids = dict(zip(new_words, free))
  split = tokenizer.wordpiece_tokenizer.split_word
  pieces = {word: tuple(split(word)) for word in new_words}
  # New words first use rows of the table that have no word piece yet.
  size = max(config.vocab_size, *(index + 1 for index in ids.values()))
  old_ids = {
    ids[word]: tokenizer.convert_tokens_to_ids(pieces[word]) for word in ids
  }
  tensors = _extended_tensors(reader, old_ids, config, size)
  if not paths.is_free(output_dir):
    raise ValueError(f"output_dir {output_dir} is not empty; choose another.")
  with atomic.folder(output_dir, last=f"{CHECKPOINT_NAME}.index") as folder:
    source = run_info.get_folder(reader.path)
    run_info.write_files(folder, sentence_transformers.read_files(source))
    # All other lines stay the same, byte for byte.
    lines = tokenizer_files.read_vocab(vocab_file).split(b"\n")
    while not lines[-1].strip():  # As in tokenization.load_vocab.
      lines.pop()
    for word, index in ids.items():
      lines[index : index + 1] = [word.encode()]
    atomic.write_bytes(
      os.path.join(folder, run_info.VOCAB_FILE), b"\n".join([*lines, b""])
    )
    config = dataclasses.replace(config, vocab_size=size)
    run_info.write_run(folder, run, config, vocab_file=None)
    checkpoints.write(os.path.join(folder, CHECKPOINT_NAME), tensors)
  return Extension(
    ids=ids,
    pieces=pieces,
    known=known,
    vocab_size=size,
    num_unused=len(slots) - (len(ids) if method == "unused" else 0),
  )


def _select_new(
  words: Iterable[str], tokenizer: tokenization.FullTokenizer
) -> tuple[tuple[str, ...], tuple[str, ...]]:
  words = tuple(dict.fromkeys(words))
  known = tuple(word for word in words if word in tokenizer.vocab)
  new = tuple(word for word in words if word not in tokenizer.vocab)
  longest = tokenizer.wordpiece_tokenizer.max_input_chars_per_word
  for word in new:
    tokens = tokenizer.basic_tokenizer.tokenize(word)
    # A piece ##X would also change the pieces of known words.
    if word.startswith("##") or len(word) > longest or tokens != [word]:
      raise ValueError(
        f"{word!r} is not one word of at most {longest} characters; it is read "
        f"as {' '.join(tokens)!r}."
      )
  if not new:
    raise ValueError(f"no word to add: the vocabulary has all {len(known)}.")
  return new, known


def _extended_tensors(
  reader: checkpoints.CheckpointReader,
  old_ids: Mapping[int, Sequence[int]],
  config: modeling.BertConfig,
  size: int,
) -> dict[str, np.ndarray]:
  names = checkpoint_names.parameters(reader.shapes)
  checkpoint_names.check_is_bert(reader.path, names)
  tensors = {name: reader.get(name) for name in names}
  # These have a row, or a value, for each word piece.
  for name, shape in (
    (checkpoint_names.WORD_EMBEDDINGS, (config.vocab_size, config.hidden_size)),
    ("cls/predictions/output_bias", (config.vocab_size,)),
  ):
    if name not in tensors:
      continue
    old = tensors[name]
    if old.shape != shape:
      raise ValueError(
        f"{name} is {old.shape} in {reader.path} and {shape} in the config."
      )
    new = np.zeros((size, *shape[1:]), old.dtype)
    new[: len(old)] = old
    for index, pieces in old_ids.items():
      new[index] = old[pieces].mean(axis=0, dtype=np.float64)
    tensors[name] = new
  return tensors
