r"""Pre-trains BERT, from raw text or on TFRecords.

From raw text to a model that can be served: builds corpus, vocabulary and
records, trains, evaluates, plots and exports. Its flags:
bert-tf pretrain --text --help

bert-tf pretrain --text='wikipedia/*.parquet' --size=small \
    --train_hours=8 --output_dir=out

On TFRecords of create-pretraining-data, for --num_train_steps or --train_hours:

bert-tf pretrain --input_file=data.tfrecord --do_train \
    --bert_config_file=bert_config.json --learning_rate=1e-4 \
    --output_dir=out
"""

import os
import re
import sys

from bert_tf.cli import (
  config_flags,
  devices,
  flag_texts,
  model_flags,
  text_flags,
)
from bert_tf.pipeline import config as pipeline_config
from bert_tf.tasks import pretraining_config

_TEXT_FORM = r"""Pre-trains BERT from raw text to a model that can be served.

bert-tf pretrain --text='wikipedia/*.parquet' --size=small \
    --train_hours=8 --output_dir=out

Builds corpus, vocabulary and records, trains, evaluates, plots and exports. A
second run with the same flags resumes. With --model, it continues a given model
on the text, with the model's vocabulary. With --input_file instead of --text,
the command trains on TFRecords: bert-tf pretrain --help
"""


def main() -> None:
  """Trains and evaluates on records, as the flags say."""
  from bert_tf.tasks import pretraining

  files = model_flags.resolve_files(needs_vocab=False)
  if any(map(config_flags.is_given, ("train_hours", "train_minutes"))):
    config_flags.refuse_given(
      ("num_train_steps", "num_warmup_steps"),
      "sets a number of steps, but --train_hours and --train_minutes set a "
      "time",
    )
  config = config_flags.build(pretraining_config.PretrainingConfig, **files)
  _refuse_idle_flags(config)
  pretraining.run(config)


def _refuse_idle_flags(config: pretraining_config.PretrainingConfig) -> None:
  """Raises ValueError for a flag that this run would not use."""
  if config.schedule:
    config_flags.refuse_given(
      ["max_seq_length"], "comes from the records with --schedule"
    )
  if not config.do_train and config.do_eval:
    config_flags.refuse_given(["initial_values"], "is for --do_train")
  is_evaluated = config.do_eval or config.train.eval_every_steps
  if config.do_train and not is_evaluated:
    config_flags.refuse_given(
      ["eval_input_file"], "is for --do_eval and --eval_every_steps"
    )


def run_pipeline() -> None:
  """Runs the unfinished steps from text to a model."""
  from bert_tf.pipeline import stages

  config = config_flags.build(pipeline_config.PipelineConfig)
  text_flags.check_text(config.text, config.reading, config.pydoc_packages)
  stages.run(config)


def run() -> None:
  """Runs the command; never returns."""
  if len(sys.argv) == 1:
    forms = flag_texts.adapt_examples(str(__doc__))
    program = os.path.basename(sys.argv[0])
    sys.exit(f"{program}: error: set --text or --input_file.\n\n{forms}")
  if any(re.match("--?text(=|$)", word) for word in sys.argv[1:]):
    config_flags.define(pipeline_config.PipelineConfig)
    devices.run(run_pipeline, _TEXT_FORM)
  config_flags.define(pretraining_config.PretrainingConfig)
  config_flags.define(model_flags.ModelFlags)
  devices.run(main, __doc__)
