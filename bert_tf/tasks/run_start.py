"""Decides which labels and weights a fine-tuning run starts from."""

import dataclasses

from absl import logging

from bert_tf.model_folder import label_map
from bert_tf.tasks import base, start_model
from bert_tf.training import config as training_config
from bert_tf.training import restore


def saved_labels(
  setup: base.Setup[base.Config], starts_head: bool = False
) -> label_map.LabelSpec | None:
  """Returns the labels in output_dir, else of the model to start from.

  Args:
    setup: of the run.
    starts_head: whether no head comes from the model to start from.

  Returns:
    The labels with their origin; None if they are not known, or that model is
    of another task.
  """
  config, output_dir = setup.config, setup.folder.path
  train = config.train
  saved = setup.folder.labels
  name = f"the run in {output_dir}"
  remedy = f"choose another `output_dir` than {output_dir}"
  if not saved:
    run = None if starts_head else start_model.run_of_start(train)
    saved = label_map.of_run(run)
    is_same_task = run is not None and run.task == config.task
    if train.encoder_only or not is_same_task or not saved:
      return None
    name = f"the model {train.lora_adapter or train.init_checkpoint}"
    remedy = "set `encoder_only` for a new head with the labels of the data"
  if not config.do_train:
    remedy = "correct the label, or use a model that was trained on it"
  origin = label_map.LabelOrigin(name, remedy)
  return dataclasses.replace(saved, origin=origin)


def with_start(
  setup: base.Setup[base.Config],
  task: base.Task,
  train: training_config.FineTuningTrainConfig,
) -> training_config.FineTuningTrainConfig:
  """Decides which weights the run starts from; may raise ValueError.

  Returns:
    The training config, with encoder_only set unless the head is taken too.
  """
  config, output_dir, spec = setup.config, setup.folder.path, task.label_spec
  if train.lora_adapter and not task.starts_from_checkpoint:
    raise ValueError(
      "lora_adapter is for BERT, which is not trained here; leave it out."
    )
  head = task.model.heads[0]
  num_outputs = spec.num_outputs if spec else None
  name = next(iter(head.shapes))
  if restore.check_has_head(output_dir, name, config.do_train, num_outputs):
    if config.do_train:
      restore.check_lora_alpha(output_dir, train.lora_rank, train.lora_alpha)
    return train
  start = train.init_checkpoint if task.starts_from_checkpoint else None
  if not config.do_train:
    restore.check_is_trained(output_dir, start, head, train.lora_adapter)
  if start:
    purpose = start_model.Purpose(
      task.model.task, spec, bool(setup.bert_config.bilstm)
    )
    takes_head = start_model.takes_head(
      train, task.model, purpose, config.do_train
    )
    return dataclasses.replace(train, encoder_only=not takes_head)
  if task.starts_from_checkpoint:
    logging.warning(
      "There is no `init_checkpoint`: the whole model starts from RANDOM "
      "values, not from a pre-trained BERT."
    )
  return train
