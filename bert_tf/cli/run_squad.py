"""Fine-tunes BERT on SQuAD 1.1 or 2.0, predicts answers and scores them."""

import sys

from absl import flags

from bert_tf import checkpoints
from bert_tf.cli import training_flags
from bert_tf.inference import question_answering
from bert_tf.tasks import sweeps
from bert_tf.tasks.squad import decoding as squad_predictions
from bert_tf.tasks.squad import task as squad
from bert_tf.tasks.squad import windows as squad_features

FLAGS = flags.FLAGS

training_flags.define_original_flags("Windows")
training_flags.define_fine_tuning_flags("Windows")
flags.DEFINE_string("train_file", None, "SQuAD JSON to train on.")
flags.DEFINE_string("predict_file", None, "SQuAD JSON to answer.")
flags.DEFINE_integer(
  "max_seq_length",
  384,
  "Word pieces of a window: question, context and special tokens.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "doc_stride",
  128,
  "Word pieces from the start of one window of a long context to the next.",
)
flags.DEFINE_integer(
  "max_query_length",
  64,
  "Word pieces that are kept of a question.",
  lower_bound=1,
)
flags.DEFINE_bool("do_predict", False, "Whether to answer predict_file.")
flags.DEFINE_integer(
  "n_best_size",
  20,
  "Starts, ends and answers that are looked at and written.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_answer_length", 30, "Word pieces of an answer at most.", lower_bound=1
)
flags.DEFINE_bool(
  "verbose_logging",
  False,
  "Whether to log every fault of the data, and every answer that could not be "
  "aligned with its context.",
)
flags.DEFINE_bool(
  "version_2_with_negative",
  False,
  "Whether some questions have no answer, as in SQuAD 2.0.",
)
flags.DEFINE_float(
  "null_score_diff_threshold",
  0.0,
  'Answers "" where its score less the best answer\'s is above this.',
)

training_flags.define_new_flags()
training_flags.define_evaluation_flags("f1")
training_flags.define_num_runs_flag()
flags.DEFINE_bool(
  "cut_padding",
  False,
  "Whether batches are cut to their longest window, and those of training hold "
  "windows of like length, which takes less time. The original's softmax is "
  "over the padding too, so scores differ a little from its.",
)
flags.DEFINE_bool(
  "interactive",
  False,
  "Whether to answer questions that are typed, after what else is asked for.",
)

# Without this --help leaves them to --helpfull.
flags.adopt_module_key_flags(training_flags)


def _config() -> squad.SquadConfig:
  """Returns what the flags ask for."""
  return squad.SquadConfig(
    train_file=FLAGS.train_file,
    predict_file=FLAGS.predict_file,
    cut_padding=FLAGS.cut_padding,
    windows=squad_features.WindowConfig(
      max_seq_length=FLAGS.max_seq_length,
      doc_stride=FLAGS.doc_stride,
      max_query_length=FLAGS.max_query_length,
    ),
    predictions=squad_predictions.PredictionConfig(
      n_best_size=FLAGS.n_best_size,
      max_answer_length=FLAGS.max_answer_length,
      version_2_with_negative=FLAGS.version_2_with_negative,
      null_score_diff_threshold=FLAGS.null_score_diff_threshold,
      verbose_logging=FLAGS.verbose_logging,
    ),
    **training_flags.fine_tuning_settings(),
  )


def _converse(config: squad.SquadConfig) -> None:
  """Answers what is typed."""
  answerer = question_answering.QuestionAnswerer(
    config.bert_config_file,
    config.vocab_file,
    checkpoints.latest(config.train.output_dir)
    or config.train.init_checkpoint
    or config.train.output_dir,
    config.do_lower_case,
    config.windows,
    config.predictions,
  )
  for text in question_answering.converse(answerer, sys.stdin):
    print(text, end="", flush=True)
  print()


def main() -> None:
  """Builds the configs from the flags and runs."""
  config = _config()
  if FLAGS.num_runs > 1:
    metrics = squad.result_names(FLAGS.version_2_with_negative)
    sweeps.run(
      config,
      squad.run,
      metrics,
      num_runs=FLAGS.num_runs,
      evaluation_flag="do_predict",
    )
    return
  if FLAGS.do_train or FLAGS.do_predict or not FLAGS.interactive:
    if squad.run(config) is None:
      return
  if FLAGS.interactive:
    _converse(config)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  for name in ("bert_config_file", "vocab_file", "output_dir"):
    flags.mark_flag_as_required(name)
  training_flags.run(main)
