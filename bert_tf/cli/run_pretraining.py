"""Pre-trains BERT on TFRecords of create_pretraining_data.py."""

from absl import flags

from bert_tf.cli import training_flags
from bert_tf.tasks import pretraining

FLAGS = flags.FLAGS

training_flags.define_original_flags("Records")
flags.DEFINE_string(
  "input_file", None, "TFRecord files or globs, separated by commas."
)
flags.DEFINE_integer(
  "max_seq_length",
  128,
  "Word pieces a record, as the data were made.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_predictions_per_seq",
  20,
  "Masked words a record, as the data were made.",
  lower_bound=1,
)
flags.DEFINE_bool("do_eval", False, "Whether to evaluate.")
flags.DEFINE_integer(
  "eval_batch_size", 8, "Records an evaluation batch.", lower_bound=1
)
flags.DEFINE_integer(
  "num_train_steps", 100000, "Training steps in all.", lower_bound=1
)
flags.DEFINE_integer(
  "num_warmup_steps", 10000, "Steps of linear warm-up.", lower_bound=0
)
flags.DEFINE_integer(
  "max_eval_steps", 100, "Batches of an evaluation.", lower_bound=1
)

flags.DEFINE_string(
  "eval_input_file", None, "TFRecords to evaluate on; default: input_file."
)
flags.DEFINE_string(
  "vocab_file", None, "If given, its size is checked against the config's."
)
flags.DEFINE_bool(
  "no_nsp", False, "Whether to train without the next-sentence loss."
)
flags.DEFINE_string(
  "schedule",
  None,
  "Lengths of the records, in the order that they are trained on, each with "
  "its share of the steps, as in 128:0.9,512:0.1. input_file then has files of "
  "all these lengths, which are told by their first record.",
)
training_flags.define_new_flags()
training_flags.define_evaluation_flags("masked_lm_loss")

# Without this --help leaves them to --helpfull.
flags.adopt_module_key_flags(training_flags)


def main() -> None:
  """Builds the configs from the flags and runs."""
  pretraining.run(
    pretraining.PretrainingConfig(
      bert_config_file=FLAGS.bert_config_file,
      input_file=FLAGS.input_file,
      eval_input_file=FLAGS.eval_input_file,
      vocab_file=FLAGS.vocab_file,
      max_seq_length=FLAGS.max_seq_length,
      max_predictions_per_seq=FLAGS.max_predictions_per_seq,
      do_train=FLAGS.do_train,
      do_eval=FLAGS.do_eval,
      eval_batch_size=FLAGS.eval_batch_size,
      max_eval_steps=FLAGS.max_eval_steps,
      no_nsp=FLAGS.no_nsp,
      schedule=FLAGS.schedule,
      train=training_flags.train_config(
        num_train_steps=FLAGS.num_train_steps,
        num_warmup_steps=FLAGS.num_warmup_steps,
        eval_every_steps=FLAGS.eval_every_steps,
        best_metric=FLAGS.best_metric or "masked_lm_loss",
        early_stopping_patience=FLAGS.early_stopping_patience,
      ),
    )
  )


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  for name in ("bert_config_file", "input_file", "output_dir"):
    flags.mark_flag_as_required(name)
  training_flags.run(main)
