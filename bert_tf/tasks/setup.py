"""What a fine-tuning run starts from: settings, folder, model and its head.

Heads of several tasks have the same variables: `output_weights` labels texts in
one model and words in another. The files beside a checkpoint name the task and
the labels of its head. A run keeps the head only if both match its own.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from absl import logging

from bert_tf import modeling, tokenization
from bert_tf.checkpoint import run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.checkpoint.run_folder import RunFolder
from bert_tf.files import messages
from bert_tf.model import heads, hugging_face_config
from bert_tf.tasks.config import FineTuningConfig
from bert_tf.training import adapters

Config = TypeVar("Config", bound=FineTuningConfig)


@dataclasses.dataclass(frozen=True)
class Setup(Generic[Config]):
  """The resolved settings of a run, with its folder and its model."""

  config: Config
  bert_config: modeling.BertConfig
  tokenizer: tokenization.FullTokenizer
  folder: RunFolder
  start: ModelFolder  # Without weights for random values.

  @classmethod
  def open(cls, config: Config) -> "Setup[Config]":
    """Opens the run's folder and model, and resolves the settings.

    Raises ValueError if they do not fit together.
    """
    if not (config.do_train or config.do_eval or config.do_predict):
      raise ValueError(
        "There is nothing to do. Set `do_train`, `do_eval` or `do_predict`."
      )
    folder = RunFolder(config.train.output_dir, config.task)
    start = ModelFolder.open(
      config.train.init_checkpoint,
      output_dir=folder.path,
      bert_config_file=config.bert_config_file,
      vocab_file=config.vocab_file,
    )
    config = start.resolve(config, config.task, folder.info, folder.path)
    train = dataclasses.replace(config.train, init_checkpoint=start.weights)
    config = dataclasses.replace(
      config,
      bert_config_file=start.config_file,
      vocab_file=start.needed_vocab(),
      train=train,
    )
    if (train.freeze_layers or 0) > start.config.num_hidden_layers:
      raise ValueError(
        f"freeze_layers {train.freeze_layers} exceeds num_hidden_layers "
        f"{start.config.num_hidden_layers} of {start.config_file}. Lower it."
      )
    tokenizer = start.make_tokenizer(config)
    return cls(config, start.config, tokenizer, folder, start)

  def saved_labels(self) -> run_info.LabelSpec | None:
    """Returns the labels in output_dir, else those of the model to start from.

    None if there are none for this task, or the run starts a new head.
    """
    if self.folder.labels or self.config.train.encoder_only:
      return self.folder.labels
    run = self.head_run
    spec = run.labels if run and run.task == self.config.task else None
    # The training examples have the names that LABEL_0 and so on stand for.
    names = spec.labels if spec and self.config.do_train else ()
    if names and names == hugging_face_config.numbered_labels(len(names)):
      return None
    if spec:
      logging.info("The labels come from %s.", self.head_path)
    hint = "; set `encoder_only` to start a new head"
    return spec and dataclasses.replace(spec, hint=hint)

  @property
  def head_path(self) -> str | None:
    """The LoRA adapter, else the weights; None for random values."""
    return self.config.train.lora_adapter or self.start.weights

  @functools.cached_property
  def head_run(self) -> run_info.RunInfo | None:
    """The run that trained the head; None if it is not known."""
    adapter = self.config.train.lora_adapter
    return adapters.find_run(adapter) if adapter else self.start.saved

  @functools.cached_property
  def head_shapes(self) -> Mapping[str, Sequence[int]]:
    """The shapes of the tensors in the file with the head, by name."""
    adapter = self.config.train.lora_adapter
    file = adapters.open_adapter(adapter) if adapter else self.start
    return file.shapes

  def takes_head(
    self, model: type[heads.HeadModel], labels: run_info.LabelSpec | None
  ) -> bool:
    """Returns whether a run of these labels keeps the head; logs the decision.

    Raises:
      ValueError: if the head has the same labels in another order, or if it
        cannot be kept and do_train is not set, so that no new one is trained.
    """
    train = self.config.train
    if not model.heads:
      return not train.encoder_only
    # The pooler's variables, for instance, are not in an adapter.
    missing = model.missing_variables({*self.head_shapes, *self.start.shapes})
    if train.encoder_only:
      reason: str | None = "`encoder_only` is set"
    elif missing:
      reason = f"it has no {missing[0]}"
    else:
      reason = self._find_difference(model.task, labels)
    if not reason:
      logging.info("The head comes from %s.", self.head_path)
      return True
    if not self.config.do_train:
      raise ValueError(
        f"{self.head_path} is not a trained model for {model.task}: {reason}. "
        "Set `do_train`, or give a model for this task."
      )
    log = logging.info if missing or train.encoder_only else logging.warning
    log("%s: the head is new, since %s.", self.head_path, reason)
    return False

  def _find_difference(
    self, task: str, labels: run_info.LabelSpec | None
  ) -> str | None:
    """Returns what the head was trained for, if not for a task and its labels.

    Ignores the case of labels, since MNLI models on Hugging Face use both.
    Raises ValueError for the same labels in another order.
    """
    run = self.head_run
    if run and run.task not in (task, "encoder"):
      return f"it was trained for {run.task}"
    if not labels:
      return None
    head_labels = run.labels if run else None
    if head_labels and head_labels.problem_type != labels.problem_type:
      return f"it was trained for {head_labels.problem_type}"
    num_outputs = self.head_shapes["output_weights"][0]
    if num_outputs != labels.num_outputs:
      return f"it has {num_outputs} labels, not {labels.num_outputs}"
    numbered = hugging_face_config.numbered_labels(len(labels.labels))
    if not head_labels or (numbered and head_labels.labels == numbered):
      logging.warning(
        f"{self.head_path} does not name the labels of its head, so they are "
        f"taken to be {messages.join_names(labels.labels)}."
      )
      return None
    ours = [*map(str.casefold, labels.labels)]
    theirs = [*map(str.casefold, head_labels.labels)]
    if ours == theirs:
      return None
    # Some GLUE tasks have ids as labels, for which Hugging Face's files have
    # names.
    are_ids = list(labels.labels) == [*map(str, range(len(labels.labels)))]
    if are_ids and hugging_face_config.is_weights(self.head_path or ""):
      return None
    names = messages.join_names(head_labels.labels)
    if sorted(ours) == sorted(theirs):
      raise ValueError(
        f"{self.head_path} was trained for the same labels in another order: "
        f"there {names}, here {messages.join_names(labels.labels)}. Set "
        "`encoder_only` to start a new head."
      )
    return f"it has the labels {names}"
