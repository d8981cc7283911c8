"""Writes a corpus, one sentence a line, from files or from Python's own docs.

python run_scripts/build_corpus.py --input_file=pydoc \
    --output_file=train.txt --eval_output_file=eval.txt
"""

from absl import flags, logging

from bert_tf.cli import command
from bert_tf.data import corpus

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "input_file",
  "pydoc",
  "Text to read: comma-separated files and globs, .gz too, and the word pydoc "
  "for the documentation of the running Python.",
)
flags.DEFINE_string(
  "pydoc_packages",
  "",
  "Comma-separated installed packages whose documentation joins pydoc.",
)
flags.DEFINE_string(
  "output_file", None, "Text file to write; a name in .gz is compressed."
)
flags.DEFINE_string(
  "eval_output_file",
  None,
  "Text file for the documents that are held out; unset holds none out.",
)
flags.DEFINE_float(
  "eval_fraction",
  0.1,
  "Share of the documents that go to eval_output_file, above 0 and below 1.",
)
flags.DEFINE_integer("random_seed", 12345, "Chooses which documents go there.")


def main() -> None:
  """Reads the input and writes one file or two."""
  documents = corpus.documents(
    corpus.input_files(FLAGS.input_file, FLAGS.pydoc_packages)
  )
  if FLAGS.eval_output_file:
    num_train, num_eval = corpus.split_documents(
      documents,
      FLAGS.output_file,
      FLAGS.eval_output_file,
      FLAGS.eval_fraction,
      FLAGS.random_seed,
    )
    logging.info("%d documents to %s", num_train, FLAGS.output_file)
    logging.info("%d documents to %s", num_eval, FLAGS.eval_output_file)
  else:
    num_documents = corpus.write_documents(FLAGS.output_file, documents)
    logging.info("%d documents to %s", num_documents, FLAGS.output_file)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  flags.mark_flag_as_required("output_file")
  command.run(main, __doc__)
