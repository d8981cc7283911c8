"""Decides whether a run reuses the head of the model that it starts from.

Heads of several tasks have the same variables: `output_weights` labels texts in
one model and words in another. The files next to a checkpoint name the task and
the labels of its head. A run reuses the head only if both match its own.
"""

import dataclasses
from collections.abc import Collection

from absl import logging

from bert_tf import checkpoints, heads, model_folder
from bert_tf.files import errors
from bert_tf.formats import hugging_face
from bert_tf.model_folder import label_map, run_info
from bert_tf.training import adapters
from bert_tf.training import config as training_config

_NEW_HEAD = "set `encoder_only` to start a new head"


@dataclasses.dataclass(frozen=True)
class Purpose:
  """The task and the labels of a head."""

  task: str | None  # One of run_info.TASKS; None if unknown.
  # The labels; None for a task without labels, or if unknown.
  spec: label_map.LabelSpec | None
  has_bilstm: bool  # Whether a BiLSTM is between BERT and the head.

  def __str__(self) -> str:
    """Returns a description for messages."""
    text = self.task or "an unknown task"
    if self.spec and self.spec.problem_type != run_info.WORDS:
      text = self.spec.problem_type
    if self.spec and self.spec.labels:
      text += f" with the labels {errors.listed(self.spec.labels)}"
    return f"{text}, on a BiLSTM" if self.has_bilstm else text


def run_of_start(
  train: training_config.FineTuningTrainConfig,
) -> run_info.RunInfo | None:
  """Returns the run that trained the head to start from; None if unknown."""
  if train.lora_adapter:
    return adapters.find_run(train.lora_adapter)
  start = train.init_checkpoint
  return model_folder.ModelFolder(start).run if start else None


def takes_head(
  train: training_config.FineTuningTrainConfig,
  model: type[heads.HeadModel],
  needed: Purpose,
  do_train: bool,
) -> bool:
  """Returns whether the run reuses the head; logs the head's origin.

  Args:
    train: names the model to start from.
    model: class of the task's models.
    needed: the task and the labels of the run.
    do_train: whether the run can train a new head.

  Raises:
    ValueError: if the head has other labels or, without do_train, another task.
  """
  start = train.lora_adapter or train.init_checkpoint
  assert start
  reader = (
    adapters.open_adapter(start)
    if train.lora_adapter
    else checkpoints.CheckpointReader(start)
  )
  if train.encoder_only:
    if not do_train:
      raise ValueError(
        f"`encoder_only` drops the head of {start}, so there is no trained "
        "model; set `do_train`, or leave `encoder_only` out."
      )
    logging.info("Loading only the encoder of %s; the head is new.", start)
    return False
  if model.missing_variables(reader.shapes):
    logging.info("%s has no head for %s; the head is new.", start, needed)
    return False
  trained = _purpose(run_of_start(train), reader.shapes)
  if _is_other_task(trained, needed):
    _reject_head(start, trained, needed, do_train)
    return False
  if needed.spec:
    _check_labels(start, reader.shapes["output_weights"][0], trained, needed)
  if trained.task is None or (needed.spec and not _has_names(trained.spec)):
    logging.warning(
      "The purpose of the head of %s is unknown. Loading it for %s; "
      f"{_NEW_HEAD} instead.",
      *(start, needed),
    )
  else:
    logging.info("The head comes from %s, trained for %s.", start, trained)
  return True


def _reject_head(
  start: str, trained: Purpose, needed: Purpose, do_train: bool
) -> None:
  """Warns that the head of another task is not reused.

  Raises:
    ValueError: if the run does not train a new head.
  """
  if not do_train:
    remedy = "set `do_train`, or give a model of this task"
    if trained.has_bilstm != needed.has_bilstm:
      remedy = "give the `bert_config_file` of the run that trained it"
    raise ValueError(
      f"{start} was trained for {trained}, and this run is for {needed}; "
      f"{remedy}."
    )
  logging.warning(
    "%s was trained for %s: loading only its encoder; the head for %s is new.",
    *(start, trained, needed),
  )


def _purpose(
  run: run_info.RunInfo | None, variables: Collection[str]
) -> Purpose:
  """Returns the purpose of a head, from its run and its variables."""
  has_bilstm = any(name.startswith("bilstm/") for name in variables)
  if run is None or run.task not in {model.task for model in heads.MODELS}:
    return Purpose(None, None, has_bilstm)
  return Purpose(run.task, label_map.of_run(run), has_bilstm)


def _is_other_task(trained: Purpose, needed: Purpose) -> bool:
  """Returns whether a head was trained for another task."""
  if trained.task not in (None, needed.task):
    return True
  if trained.has_bilstm != needed.has_bilstm:
    return True
  if trained.spec is None or needed.spec is None:
    return False
  return trained.spec.problem_type != needed.spec.problem_type


def _has_names(spec: label_map.LabelSpec | None) -> bool:
  """Returns whether the labels have real names, not numbered ones."""
  if spec is None:
    return False
  numbered = hugging_face.numbered_labels(len(spec.labels))
  return not spec.labels or spec.labels != numbered


def _check_labels(
  start: str, num_outputs: int, trained: Purpose, needed: Purpose
) -> None:
  """Raises ValueError if a head is known to have other labels.

  Case is ignored: Hugging Face's MNLI models have names in upper and lower
  case.
  """
  spec = needed.spec
  assert spec
  trained_names, needed_names = (
    [name.casefold() for name in labels.labels] if labels else []
    for labels in (trained.spec, spec)
  )
  if _has_names(trained.spec) and trained_names != needed_names:
    # Some GLUE tasks have ids as labels, to which Hugging Face gives names.
    are_ids = list(spec.labels) == [str(i) for i in range(len(spec.labels))]
    if not (are_ids and start.endswith(hugging_face.SUFFIX)):
      has_same_names = sorted(trained_names) == sorted(needed_names)
      order = " in this order" if has_same_names else ""
      raise ValueError(
        f"{start} was trained for {trained}, and this run is for {needed}"
        f"{order}; {_NEW_HEAD}, or give a model of these labels{order}."
      )
  if num_outputs != spec.num_outputs:
    raise ValueError(
      f"{start} has a head of {num_outputs} labels, this task needs "
      f"{spec.num_outputs}; {_NEW_HEAD}."
    )
