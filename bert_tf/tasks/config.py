"""Settings that all fine-tuning tasks share, without TensorFlow."""

import dataclasses
from typing import Any, ClassVar, TypeVar

from bert_tf import settings
from bert_tf.checkpoint import sentence_transformers
from bert_tf.training.config import FineTuningTrainConfig

Settings = TypeVar("Settings", bound="TaskSettings")
Config = TypeVar("Config", bound="FineTuningConfig")

# The vector of a text: the first is the default.
POOLINGS = ("mean", "cls", "max")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSettings:
  """Settings of a task's inputs and answers, which run.json keeps.

  A setting that the user does not give is None until it is resolved.
  """

  do_lower_case: bool | None = settings.model(
    None,
    "Whether to lower-case the text, as uncased models need it. Default: what "
    "the model's run.json says, else what the vocabulary shows, else True.",
    original=True,
    fallback=None,
  )
  strip_accents: bool | None = settings.model(
    None,
    "Whether to strip accents. Default: what the model's run.json says, else "
    "the same as do_lower_case.",
    fallback=None,
  )
  max_seq_length: int | None = settings.data(
    None,
    "The maximum length of an input in word pieces, with [CLS] and [SEP].",
    minimum=5,
    original=True,
    fallback=128,
    main=True,
  )

  def __post_init__(self) -> None:
    settings.check(self)

  def resolved(
    self: Settings, folder: str, positions: int, labels: Any = None
  ) -> Settings:
    """Returns the settings with a value for each that is still open.

    Here are the values that follow from the model and from other settings.

    Args:
      folder: the folder of the model.
      positions: the number of positions of the model, its longest input.
      labels: the run_info.LabelSpec of the task, if it is known.
    """
    made = settings.with_defaults(self)
    if self.max_seq_length is None:
      length = min(made.max_seq_length or positions, positions)
      made = dataclasses.replace(made, max_seq_length=length)
    return made


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderSettings(TaskSettings):
  """Settings of an encoder, which computes a vector for each text."""

  max_seq_length: int | None = settings.data(
    None,
    "The maximum length of a text in word pieces. Default: what "
    "sentence-transformers' files say, else 128.",
    minimum=3,  # [CLS] and two [SEP].
    fallback=128,
    main=True,
  )
  pooling: str | None = settings.model(
    None,
    "How to pool the vectors of word pieces into one. Default: what "
    "sentence-transformers' files say, else mean.",
    choices=POOLINGS,
    fallback=POOLINGS[0],
    main=True,
  )
  normalize: bool | None = settings.model(
    None,
    "Whether to scale the vector of a text to length 1. Default: what "
    "sentence-transformers' files say, else False.",
    fallback=False,
  )

  def resolved(
    self: "EncoderSettings", folder: str, positions: int, labels: Any = None
  ) -> "EncoderSettings":
    """Reads the files of sentence-transformers, unless `pooling` is known."""
    made = self
    saved = self.pooling is None and sentence_transformers.read_settings(folder)
    if saved:
      length = min(saved.max_seq_length or positions, positions)
      values = {**vars(saved), "max_seq_length": length}
      made = settings.fill(self, values, folder)
    return super(EncoderSettings, made).resolved(folder, positions)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedLmSettings(TaskSettings):
  """Settings of a pre-trained model, which predicts masked words."""

  # A model reads texts that fill its positions, whatever it was trained on.
  max_seq_length: int | None = settings.data(
    None,
    "The maximum length of a text in word pieces. Default: all positions.",
    minimum=5,
    fallback=None,
    main=True,
  )
  top_k: int | None = settings.evaluation(
    None,
    "The number of predictions for each [MASK].",
    minimum=1,
    fallback=5,
    main=True,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFileSettings:
  """The files of a model if they are not in its folder.

  A training without these and without init_checkpoint takes those of the run in
  its output_dir.
  """

  bert_config_file: str | None = settings.model(
    None,
    "The model's sizes. Default: bert_config.json next to the checkpoint.",
    original=True,
    reads="file",
  )
  vocab_file: str | None = settings.model(
    None,
    "The model's vocabulary. Default: vocab.txt next to the checkpoint.",
    original=True,
    reads="file",
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig(TaskSettings, ModelFileSettings):
  """Settings shared by the fine-tuning scripts."""

  task: ClassVar[str]  # The value of `task` in run.json.

  do_train: bool = settings.steps(
    False, "Whether to train.", original=True, main=True
  )
  do_eval: bool = settings.steps(
    False, "Whether to evaluate on the dev file.", original=True, main=True
  )
  do_predict: bool = settings.steps(
    False, "Whether to predict the test file.", original=True, main=True
  )
  eval_batch_size: int = settings.evaluation(
    8, "The number of inputs in an evaluation batch.", minimum=1, original=True
  )
  predict_batch_size: int = settings.evaluation(
    8, "The number of inputs in a prediction batch.", minimum=1, original=True
  )
  num_train_epochs: float = settings.training(
    3.0,
    "The number of passes over the training file, which may be a fraction.",
    minimum=0.0,
    original=True,
    main=True,
  )
  warmup_proportion: float = settings.training(
    0.1,
    "The fraction of steps during which the learning rate rises.",
    minimum=0.0,
    maximum=1.0,
    original=True,
  )
  group_by_length: bool = settings.devices(
    False,
    "Whether training batches hold examples of similar length. This saves "
    "padding but mixes labels less.",
  )
  num_run_examples: int = settings.checkpoints(
    3,
    "How many dev examples run.json and exports contain, so that users of the "
    "model can try it.",
    minimum=0,
  )
  train: FineTuningTrainConfig

  def resolve_for_run(self: Config, start: Any, folder: Any) -> Config:
    """Returns the settings with a value for each that is still open.

    Args:
      start: the ModelFolder of the model that the run starts from.
      folder: the RunFolder of the run.

    Raises:
      ValueError: if the settings do not fit the model.
    """
    num_layers = start.config.num_hidden_layers
    if (self.train.freeze_layers or 0) > num_layers:
      raise ValueError(
        f"freeze_layers {self.train.freeze_layers} exceeds num_hidden_layers "
        f"{num_layers} of {start.config_file}. Lower it."
      )
    config: Config = start.resolve(self, self.task, folder.info, folder.path)
    return config

  def idle_settings(self) -> dict[str, str]:
    """Settings without effect, which a user may not give.

    Returns what they do not apply to, such as "`processor`", by name.
    """
    return {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledConfig(FineTuningConfig):
  """Settings of tasks with a fixed set of labels."""

  class_weights: tuple[str, ...] = settings.training(
    (),
    "The weight of each label in the training loss: a number for each label of "
    "label_map.json, comma-separated, or `balanced` for weights that are "
    "inversely proportional to the labels' frequencies. Evaluations do not use "
    "them. Default: the weights of the resumed run, else equal weights.",
  )
