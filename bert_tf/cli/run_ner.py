"""Fine-tunes BERT to find named entities, scores them, and tags words."""

import dataclasses

from absl import flags

from bert_tf.cli import training_flags
from bert_tf.tasks import sweeps
from bert_tf.tasks.ner import examples as ner_data
from bert_tf.tasks.ner import feature_based as ner_vectors
from bert_tf.tasks.ner import task as ner

FLAGS = flags.FLAGS

# What is trained from random values needs more than what is fine-tuned.
_FEATURE_LEARNING_RATE = 1e-3

training_flags.define_original_flags("Windows")
training_flags.define_fine_tuning_flags("Windows")
flags.DEFINE_string(
  "data_dir", "", "Folder of the files that are not named by a whole path."
)
flags.DEFINE_string(
  "train_file",
  "train.txt",
  "What is trained on, in the columns of CoNLL: a word a line, its tag (O, "
  "B-TYPE, I-TYPE) in the last column, blanks or tabs between columns, a blank "
  "line after each sentence, -DOCSTART- lines before each document if its "
  "documents are known. Its types are what the model tells apart. "
  "CoNLL-2003's own name is eng.train.",
)
flags.DEFINE_string(
  "dev_file", "dev.txt", "What is evaluated on; CoNLL-2003's is eng.testa."
)
flags.DEFINE_string(
  "test_file",
  "test.txt",
  "What is predicted; CoNLL-2003's is eng.testb. A file of words alone will "
  "do.",
)
flags.DEFINE_integer(
  "word_column",
  0,
  "The column of the words, from 0; with a minus from the last, which is -1.",
)
flags.DEFINE_integer(
  "tag_column",
  -1,
  "The column of the tags, likewise; that of the words if there are no tags.",
)
flags.DEFINE_enum(
  "tag_scheme",
  "auto",
  ner_data.TAG_SCHEMES,
  "auto reads IOB1 and IOB2: an I- that goes on with no entity begins one. "
  "iob2 refuses such an I-. What is learned, scored and written is IOB2.",
)
flags.DEFINE_integer(
  "max_seq_length",
  128,
  "Word pieces a window, [CLS] and [SEP] included. A longer sentence has "
  "several windows; every word is tagged in one.",
  lower_bound=5,
)
flags.DEFINE_bool(
  "document_context",
  False,
  "Whether a sentence's window is filled, on both sides, with the sentences "
  "around it in the document, as in the paper. Documents begin at -DOCSTART- "
  "lines; without any the whole file is one.",
)
flags.DEFINE_enum(
  "approach",
  "fine_tuning",
  ("fine_tuning", "features"),
  "fine_tuning trains BERT and a linear layer. features leaves BERT as it is, "
  "stores what it computes of each word in output_dir, and trains a two-layer "
  "BiLSTM on that, with batches of sentences and learning_rate "
  f"{_FEATURE_LEARNING_RATE} unless one is set.",
)
flags.DEFINE_enum(
  "feature_layers",
  "concat_last_four",
  tuple(ner_vectors.FEATURE_LAYERS),
  "Of --approach=features: what of BERT is taken, as in the paper's table 7. "
  "The weights of a sum are learned.",
)
flags.DEFINE_bool("do_eval", False, "Whether to evaluate on the dev file.")
flags.DEFINE_bool(
  "do_predict", False, "Whether to tag the test file, and score it if it can."
)
flags.DEFINE_integer(
  "eval_batch_size", 8, "Windows an evaluation batch.", lower_bound=1
)
training_flags.define_new_flags()
training_flags.define_evaluation_flags("f1")
training_flags.define_num_runs_flag()

# Without this --help leaves them to --helpfull.
flags.adopt_module_key_flags(training_flags)


def _config() -> ner.NerConfig:
  """Returns what the flags ask for."""
  uses_features = FLAGS.approach == "features"
  if FLAGS["feature_layers"].present and not uses_features:
    raise ValueError("--feature_layers needs --approach=features.")
  settings = training_flags.data_dir_settings()
  if uses_features and not FLAGS["learning_rate"].present:
    settings["train"] = dataclasses.replace(
      settings["train"], learning_rate=_FEATURE_LEARNING_RATE
    )
  return ner.NerConfig(
    train_file=FLAGS.train_file,
    dev_file=FLAGS.dev_file,
    test_file=FLAGS.test_file,
    file_format=ner_data.FileFormat(
      FLAGS.word_column, FLAGS.tag_column, FLAGS.tag_scheme
    ),
    document_context=FLAGS.document_context,
    feature_layers=FLAGS.feature_layers if uses_features else None,
    feature_dir=FLAGS.output_dir,  # One for all of num_runs.
    **settings,
  )


def main() -> None:
  """Builds the config from the flags and runs, once or several times."""
  if FLAGS.num_runs > 1:
    sweeps.run(_config(), ner.run, ("f1", "test_f1"), num_runs=FLAGS.num_runs)
  else:
    ner.run(_config())


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  for name in ("bert_config_file", "vocab_file", "output_dir"):
    flags.mark_flag_as_required(name)
  training_flags.run(main)
