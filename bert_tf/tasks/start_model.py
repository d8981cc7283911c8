"""The model that a fine-tuning run starts from, and the choice of its head.

Heads of several tasks have the same variables: `output_weights` labels texts in
one model and words in another. The files beside a checkpoint name the task and
the labels of its head. A run keeps the head only if both match its own.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from absl import logging

from bert_tf.checkpoint import run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import messages
from bert_tf.model import heads, hugging_face_config
from bert_tf.training import adapters


@dataclasses.dataclass(frozen=True)
class StartModel:
  """The checkpoint that a run starts from, and a LoRA adapter on top of it."""

  model: ModelFolder  # Of `init_checkpoint`; without weights for random values.
  adapter: str | None = None  # `lora_adapter`; None without one.

  @property
  def path(self) -> str | None:
    """The weights; None for random values."""
    return self.model.weights

  @functools.cached_property
  def head_run(self) -> run_info.RunInfo | None:
    """The run that trained the head; None if it is not known."""
    return adapters.find_run(self.adapter) if self.adapter else self.model.saved

  @functools.cached_property
  def head_shapes(self) -> Mapping[str, Sequence[int]]:
    """The shapes of the tensors in the file with the head, by name."""
    if self.adapter:
      return adapters.open_adapter(self.adapter).shapes
    return self.model.shapes

  def takes_head(
    self,
    model: type[heads.HeadModel],
    labels: run_info.LabelSpec | None,
    do_train: bool,
    encoder_only: bool = False,
  ) -> bool:
    """Returns whether a run of these labels keeps the head; logs the decision.

    Raises:
      ValueError: if the head has the same labels in another order, or if it
        cannot be kept and do_train is not set, so that no new one is trained.
    """
    start = self.adapter or self.path
    # The pooler's variables, for instance, are not in an adapter.
    known = {*self.head_shapes, *self.model.shapes}
    missing = model.missing_variables(known)
    reason = "`encoder_only` is set" if encoder_only else None
    if missing and not reason:
      reason = f"it has no {missing[0]}"
    reason = reason or self._other_purpose(model.task, labels)
    if not reason:
      logging.info("The head comes from %s.", start)
      return True
    if not do_train:
      raise ValueError(
        f"{start} is not a trained model for {model.task}: {reason}. Set "
        "`do_train`, or give a model for this task."
      )
    log = logging.info if missing or encoder_only else logging.warning
    log("%s: the head is new, since %s.", start, reason)
    return False

  def _other_purpose(
    self, task: str, labels: run_info.LabelSpec | None
  ) -> str | None:
    """Returns why the head is not one for a task and its labels, if it is not.

    Ignores the case of labels, since MNLI models on Hugging Face use both.
    """
    run, start = self.head_run, self.adapter or self.path or ""
    if run and run.task not in (task, "encoder"):
      return f"it was trained for {run.task}"
    if not labels:
      return None
    there = run.labels if run else None
    if there and there.problem_type != labels.problem_type:
      return f"it was trained for {there.problem_type}"
    ours = [name.casefold() for name in labels.labels]
    theirs = [name.casefold() for name in there.labels] if there else []
    # Some GLUE tasks have ids as labels, for which Hugging Face's files have
    # names.
    are_ids = list(labels.labels) == [str(i) for i in range(len(ours))]
    is_same = ours == theirs or (
      are_ids and hugging_face_config.is_weights(start)
    )
    if not is_same and sorted(ours) == sorted(theirs):
      raise ValueError(
        f"{start} was trained for the same labels in another order: there "
        f"{messages.join_names(theirs)}, here {messages.join_names(ours)}. Set "
        "`encoder_only` to start a new head."
      )
    num_outputs = self.head_shapes["output_weights"][0]
    if num_outputs != labels.num_outputs:
      return f"it has {num_outputs} labels, not {labels.num_outputs}"
    numbered = hugging_face_config.numbered_labels(len(labels.labels))
    if not there or (numbered and there.labels == numbered):
      logging.warning(
        "%s does not name the labels of its head, so they are taken to be %s.",
        start,
        messages.join_names(labels.labels),
      )
      return None
    if is_same:
      return None
    return f"it has the labels {messages.join_names(there.labels)}"
