r"""Learns a WordPiece vocabulary from text.

bert-tf build-vocab --input_file=corpus.txt \
    --output_file=vocab.txt --vocab_size=30522
"""

import dataclasses

from bert_tf import settings, tokenization
from bert_tf.cli import command
from bert_tf.files import atomic, packages, shard_files, text_lines
from bert_tf.text import corpus_build, text_config, vocabulary


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyConfig(text_config.PydocConfig):
  """The text to learn from and the vocabulary to write."""

  input_file: str = settings.setting(
    help="The text to learn from: comma-separated files and globs, which may "
    "end in .gz or .bz2. pydoc stands for Python's documentation. build-corpus "
    "converts other formats."
  )
  output_file: str = settings.setting(
    help="The vocabulary file to write.", writes="file"
  )
  vocab_size: int = settings.setting(
    30522, "The number of entries, with special tokens and [unusedN]."
  )
  do_lower_case: bool = settings.setting(
    True,
    "Whether to lower-case the text. Use the same value for training later.",
  )
  strip_accents: bool | None = settings.setting(
    None, "Whether to strip accents. Default: the same as do_lower_case."
  )
  num_unused: int = settings.setting(
    vocabulary.NUM_UNUSED_BEFORE_SPECIALS,
    "The number of [unusedN] entries, for words that are added later. With 99 "
    "or more, special tokens have the ids of the released models.",
  )
  alphabet_size: int = settings.setting(
    1000, "How many characters the vocabulary keeps; raise it for Chinese."
  )


@command.of(VocabularyConfig)
def run(config: VocabularyConfig) -> None:
  """Learns and writes the vocabulary, and prints its coverage."""
  tokenizer = tokenization.BasicTokenizer(
    config.do_lower_case, config.strip_accents
  )
  files = corpus_build.find_lines(config.input_file, config.pydoc_packages)
  shard_files.check_output([config.output_file], files)
  # Fails before the text is read.
  packages.import_tensorflow_text("learning a vocabulary")
  with atomic.file(config.output_file) as unfinished:
    lines = text_lines.read_lines(*files)
    # Every 50th line is held out to measure the coverage.
    counts, held_out = vocabulary.count_words(lines, tokenizer, 50)
    tokens = vocabulary.learn_tokens(
      counts, config.vocab_size, config.num_unused, config.alphabet_size
    )
    atomic.write_lines(unfinished, tokens)
  vocab = {token: index for index, token in enumerate(tokens)}
  print(f"{config.output_file}: {len(tokens):,} entries")
  print(f"{'':14}{'words':>14}{'[UNK]':>10}{'pieces/word':>13}")
  for name, words in (("learned from", counts), ("held out", held_out)):
    text = vocabulary.measure_coverage(vocab, words)
    print(
      f"{name:14}{text.num_words:14,}{text.unknown_fraction:10.4%}"
      f"{text.pieces_per_word:13.3f}"
    )
