r"""Adds words to the vocabulary of a model.

bert-tf extend-vocab --model=uncased_L-12_H-768_A-12 \
    --words=tokamak,stellarator --output_dir=out
"""

import dataclasses

from bert_tf import settings
from bert_tf.cli import command, config_flags
from bert_tf.files import messages, text_lines
from bert_tf.inference.config import ModelFiles


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtensionConfig(ModelFiles):
  """The model and the words to add."""

  words_file: str | None = settings.setting(
    None, "The file of the words to add, one a line.", reads="file"
  )
  words: tuple[str, ...] = settings.setting(
    (), "The words to add, comma-separated.", alternatives=("words_file",)
  )
  output_dir: str = settings.setting(
    help="The new folder for run.json, bert_config.json, vocab.txt and "
    "bert_model.ckpt.",
    writes="folder",
  )
  do_lower_case: bool | None = settings.setting(
    None,
    "Whether the model is uncased. Default: what its run.json says, else what "
    "the vocabulary shows.",
  )
  method: str = settings.setting(
    "unused",
    "How to add words: unused replaces [unused] entries, grow appends.",
    choices=("unused", "grow"),
  )


@command.of(ExtensionConfig, needs_model=True)
def run(config: ExtensionConfig) -> None:
  """Adds the words of the flags and prints a report."""
  from bert_tf.checkpoint import extend_vocab

  config_flags.require_one("words", "words_file")
  words = config.words
  if config.words_file:
    lines = text_lines.read_lines(config.words_file)
    words = tuple(filter(None, map(str.strip, lines)))
  extension = extend_vocab.extend(
    config.open(do_lower_case=config.do_lower_case),
    words,
    config.output_dir,
    config.method,
  )
  print(
    f"{config.output_dir}: {len(extension.ids)} words added by "
    f"{config.method}, {extension.vocab_size} word pieces, "
    f"{extension.num_unused} [unused] slots left"
  )
  for word, index in list(extension.ids.items())[:10]:
    command.show(f"  {index}  {word}  was {' '.join(extension.pieces[word])}")
  if extension.known:
    known = messages.join_names(extension.known, 10)
    command.show(f"Already in the vocabulary, so skipped: {known}")
