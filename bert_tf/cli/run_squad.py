r"""Fine-tunes BERT to answer questions, as in SQuAD.

bert-tf squad --do_train --train_file=train-v1.1.json \
    --do_predict --predict_file=dev-v1.1.json \
    --model=uncased_L-12_H-768_A-12 --output_dir=out
"""

import dataclasses
import sys
from typing import Any

from bert_tf import settings
from bert_tf.cli import config_flags, devices, fine_tuning_flags, model_flags
from bert_tf.tasks.squad import config as squad_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class InteractiveConfig:
  """Settings of a conversation on the terminal."""

  interactive: bool = settings.setting(
    False,
    "Whether to answer questions typed on the terminal, after --do_train and "
    "--do_predict if they are given.",
    topic=settings.STEPS,
  )


def main() -> None:
  """Trains and predicts, then answers questions, as the flags say."""
  from bert_tf.tasks.squad import task

  # Evaluation is prediction with scores, so it uses predict_batch_size.
  values: dict[str, Any] = {
    **model_flags.resolve_files(),
    **fine_tuning_flags.chosen_steps(),
  }
  is_interactive = config_flags.build(InteractiveConfig).interactive
  config = config_flags.build_to_read(squad_config.SquadConfig, **values)
  is_run = config.do_train or config.do_predict or not is_interactive
  if is_run:
    config = config_flags.build(squad_config.SquadConfig, **values)
  config = dataclasses.replace(
    config, eval_batch_size=config.predict_batch_size
  )
  if is_interactive:
    _check_has_adapter(config)
  if is_run and task.run(config) is None:
    return
  if is_interactive:
    _answer_questions(config)


def _check_has_adapter(config: squad_config.SquadConfig) -> None:
  """Raises ValueError for a lora_adapter without a model in output_dir."""
  from bert_tf import checkpoints

  train = config.train
  is_of_run = config.do_train or checkpoints.list_checkpoints(train.output_dir)
  if train.lora_adapter and not is_of_run:
    raise ValueError(
      f"`interactive` does not add lora_adapter {train.lora_adapter} to "
      f"{train.init_checkpoint}; leave `lora_adapter` out and set `model` to "
      "the output_dir of the run that trained the adapter."
    )


def _answer_questions(config: squad_config.SquadConfig) -> None:
  """Answers questions from stdin.

  If output_dir has a trained model, uses its config and vocabulary, because
  the flags name those of the model from which training started.
  """
  from bert_tf import checkpoints, model_folder
  from bert_tf.inference import question_answering
  from bert_tf.model_folder import run_folder
  from bert_tf.tasks import fine_tuning, start_model

  folder = run_folder.RunFolder(config.train.output_dir, config.task)
  start = start_model.StartModel(config.train.init_checkpoint)
  config = fine_tuning.resolve(config, folder, start)
  assert config.do_lower_case is not None
  output_dir = config.train.output_dir
  newest = checkpoints.find_latest(output_dir)
  is_of_run = newest is not None and model_folder.has_config(output_dir)
  answerer = question_answering.QuestionAnswerer(
    None if is_of_run else config.bert_config_file,
    None if is_of_run else config.vocab_file,
    init_checkpoint=newest or config.train.init_checkpoint or output_dir,
    do_lower_case=config.do_lower_case,
    strip_accents=config.strip_accents,
    **vars(settings.extract(config, squad_config.WindowConfig)),
    **vars(settings.extract(config, squad_config.DecodingConfig)),
  )
  for text in question_answering.converse(answerer, sys.stdin):
    print(text, end="", flush=True)
  print()


def run() -> None:
  """Runs the command; never returns."""
  fine_tuning_flags.define(squad_config.SquadConfig, ("do_train", "do_predict"))
  config_flags.define(InteractiveConfig)
  devices.run(main, __doc__)
