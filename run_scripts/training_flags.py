"""What the scripts that train share: their flags, and the config of them."""

from typing import Any

from absl import flags

from bert_tf import estimator

FLAGS = flags.FLAGS


def define_original_flags(example: str) -> None:
  """Defines what every training script of the original has.

  Args:
    example: what a batch holds, for the help.
  """
  flags.DEFINE_string(
    "bert_config_file", None, "JSON file with the sizes of the model."
  )
  flags.DEFINE_string(
    "output_dir", None, "Folder for checkpoints, events and results."
  )
  flags.DEFINE_string(
    "init_checkpoint",
    None,
    "Checkpoint to start from, usually a pre-trained BERT. A checkpoint in "
    "output_dir goes before it.",
  )
  flags.DEFINE_bool("do_train", False, "Whether to train.")
  flags.DEFINE_integer(
    "train_batch_size", 32, f"{example} a training step.", lower_bound=1
  )
  flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
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
  flags.DEFINE_bool("use_tpu", False, "Whether to run on a TPU.")
  flags.DEFINE_string("tpu_name", None, "The TPU to use.")
  flags.DEFINE_string("tpu_zone", None, "The zone of the TPU.")
  flags.DEFINE_string("gcp_project", None, "The project of the TPU.")
  flags.DEFINE_string("master", None, "The address of a TensorFlow master.")
  flags.DEFINE_integer("num_tpu_cores", 8, "Cores of the TPU.")


def define_fine_tuning_flags(example: str) -> None:
  """Defines what the original's fine-tuning scripts have besides.

  Args:
    example: what a batch holds, for the help.
  """
  flags.DEFINE_string("vocab_file", None, "The vocabulary of the model.")
  flags.DEFINE_bool(
    "do_lower_case",
    True,
    "Whether to lower-case: True for uncased models, False for cased ones.",
  )
  flags.DEFINE_integer(
    "predict_batch_size", 8, f"{example} a prediction batch.", lower_bound=1
  )
  flags.DEFINE_float(
    "num_train_epochs",
    3.0,
    "Passes over the training file.",
    lower_bound=0.0,
  )
  flags.DEFINE_float(
    "warmup_proportion",
    0.1,
    "Share of the steps with a rising learning rate.",
    lower_bound=0.0,
    upper_bound=1.0,
  )


def define_new_flags() -> None:
  """Defines the flags of training that the original did not have."""
  flags.DEFINE_integer(
    "seed", 12345, "Of initial values, dropout and the order of the data."
  )
  flags.DEFINE_integer(
    "keep_checkpoint_max",
    5,
    "How many of the newest checkpoints stay; 0 for all.",
    lower_bound=0,
  )
  flags.DEFINE_integer(
    "log_every_steps", 100, "Steps between two log lines.", lower_bound=1
  )
  flags.DEFINE_bool(
    "use_xla", True, "Whether the training step is compiled by XLA."
  )


def define_evaluation_flags(default_metric: str) -> None:
  """Defines the flags of evaluation while training."""
  flags.DEFINE_integer(
    "eval_every_steps",
    0,
    "Steps between two evaluations while training, the last step always being "
    "one; 0 for none. The weights of the best are kept in output_dir/best, a "
    "folder that --output_dir takes to evaluate and predict with them.",
    lower_bound=0,
  )
  flags.DEFINE_string(
    "best_metric",
    None,
    "Which result decides on the best: a loss or the perplexity by the lowest "
    f"value, any other by the highest; default: {default_metric}.",
  )
  flags.DEFINE_integer(
    "early_stopping_patience",
    0,
    "Evaluations in a row without a better one after which training ends; 0 "
    "for never.",
    lower_bound=0,
  )


def define_num_runs_flag() -> None:
  """Defines how many seeds are tried."""
  flags.DEFINE_integer(
    "num_runs",
    1,
    "Fine-tunes this often, with the seeds seed, seed + 1, ..., in the folders "
    "run_0, run_1, ... of output_dir; sweep_results.tsv has mean and sample "
    "standard deviation of the results, and the best run by best_metric. Every "
    "run keeps its checkpoints: see keep_checkpoint_max.",
    lower_bound=1,
  )


def train_config(**settings: Any) -> estimator.TrainConfig:
  """Returns the config of the flags.

  Args:
    **settings: of TrainConfig, for what not every script has a flag;
      num_train_steps and num_warmup_steps may be left to the task, which
      counts its examples first.

  Raises:
    ValueError: for a flag of a device that cannot be used yet.
  """
  for name in ("use_tpu", "tpu_name", "tpu_zone", "gcp_project", "master"):
    if FLAGS[name].value:
      raise ValueError(
        f"--{name} cannot be honoured: this version trains on the CPU or on "
        "one GPU, which it finds by itself; leave the flag out."
      )
  return estimator.TrainConfig(
    output_dir=FLAGS.output_dir,
    init_checkpoint=FLAGS.init_checkpoint,
    train_batch_size=FLAGS.train_batch_size,
    learning_rate=FLAGS.learning_rate,
    save_checkpoints_steps=FLAGS.save_checkpoints_steps,
    keep_checkpoint_max=FLAGS.keep_checkpoint_max,
    iterations_per_loop=FLAGS.iterations_per_loop,
    log_every_steps=FLAGS.log_every_steps,
    seed=FLAGS.seed,
    use_xla=FLAGS.use_xla,
    **{"num_train_steps": 1, "num_warmup_steps": 0, **settings},
  )
