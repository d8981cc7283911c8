"""The model that a fine-tuning run starts from, and the choice of its head.

Heads of several tasks have the same variables: `output_weights` labels texts in
one model and words in another. The files beside a checkpoint name the task and
the labels of its head. A run keeps the head only if both match its own.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from absl import logging

from bert_tf import heads, model_folder
from bert_tf.files import errors
from bert_tf.formats import hugging_face
from bert_tf.model_folder import run_info
from bert_tf.training import adapters

_NEW_HEAD = "set `encoder_only` to start a new head"


@dataclasses.dataclass(frozen=True)
class Purpose:
  """The task and the labels of a head."""

  task: str | None  # One of run_info.TASKS; None if it is not known.
  # The labels; None if the task has no labels or they are not known.
  spec: run_info.LabelSpec | None

  def __str__(self) -> str:
    """Returns a description for messages."""
    text = self.task or "an unknown task"
    if self.spec and self.spec.problem_type != run_info.WORDS:
      text = self.spec.problem_type
    if self.spec and self.spec.labels:
      text += f" with the labels {errors.join_names(self.spec.labels)}"
    return text

  @property
  def label_names(self) -> list[str]:
    """The labels in lower case; [] without labels."""
    return [name.casefold() for name in self.spec.labels] if self.spec else []

  def is_other_task(self, needed: "Purpose") -> bool:
    """Returns whether a head with this purpose cannot serve the needed one."""
    if self.task not in (None, needed.task):
      return True
    if not self.spec or not needed.spec:
      return False
    return self.spec.problem_type != needed.spec.problem_type


@dataclasses.dataclass(frozen=True)
class StartModel:
  """The checkpoint that a run starts from, and the LoRA adapter on top of it.

  Each file is read once, on first use.

  Attributes:
    path: `init_checkpoint`; None for random values.
    adapter: `lora_adapter`; None without one.
  """

  path: str | None
  adapter: str | None = None

  @functools.cached_property
  def files(self) -> model_folder.ModelFolder:
    """The checkpoint, which must be set, and the files beside it."""
    assert self.path
    return model_folder.ModelFolder(self.path)

  @property
  def run(self) -> run_info.RunInfo | None:
    """The run that trained the checkpoint; None if it is not known."""
    return self.files.run if self.path else None

  @functools.cached_property
  def head_run(self) -> run_info.RunInfo | None:
    """The run that trained the head; None if it is not known."""
    return adapters.find_run(self.adapter) if self.adapter else self.run

  @property
  def head_path(self) -> str | None:
    """The path of the head: the adapter, or else the checkpoint."""
    return self.adapter or self.path

  @functools.cached_property
  def head_shapes(self) -> Mapping[str, Sequence[int]]:
    """The shapes of the tensors in the file with the head, by name.

    Raises:
      ValueError: if the checkpoint or the adapter does not exist.
    """
    if self.adapter:
      return adapters.open_adapter(self.adapter).shapes
    return self.files.reader.shapes

  @property
  def purpose(self) -> Purpose:
    """The purpose of the head, from its run and its variables."""
    run = self.head_run
    if run is None or run.task not in {model.task for model in heads.MODELS}:
      return Purpose(None, None)
    return Purpose(run.task, run.label_spec)

  def takes_head(
    self,
    model: type[heads.HeadModel],
    needed: Purpose,
    do_train: bool,
    encoder_only: bool = False,
  ) -> bool:
    """Returns whether the run keeps the head; logs the decision.

    Args:
      model: the model class of the run's task.
      needed: the purpose of the run's head.
      do_train: whether the run trains, so that it may start a new head.
      encoder_only: whether the user asks for a new head.

    Raises:
      ValueError: if the head has other labels. Without do_train, also if it
        belongs to another task or if encoder_only is set.
    """
    start, shapes = self.head_path, self.head_shapes
    assert start
    if encoder_only:
      if not do_train:
        raise ValueError(
          f"`encoder_only` ignores the head of {start}, so that there is no "
          "trained model; set `do_train`, or leave `encoder_only` out."
        )
      logging.info("%s: using only the encoder; the head is new.", start)
      return False
    if model.missing_variables(shapes):
      logging.info("%s has no head for %s; the head is new.", start, needed)
      return False
    trained = self.purpose
    if trained.is_other_task(needed):
      if not do_train:
        raise ValueError(
          f"{start} was trained for {trained}, and this run is for {needed}; "
          "set `do_train`, or give a model of this task."
        )
      logging.warning(
        "%s was trained for %s: using only its encoder; the head for %s is "
        "new.",
        *(start, trained, needed),
      )
      return False
    if needed.spec:
      _check_labels(start, shapes["output_weights"][0], trained, needed)
    if trained.task is None or (needed.spec and not _is_named(trained.spec)):
      logging.warning(
        "%s has no record of the task of its head. Using the head for %s; "
        f"{_NEW_HEAD} instead.",
        *(start, needed),
      )
    else:
      logging.info("The head comes from %s, trained for %s.", start, trained)
    return True


def check_is_trained(
  output_dir: str, start: StartModel, head: heads.Head
) -> None:
  """Checks that a run that does not train has a trained model to start from.

  Raises:
    ValueError: if there is no model to start from, or if it lacks the head.
  """
  if not start.path:
    raise ValueError(
      f"there is no trained model: {output_dir} has no checkpoint; set "
      "`do_train`, or `init_checkpoint` to a trained one."
    )
  known = {*start.files.reader.shapes, *start.head_shapes}
  for name in head.shapes:
    if name not in known:
      raise ValueError(
        f"{start.path} has no {name}: it was not trained for {head.name}; set "
        "`do_train`."
      )


def _is_named(spec: run_info.LabelSpec | None) -> TypeGuard[run_info.LabelSpec]:
  """Returns whether the labels are known and are not LABEL_0, LABEL_1, ..."""
  return spec is not None and spec.is_named


def _check_labels(
  start: str, num_outputs: int, trained: Purpose, needed: Purpose
) -> None:
  """Raises ValueError if a head is known to have other labels.

  Ignores case, since MNLI models on Hugging Face use both cases.
  """
  spec = needed.spec
  assert spec
  there, here = trained.label_names, needed.label_names
  if _is_named(trained.spec) and there != here:
    # Some GLUE tasks have ids as labels, for which Hugging Face's files have
    # names.
    are_ids = list(spec.labels) == [str(i) for i in range(len(spec.labels))]
    if not (are_ids and start.endswith(hugging_face.SUFFIX)):
      fault = f"was trained for {trained}, and this run is for {needed}"
      if sorted(there) == sorted(here):
        fault = (
          "was trained for the same labels in another order: there "
          f"{errors.join_names(trained.spec.labels)}, here "
          f"{errors.join_names(spec.labels)}"
        )
      raise ValueError(
        f"{start} {fault}; {_NEW_HEAD}, or give a model of this run's labels, "
        "in their order."
      )
  if num_outputs != spec.num_outputs:
    raise ValueError(
      f"{start} has a head of {num_outputs} labels, this task needs "
      f"{spec.num_outputs}; {_NEW_HEAD}."
    )
