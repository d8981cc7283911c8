r"""Pre-trains BERT, from raw text or on TFRecords.

From raw text to a model that you can serve, this one command builds corpus,
vocabulary and records, trains, evaluates, plots and exports. The same command
resumes. With --model, it trains your model further. Its flags are listed by
bert-tf pretrain --text --help

bert-tf pretrain --text='wikipedia/*.parquet' --size=small \
    --train_hours=8 --output_dir=out

On TFRecords, it trains for --num_train_steps or for --train_hours:

bert-tf pretrain --input_file=data.tfrecord --do_train \
    --bert_config_file=bert_config.json --learning_rate=1e-4 \
    --output_dir=out
"""

import re
import sys

from bert_tf.cli import config_flags, devices, model_flags
from bert_tf.names import MULTI_WORKER
from bert_tf.pipeline.config import PipelineConfig
from bert_tf.tasks.pretraining import pretraining_config


def _run_on_records() -> None:
  from bert_tf.tasks.pretraining import pretraining

  start = model_flags.init_checkpoint()
  if any(map(config_flags.is_given, ("train_hours", "train_minutes"))):
    config_flags.refuse_given(
      ("num_train_steps", "num_warmup_steps"),
      "sets a number of steps, but --train_hours and --train_minutes set a "
      "time",
    )
  pretraining.run(
    config_flags.build(pretraining_config.PretrainingConfig, **start)
  )


def _run_on_text() -> None:
  config = config_flags.build(PipelineConfig)
  if config_flags.build(devices.DeviceConfig).distribution == MULTI_WORKER:
    raise ValueError(
      f"`distribution={MULTI_WORKER}`: --text runs on one machine. Make the "
      "records first, with create-pretraining-data, and give them as "
      "--input_file."
    )
  from bert_tf.pipeline import stages

  stages.run(config)


def run() -> None:
  """Runs the command; never returns."""
  # Without a flag, the error names those of the way from text.
  if not sys.argv[1:] or any(re.match("--?text(=|$)", a) for a in sys.argv):
    devices.run(_run_on_text, __doc__, PipelineConfig)
  configs = (pretraining_config.PretrainingConfig, model_flags.ModelFlags)
  devices.run(_run_on_records, __doc__, *configs)
