"""Learns a WordPiece vocab.txt from text.

python run_scripts/build_vocab.py --input_file=corpus.txt \
    --output_file=vocab.txt --vocab_size=30522
"""

import itertools
from collections.abc import Iterator

from absl import flags

from bert_tf import tokenization
from bert_tf.cli import command
from bert_tf.data import corpus, vocabulary
from bert_tf.files import atomic

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "input_file",
  None,
  "Text to learn from: comma-separated files and globs, .gz too, and the word "
  "pydoc for the documentation of the running Python.",
)
flags.DEFINE_string(
  "pydoc_packages",
  "",
  "Comma-separated installed packages whose documentation joins pydoc.",
)
flags.DEFINE_string("output_file", None, "The vocabulary to write.")
flags.DEFINE_integer(
  "vocab_size", 30522, "Entries, specials and [unusedN] slots included."
)
flags.DEFINE_bool(
  "do_lower_case",
  True,
  "Whether to lower-case the text; use the same value ever after.",
)
flags.DEFINE_bool(
  "strip_accents",
  None,
  "Whether to strip accents; unset does as do_lower_case, like the original.",
)
flags.DEFINE_integer(
  "num_unused",
  vocabulary.NUM_UNUSED_BEFORE_SPECIALS,
  "[unusedN] slots for words that are added later. 99 or more put [UNK], "
  "[CLS], [SEP] and [MASK] at 100 to 103, as released; the released uncased "
  "vocabularies have 994.",
)
flags.DEFINE_integer(
  "alphabet_size",
  1000,
  "Most frequent characters to keep; raise it for Chinese or Japanese. Words "
  "with other characters become [UNK].",
)
flags.DEFINE_integer(
  "holdout_every",
  50,
  "Every so many lines one is kept out of learning, to measure on.",
)
flags.DEFINE_string(
  "eval_input_file",
  None,
  "Files and globs to measure on; nothing is then held out of input_file.",
)


def _lines(patterns: str, pydoc_packages: str = "") -> Iterator[str]:
  """The lines of all files of a flag."""
  paths = corpus.input_files(patterns, pydoc_packages)
  return itertools.chain.from_iterable(map(corpus.read_lines, paths))


def _report(
  learned: vocabulary.Coverage, held_out: vocabulary.Coverage
) -> None:
  """Prints a table of the coverage of both texts."""
  print(f"{'':14}{'words':>14}{'[UNK]':>10}{'pieces/word':>13}")
  for name, part in (("learned from", learned), ("held out", held_out)):
    print(
      f"{name:14}{part.num_words:14,}{part.unknown_share:10.4%}"
      f"{part.pieces_per_word:13.3f}"
    )


def main() -> None:
  """Counts words, learns, writes the vocabulary and prints the report."""
  if FLAGS.holdout_every < 2:
    raise ValueError(
      f"holdout_every {FLAGS.holdout_every} leaves no line; use 2 or more."
    )
  tokenizer = tokenization.BasicTokenizer(
    FLAGS.do_lower_case, FLAGS.strip_accents
  )
  with atomic.file(FLAGS.output_file) as unfinished:
    counts, held_out = vocabulary.count_words_apart(
      _lines(FLAGS.input_file, FLAGS.pydoc_packages),
      tokenizer,
      0 if FLAGS.eval_input_file else FLAGS.holdout_every,
    )
    if FLAGS.eval_input_file:
      held_out = vocabulary.count_words(
        _lines(FLAGS.eval_input_file), tokenizer
      )
    tokens = vocabulary.learn(
      counts, FLAGS.vocab_size, FLAGS.num_unused, FLAGS.alphabet_size
    )
    vocabulary.write_vocab(unfinished, tokens)
  vocab = {token: index for index, token in enumerate(tokens)}
  print(f"{FLAGS.output_file}: {len(tokens):,} entries")
  _report(
    vocabulary.coverage(vocab, counts), vocabulary.coverage(vocab, held_out)
  )


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  flags.mark_flags_as_required(["input_file", "output_file"])
  command.run(main, __doc__)
