"""Pre-trains BERT on TFRecords of create_pretraining_data.py."""

import common_flags
from absl import flags

from bert_tf import estimator
from bert_tf.tasks import pretraining

FLAGS = flags.FLAGS

flags.DEFINE_string(
  "bert_config_file", None, "JSON file with the sizes of the model."
)
flags.DEFINE_string(
  "input_file", None, "TFRecord files or globs, separated by commas."
)
flags.DEFINE_string(
  "output_dir", None, "Folder for checkpoints, events and eval_results.txt."
)
flags.DEFINE_string(
  "init_checkpoint",
  None,
  "Checkpoint to start from, usually a pre-trained BERT. A checkpoint in "
  "output_dir goes before it.",
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
flags.DEFINE_bool("do_train", False, "Whether to train.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate.")
flags.DEFINE_integer(
  "train_batch_size", 32, "Records a training step.", lower_bound=1
)
flags.DEFINE_integer(
  "eval_batch_size", 8, "Records an evaluation batch.", lower_bound=1
)
flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
flags.DEFINE_integer(
  "num_train_steps", 100000, "Training steps in all.", lower_bound=1
)
flags.DEFINE_integer(
  "num_warmup_steps", 10000, "Steps of linear warm-up.", lower_bound=0
)
flags.DEFINE_integer(
  "save_checkpoints_steps",
  1000,
  "Steps between two checkpoints.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "iterations_per_loop",
  1000,
  "The most steps between two looks at the clock.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_eval_steps", 100, "Batches of an evaluation.", lower_bound=1
)
common_flags.define_tpu_flags()

flags.DEFINE_string(
  "eval_input_file", None, "TFRecords to evaluate on; default: input_file."
)
flags.DEFINE_string(
  "vocab_file", None, "If given, its size is checked against the config's."
)
flags.DEFINE_bool(
  "no_nsp", False, "Whether to train without the next-sentence loss."
)
common_flags.define_training_flags()
common_flags.define_evaluation_flags("masked_lm_loss")


def main() -> None:
  """Builds the configs from the flags and runs."""
  common_flags.check_tpu_flags()
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
      train=estimator.TrainConfig(
        output_dir=FLAGS.output_dir,
        init_checkpoint=FLAGS.init_checkpoint,
        train_batch_size=FLAGS.train_batch_size,
        learning_rate=FLAGS.learning_rate,
        num_train_steps=FLAGS.num_train_steps,
        num_warmup_steps=FLAGS.num_warmup_steps,
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        keep_checkpoint_max=FLAGS.keep_checkpoint_max,
        iterations_per_loop=FLAGS.iterations_per_loop,
        log_every_steps=FLAGS.log_every_steps,
        seed=FLAGS.seed,
        use_xla=FLAGS.use_xla,
        eval_every_steps=FLAGS.eval_every_steps,
        best_metric=FLAGS.best_metric or "masked_lm_loss",
        early_stopping_patience=FLAGS.early_stopping_patience,
      ),
    )
  )


if __name__ == "__main__":
  for name in ("bert_config_file", "input_file", "output_dir"):
    flags.mark_flag_as_required(name)
  common_flags.run(main)
