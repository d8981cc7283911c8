"""What the scripts that train share: their flags, and the config of them."""

import os
import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import flags

from bert_tf import distribution, mixed_precision, optimization
from bert_tf.cli import command
from bert_tf.training import config as training_config

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
    "Checkpoint to start from, usually a pre-trained BERT: its prefix, or the "
    "output_dir of a run, whose newest is taken. A checkpoint in this run's "
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
  flags.DEFINE_string(
    "tpu_name",
    None,
    "The TPU's name, or its grpc:// address; without one it is that of this "
    "machine.",
  )
  flags.DEFINE_string("tpu_zone", None, "The zone of the TPU.")
  flags.DEFINE_string("gcp_project", None, "The project of the TPU.")
  flags.DEFINE_string(
    "master", None, "The TPU's grpc:// address, if it has no --tpu_name."
  )
  flags.DEFINE_integer(
    "num_tpu_cores", 8, "Cores that the TPU must have, if this is set."
  )


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
  flags.DEFINE_enum(
    "distribution",
    "auto",
    distribution.KINDS,
    "Where to run: one device; mirrored, all GPUs of this machine; "
    "multi_worker, the machines that TF_CONFIG names; tpu. auto is tpu with "
    "--use_tpu, mirrored with several GPUs, and else one.",
  )
  flags.DEFINE_integer(
    "gradient_accumulation_steps",
    1,
    "Micro-batches that a device's part of a batch is cut into, where the "
    "whole does not fit in memory. The step is the same.",
    lower_bound=1,
  )
  flags.DEFINE_bool(
    "recompute",
    False,
    "Whether the layers are computed again for the gradient instead of kept: "
    "less memory, a third more time.",
  )
  flags.DEFINE_enum(
    "optimizer",
    "adamw",
    tuple(optimization.OPTIMIZERS),
    "adamw is the original's; lamb is for large batches.",
  )
  flags.DEFINE_float(
    "layerwise_lr_decay",
    1.0,
    "What the learning rate is multiplied by from each encoder layer to the "
    "one below it.",
    lower_bound=0.0,
    upper_bound=1.0,
  )
  flags.DEFINE_enum(
    "precision",
    "float32",
    tuple(mixed_precision.PRECISIONS),
    "What products are computed in. Variables, losses and checkpoints are "
    "float32.",
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


def train_config(**settings: Any) -> training_config.TrainConfig:
  """Returns the config of the flags.

  Args:
    **settings: of TrainConfig, for what not every script has a flag;
      num_train_steps and num_warmup_steps may be left to the task, which
      counts its examples first.
  """
  return training_config.TrainConfig(
    output_dir=FLAGS.output_dir,
    train_batch_size=FLAGS.train_batch_size,
    learning_rate=FLAGS.learning_rate,
    save_checkpoints_steps=FLAGS.save_checkpoints_steps,
    keep_checkpoint_max=FLAGS.keep_checkpoint_max,
    iterations_per_loop=FLAGS.iterations_per_loop,
    log_every_steps=FLAGS.log_every_steps,
    seed=FLAGS.seed,
    use_xla=FLAGS.use_xla,
    gradient_accumulation_steps=FLAGS.gradient_accumulation_steps,
    precision=FLAGS.precision,
    recompute=FLAGS.recompute,
    optimizer=FLAGS.optimizer,
    layerwise_lr_decay=FLAGS.layerwise_lr_decay,
    **{
      "init_checkpoint": FLAGS.init_checkpoint,
      "num_train_steps": 1,
      "num_warmup_steps": 0,
      **settings,
    },
  )


def fine_tuning_settings(**train_settings: Any) -> dict[str, Any]:
  """Returns what the flags set of a FineTuningConfig.

  Args:
    **train_settings: of TrainConfig, as of `train_config`.
  """
  return {
    "bert_config_file": FLAGS.bert_config_file,
    "vocab_file": FLAGS.vocab_file,
    "do_lower_case": FLAGS.do_lower_case,
    "do_train": FLAGS.do_train,
    "do_predict": FLAGS.do_predict,
    "predict_batch_size": FLAGS.predict_batch_size,
    "num_train_epochs": FLAGS.num_train_epochs,
    "warmup_proportion": FLAGS.warmup_proportion,
    "train": train_config(
      eval_every_steps=FLAGS.eval_every_steps,
      best_metric=FLAGS.best_metric,
      early_stopping_patience=FLAGS.early_stopping_patience,
      **train_settings,
    ),
  }


def data_dir_settings(**train_settings: Any) -> dict[str, Any]:
  """Returns what the flags set of a DataDirConfig; see above."""
  return {
    **fine_tuning_settings(**train_settings),
    "data_dir": FLAGS.data_dir,
    "max_seq_length": FLAGS.max_seq_length,
    "do_eval": FLAGS.do_eval,
    "eval_batch_size": FLAGS.eval_batch_size,
  }


def run(main: Callable[[], None]) -> None:
  """As command.run, on the devices that the flags name."""

  def run_on_devices() -> None:
    with _strategy().scope(), distribution.translate_worker_loss():
      distribution.check_same(_values_of_flags())
      main()

  def run_to_the_end() -> None:
    try:
      run_on_devices()
    except distribution.WorkerLostError as error:
      command.report(error)
      # What TensorFlow tidies up at the end may wait for the lost one for ever.
      os._exit(1)

  command.run(run_to_the_end, sys.modules[main.__module__].__doc__)


def _strategy() -> tf.distribute.Strategy:
  """Returns what the flags of devices ask for.

  Raises:
    ValueError: for flags that do not go together, or a device that is not
      there.
  """
  if not FLAGS.use_tpu:
    for name in ("tpu_name", "tpu_zone", "gcp_project", "master"):
      if FLAGS[name].value:
        raise ValueError(
          f"--{name} says where a TPU is and needs --use_tpu. For several "
          "machines set TF_CONFIG and --distribution=multi_worker."
        )
    return distribution.create_strategy(FLAGS.distribution)
  tpu = distribution.TpuAddress(
    FLAGS.tpu_name or FLAGS.master or "local",
    FLAGS.tpu_zone,
    FLAGS.gcp_project,
  )
  strategy = distribution.create_strategy(FLAGS.distribution, tpu)
  num_cores = strategy.num_replicas_in_sync
  if FLAGS["num_tpu_cores"].present and num_cores != FLAGS.num_tpu_cores:
    raise ValueError(
      f"the TPU has {num_cores} cores, --num_tpu_cores is "
      f"{FLAGS.num_tpu_cores}; leave the flag out or set it to {num_cores}."
    )
  return strategy


def _values_of_flags() -> dict[str, Any]:
  """Returns the values of the script's flags and of those above, by name."""
  return {
    f"--{flag.name}": flag.value
    for module, found in FLAGS.flags_by_module_dict().items()
    if not module.startswith("absl")
    for flag in found
  }
