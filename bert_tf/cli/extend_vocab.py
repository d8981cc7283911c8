"""Adds words to a model: to its vocabulary, config and checkpoint at once."""

from absl import flags

from bert_tf.cli import command
from bert_tf.convert import extend_vocab

FLAGS = flags.FLAGS

# The most words of a kind that are printed.
_MAX_SHOWN = 10

flags.DEFINE_string(
  "bert_config_file", None, "JSON file with the sizes of the model."
)
flags.DEFINE_string("vocab_file", None, "The vocabulary of the model.")
flags.DEFINE_string(
  "init_checkpoint", None, "The model's checkpoint, usually a pre-trained BERT."
)
flags.DEFINE_string("words_file", None, "The words to add, one a line.")
flags.DEFINE_list("words", [], "The words to add, commas between them.")
flags.DEFINE_string(
  "output_dir",
  None,
  "New folder; gets bert_config.json, vocab.txt and bert_model.ckpt.",
)
flags.DEFINE_bool(
  "do_lower_case", True, "Whether the model is for lower-cased text."
)
flags.DEFINE_enum(
  "method",
  "unused",
  extend_vocab.METHODS,
  "unused puts the words in the place of [unused] slots, so no size changes; "
  "grow puts them behind the last word piece and enlarges the embeddings.",
)


def _report(extension: extend_vocab.Extension) -> None:
  """Prints what was added and what was left out."""
  print(
    f"{FLAGS.output_dir}: {len(extension.ids)} words added by {FLAGS.method}, "
    f"{extension.vocab_size} word pieces, {extension.num_unused} [unused] "
    "slots left"
  )
  for word, index in list(extension.ids.items())[:_MAX_SHOWN]:
    print(f"  {index}  {word}  was {' '.join(extension.pieces[word])}")
  if len(extension.ids) > _MAX_SHOWN:
    print(f"  and {len(extension.ids) - _MAX_SHOWN} more")
  if extension.known:
    more = len(extension.known) - _MAX_SHOWN
    known = ", ".join(extension.known[:_MAX_SHOWN])
    known += f" and {more} more" if more > 0 else ""
    print(f"In the vocabulary already, so left out: {known}")
  if not extension.has_output_bias:
    print("The checkpoint has no masked-LM head.")
  if extension.dropped:
    print(
      f"Dropped: {len(extension.dropped)} tensors of the optimizer "
      "(adam_m, adam_v, global_step); start from this with --init_checkpoint."
    )


def main() -> None:
  """Adds the words of the flags and reports."""
  if bool(FLAGS.words) == bool(FLAGS.words_file):
    raise ValueError("set either --words or --words_file.")
  if FLAGS.words_file:
    words = extend_vocab.read_words(FLAGS.words_file)
  else:
    words = [extend_vocab.Word(text, "--words") for text in FLAGS.words]
  _report(
    extend_vocab.extend(
      FLAGS.bert_config_file,
      FLAGS.vocab_file,
      FLAGS.init_checkpoint,
      words,
      FLAGS.output_dir,
      FLAGS.method,
      FLAGS.do_lower_case,
    )
  )


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  for name in (
    "bert_config_file",
    "vocab_file",
    "init_checkpoint",
    "output_dir",
  ):
    flags.mark_flag_as_required(name)
  command.run(main, __doc__)
