"""Adds words to a model's vocabulary, config and checkpoint at once.

A new word's row of the embeddings is the mean of those of the pieces that it
was cut into before, so that the model starts from what it knew of the word.
"""

import dataclasses
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
from bert_tf.formats import tokenizer_files
from bert_tf.model_folder import letter_case, run_info

METHODS = ("unused", "grow")

# Of the checkpoint in the output folder.
CHECKPOINT_NAME = "bert_model.ckpt"

_UNUSED = re.compile(r"\[unused\d+\]")

# Tensors with a row, or a number, for each word piece.
_EMBEDDINGS = checkpoint_names.WORD_EMBEDDINGS
_OUTPUT_BIAS = "cls/predictions/output_bias"

# Maximum faults in one message.
_MAX_NAMED = 10


@dataclasses.dataclass(frozen=True)
class Word:
  """A word to add."""

  text: str  # The entry for the vocabulary.
  place: str  # Its source for messages, such as "words.txt:3".


@dataclasses.dataclass(frozen=True)
class Extension:
  """The results of `extend`."""

  # Each new word's id, in the order in which they were given.
  ids: Mapping[str, int]
  pieces: Mapping[str, tuple[str, ...]]  # Each new word's pieces before.
  # Words that were in the vocabulary already, so left out.
  known: tuple[str, ...]
  vocab_size: int  # Rows of the word embeddings now.
  num_unused: int  # `[unused]` slots that are left.
  # Whether the checkpoint had a masked-LM head, whose bias was filled or grown
  # too.
  has_output_bias: bool = False
  # The optimizer's state that the checkpoint had: slots, global_step and the
  # scale of the loss.
  dropped: tuple[str, ...] = ()


def read_words(path: str) -> list[Word]:
  """Returns the words of a file, one a line; blank lines are none.

  Raises:
    ValueError: if the file is missing or not UTF-8.
  """
  if not paths.is_file(path):
    raise ValueError(f"words_file: there is no file {path}.")
  return [
    Word(line.strip(), f"{path}:{number}")
    for number, line in enumerate(text_lines.read_lines(path), 1)
    if line.strip()
  ]


def extend(
  bert_config_file: str,
  vocab_file: str,
  init_checkpoint: str,
  words: Iterable[Word],
  output_dir: str,
  method: str = "unused",
  do_lower_case: bool | None = None,
) -> Extension:
  """Writes the model with the words in its vocabulary, whole or not at all.

  The ids and rows of all other word pieces stay the same, to the bit. The
  tokens of a text change only where a word is a new one or begins with one,
  since the tokenizer takes the longest piece that a word begins with.

  Args:
    bert_config_file: the model's sizes.
    vocab_file: the model's vocabulary.
    init_checkpoint: prefix of the model's checkpoint.
    words: what to add.
    output_dir: new or empty; gets run.json, bert_config.json, vocab.txt and the
      checkpoint bert_model.ckpt, without an optimizer's state.
    method: "unused" puts the words in the place of `[unused]` slots, so that
      no size changes; "grow" puts them behind the last word piece.
    do_lower_case: whether the vocabulary is of lower-cased text; None for what
      run.json beside the checkpoint says, or without one the vocabulary.

  Raises:
    ValueError: naming the words that the tokenizer would split, with the
      reason; if there are too few slots or no new word; if config, vocabulary,
      checkpoint and do_lower_case do not fit; if output_dir is in use.
    OSError: if output_dir cannot be written.
  """
  reader = checkpoints.CheckpointReader(
    model_folder.find_weights(init_checkpoint)
  )
  run = _run(reader, do_lower_case, vocab_file)
  tokenizer = letter_case.tokenizer_of(vocab_file, run)
  config = modeling.BertConfig.from_json_file(bert_config_file)
  config.check_vocab(len(tokenizer.vocab), vocab_file, bert_config_file)
  extension = _plan(words, tokenizer, method, vocab_file)
  # The table may have rows without a word piece, which new words take first.
  size = max(config.vocab_size, extension.vocab_size)
  tensors = _extended_tensors(reader, tokenizer, extension, config, size)
  if not paths.is_free(output_dir):
    raise ValueError(
      f"{output_dir} is there and not empty; choose another output_dir."
    )
  with atomic.folder(output_dir, last=f"{CHECKPOINT_NAME}.index") as folder:
    run_info.copy_run(run_info.folder_of(reader.path), folder)
    _write_vocab(vocab_file, folder, extension.ids)
    config = dataclasses.replace(config, vocab_size=size)
    run_info.write_run(folder, run, config, vocab_file=None)
    checkpoints.write(os.path.join(folder, CHECKPOINT_NAME), tensors)
  return dataclasses.replace(
    extension,
    vocab_size=size,
    has_output_bias=_OUTPUT_BIAS in tensors,
    dropped=tuple(sorted(reader.shapes.keys() - tensors.keys())),
  )


def _plan(
  words: Iterable[Word],
  tokenizer: tokenization.FullTokenizer,
  method: str,
  vocab_file: str,
) -> Extension:
  """Returns what is to be added; raises ValueError as `extend`."""
  if method not in METHODS:
    raise ValueError(f"method {method!r} is not {' or '.join(METHODS)}.")
  new_words, known = _sorted_out(words, tokenizer)
  vocab = tokenizer.vocab
  slots = [i for token, i in vocab.items() if _UNUSED.fullmatch(token)]
  ids = _ids(new_words, slots, len(vocab), method, vocab_file)
  split = tokenizer.wordpiece_tokenizer.split_word
  return Extension(
    ids=ids,
    pieces={word: tuple(split(word)) for word in new_words},
    known=known,
    vocab_size=max(len(vocab), *(index + 1 for index in ids.values())),
    num_unused=len(slots) - (len(ids) if method == "unused" else 0),
  )


