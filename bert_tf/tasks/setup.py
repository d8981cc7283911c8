"""What a run starts from: settings, folder, model and its head.

Heads of several tasks have the same variables: `output_weights` labels texts in
one model and words in another. The files beside a checkpoint name the task and
the labels of its head. A run keeps the head only if both match its own.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from absl import logging

from bert_tf import tokenization
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.checkpoint.run_folder import RunFolder
from bert_tf.files import errors, messages
from bert_tf.model import heads, hugging_face_config
from bert_tf.training import adapters

Config = TypeVar("Config", bound=Any)


@dataclasses.dataclass(frozen=True)
class Setup(Generic[Config]):
  """The resolved settings of a run, with its folder and its model."""

  config: Config
  folder: RunFolder
  start: ModelFolder  # Without weights for random values.

  @classmethod
  def open(cls, config: Config) -> "Setup[Config]":
    """Opens the run's folder and model, and resolves the settings.

    Raises ValueError if they do not fit together.
    """
    if not (config.do_train or config.do_eval or config.do_predict):
      raise ValueError(
        "There is nothing to do. Set a step, such as `do_train` or `do_eval`."
      )
    folder = RunFolder(config.train.output_dir, config.task)
    start = ModelFolder.open(
      config.train.init_checkpoint,
      output_dir=folder.path,
      bert_config_file=config.bert_config_file,
      vocab_file=config.vocab_file,
    )
    config = dataclasses.replace(
      config,
      bert_config_file=start.config_file,
      vocab_file=start.vocab_file,
      train=dataclasses.replace(config.train, init_checkpoint=start.weights),
    )
    return cls(config.resolve_for_run(start, folder), folder, start)

  @functools.cached_property
  def tokenizer(self) -> tokenization.FullTokenizer:
    """The tokenizer; raises ValueError without a vocabulary."""
    return self.start.make_tokenizer(self.config)

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

  def choose_head(
    self, model: type[heads.HeadModel], labels: run_info.LabelSpec | None
  ) -> Config:
    """Returns the config with encoder_only set if the run starts a new head.

    Raises:
      ValueError: if output_dir holds a run of another task, or if do_train is
        not set and there is no trained head of the task and its labels.
    """
    config = self.config
    if self.folder.is_begun:
      self._check_resumed(model)
      return config
    if self.head_path:
      encoder_only = not self._takes_head(model, labels)
      train = dataclasses.replace(config.train, encoder_only=encoder_only)
      return dataclasses.replace(config, train=train)
    if not config.do_train:
      raise ValueError(
        f"There is no trained model, since {self.folder.path} has no "
        "checkpoint. Set `do_train`, or `init_checkpoint` to a trained model."
      )
    logging.warning(
      "`init_checkpoint` is not set, so the whole model starts from RANDOM "
      "values instead of a pre-trained BERT."
    )
    return config

  def _check_resumed(self, model: type[heads.HeadModel]) -> None:
    """Raises ValueError if the newest checkpoint lacks the task's variables.

    Without a run.json, only the checkpoint tells the task. A damaged one is
    left to `restore`, which may take an older one.
    """
    path = str(checkpoints.find_latest(self.folder.path))
    with contextlib.suppress(errors.DamagedFileError):
      names = checkpoints.CheckpointReader(path).shapes
      if missing := model.missing_variables(names):
        raise ValueError(
          f"{self.folder.path} holds a run of another task: {path} has no "
          f"{missing[0]}. Choose another `output_dir`."
        )

  def _takes_head(
    self, model: type[heads.HeadModel], labels: run_info.LabelSpec | None
  ) -> bool:
    """Returns whether the run keeps the head; logs the decision."""
    encoder_only = self.config.train.encoder_only
    if not model.heads:
      return not encoder_only
    # The pooler's variables, for instance, are not in an adapter.
    missing = model.missing_variables({*self.head_shapes, *self.start.shapes})
    if encoder_only:
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
    log = logging.info if missing or encoder_only else logging.warning
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
    saved = run.labels if run else None
    if saved and saved.problem_type != labels.problem_type:
      return f"it was trained for {saved.problem_type}"
    num_outputs = self.head_shapes["output_weights"][0]
    if num_outputs != labels.num_outputs:
      return f"it has {num_outputs} labels, not {labels.num_outputs}"
    names = messages.join_names(labels.labels)
    numbered = hugging_face_config.numbered_labels(len(labels.labels))
    if not saved or (numbered and saved.labels == numbered):
      logging.warning(
        f"{self.head_path} does not name the labels of its head, so they are "
        f"taken to be {names}."
      )
      return None
    given, trained = (
      [*map(str.casefold, spec.labels)] for spec in (labels, saved)
    )
    # Some GLUE tasks have ids as labels, for which Hugging Face's files have
    # names.
    are_ids = list(labels.labels) == [*map(str, range(len(labels.labels)))]
    if given == trained or (
      are_ids and hugging_face_config.is_weights(self.head_path or "")
    ):
      return None
    trained_names = messages.join_names(saved.labels)
    if sorted(given) == sorted(trained):
      raise ValueError(
        f"{self.head_path} was trained for the same labels in another order: "
        f"there {trained_names}, here {names}. Set `encoder_only` to start a "
        "new head."
      )
    return f"it has the labels {trained_names}"