def _run(
  reader: checkpoints.CheckpointReader,
  do_lower_case: bool | None,
  vocab_file: str,
) -> run_info.RunInfo:
  """Returns what is known of a checkpoint's run."""
  if do_lower_case is not None:
    tokenization.validate_case_matches_checkpoint(do_lower_case, reader.path)
  files = model_folder.ModelFolder(reader.path)
  run = files.run or run_info.RunInfo(task="encoder")
  case = letter_case.settle(
    letter_case.Case(do_lower_case),
    letter_case.of(run),
    files.run_file,
    vocab_file,
  )
  task = pretrained.task_of(pretrained.heads_of(reader.shapes, run.task))
  # Its scores were those of the vocabulary before.
  return dataclasses.replace(
    run, task=task, scores=None, **dataclasses.asdict(case)
  )


def _sorted_out(
  words: Iterable[Word], tokenizer: tokenization.FullTokenizer
) -> tuple[tuple[str, ...], tuple[str, ...]]:
  """Returns the words to add and the known ones, each once; may raise."""
  given = {word.text: word for word in words}
  known = tuple(text for text in given if text in tokenizer.vocab)
  new = tuple(text for text in given if text not in tokenizer.vocab)
  faults = [
    f"{given[text].place}: {text!r} {fault}"
    for text in new
    if (fault := _fault(text, tokenizer))
  ]
  if faults:
    more = len(faults) - _MAX_NAMED
    named = faults[:_MAX_NAMED] + ([f"and {more} more"] if more > 0 else [])
    raise ValueError("; ".join(named) + ".")
  if not new:
    raise ValueError(
      f"no word to add: {len(known)} are given, all in the vocabulary already."
      if known
      else "no word to add: none is given."
    )
  return new, known


def _fault(text: str, tokenizer: tokenization.FullTokenizer) -> str:
  """Returns why a word cannot be one piece of the vocabulary; "" if it can."""
  if text.startswith("##"):
    # Such a piece would change how known words are cut, too.
    return "is a part of words; give whole words"
  longest = tokenizer.wordpiece_tokenizer.max_input_chars_per_word
  if len(text) > longest:
    return f"has more than {longest} characters, so it would be [UNK]"
  basic_tokenizer = tokenizer.basic_tokenizer
  tokens = basic_tokenizer.tokenize(text)
  if tokens == [text]:
    return ""
  if not tokens:
    return "has no character that the tokenizer keeps"
  if len(tokens) > 1:
    return (
      f"is split into {' '.join(tokens)}, since blanks, punctuation and "
      "ideographs end a word; give the parts"
    )
  remedy = f"give {tokens[0]}"
  if basic_tokenizer.do_lower_case:
    remedy += ", or set do_lower_case to False for a model of cased text"
  return f"becomes {tokens[0]} before it is looked up; {remedy}"


def _ids(
  words: Sequence[str],
  slots: Sequence[int],
  old_size: int,
  method: str,
  vocab_file: str,
) -> dict[str, int]:
  """Returns each word's id."""
  if method == "grow":
    return {word: old_size + i for i, word in enumerate(words)}
  if len(words) > len(slots):
    raise ValueError(
      f"{len(words)} words to add, but {vocab_file} has {len(slots)} [unused] "
      "slots; the method grow puts them behind the last word piece instead."
    )
  return dict(zip(words, slots))


def _extended_tensors(
  reader: checkpoints.CheckpointReader,
  tokenizer: tokenization.FullTokenizer,
  extension: Extension,
  config: modeling.BertConfig,
  size: int,
) -> dict[str, np.ndarray]:
  """Returns the tensors with the new rows, without an optimizer's state."""
  names = checkpoint_names.parameters(reader.shapes)
  checkpoint_names.check_is_bert(reader.path, names)
  tensors = {name: reader.get(name) for name in names}
  pieces_of = {
    extension.ids[word]: tokenizer.convert_tokens_to_ids(pieces)
    for word, pieces in extension.pieces.items()
  }
  shapes = {
    _EMBEDDINGS: (config.vocab_size, config.hidden_size),
    _OUTPUT_BIAS: (config.vocab_size,),
  }
  for name, shape in shapes.items():
    if name not in tensors:
      continue
    old = tensors[name]
    if old.shape != shape:
      raise ValueError(
        f"{name} of {reader.path} is {old.shape}, that of the config {shape}; "
        "use the checkpoint, config and vocabulary of one model."
      )
    new = np.zeros((size, *shape[1:]), old.dtype)
    new[: len(old)] = old
    for index, pieces in pieces_of.items():
      new[index] = old[pieces].mean(axis=0, dtype=np.float64)
    tensors[name] = new
  return tensors


def _write_vocab(old_path: str, folder: str, ids: Mapping[str, int]) -> None:
  """Writes the vocabulary; all other lines are byte for byte as they were."""
  lines = tokenizer_files.read_vocab(old_path).split(b"\n")
  while not lines[-1].strip():  # As `tokenization.load_vocab` ends it.
    lines.pop()
  for word, index in ids.items():
    lines[index : index + 1] = [word.encode()]
  path = os.path.join(folder, run_info.VOCAB_FILE)
  atomic.write_bytes(path, b"\n".join(lines) + b"\n")
