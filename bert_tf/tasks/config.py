"""Settings that all fine-tuning tasks share, without TensorFlow."""

import dataclasses
from typing import ClassVar

from bert_tf import settings
from bert_tf.training import config as training_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig:
  """Settings shared by the fine-tuning scripts."""

  task: ClassVar[str]  # The value of `task` in run.json.

  # Files of the model. cli/model_flags.py makes their flags.
  bert_config_file: str
  vocab_file: str
  do_lower_case: bool | None = settings.setting(
    None,
    "Whether to lower-case the text, as uncased models need it. Default: what "
    "the model's run.json says, else what the vocabulary shows, else True.",
    original=True,
    fallback=True,
    topic=settings.MODEL,
  )
  max_seq_length: int | None = settings.setting(
    None,
    "The maximum length of an input in word pieces, with [CLS] and [SEP].",
    minimum=5,
    original=True,
    fallback=128,
    topic=settings.DATA,
    main=True,
  )
  do_train: bool = settings.setting(
    False, "Whether to train.", original=True, topic=settings.STEPS, main=True
  )
  do_eval: bool = settings.setting(
    False,
    "Whether to evaluate on the dev file.",
    original=True,
    topic=settings.STEPS,
    main=True,
  )
  do_predict: bool = settings.setting(
    False,
    "Whether to predict the test file.",
    original=True,
    topic=settings.STEPS,
    main=True,
  )
  eval_batch_size: int = settings.setting(
    8,
    "The number of inputs in an evaluation batch.",
    minimum=1,
    original=True,
    topic=settings.EVALUATION,
  )
  predict_batch_size: int = settings.setting(
    8,
    "The number of inputs in a prediction batch.",
    minimum=1,
    original=True,
    topic=settings.EVALUATION,
  )
  num_train_epochs: float = settings.setting(
    3.0,
    "The number of passes over the training file, which may be a fraction.",
    minimum=0.0,
    original=True,
    topic=settings.TRAINING,
    main=True,
  )
  warmup_proportion: float = settings.setting(
    0.1,
    "The fraction of steps during which the learning rate rises.",
    minimum=0.0,
    maximum=1.0,
    original=True,
    topic=settings.TRAINING,
  )
  strip_accents: bool | None = settings.setting(
    None,
    "Whether to strip accents. Default: what the model's run.json says, else "
    "the same as do_lower_case.",
    fallback=None,
    topic=settings.MODEL,
  )
  group_by_length: bool = settings.setting(
    False,
    "Whether training batches hold examples of similar length. This saves "
    "padding but mixes labels less.",
    topic=settings.DEVICES,
  )
  num_run_examples: int = settings.setting(
    3,
    "How many dev examples run.json and exports contain, so that users of the "
    "model can try it.",
    minimum=0,
    topic=settings.CHECKPOINTS,
  )
  train: training_config.FineTuningTrainConfig

  def __post_init__(self) -> None:
    settings.check(self)

  def idle_settings(self) -> dict[str, str]:
    """Settings without effect, which a user may not give.

    Returns what they do not apply to, such as "`processor`", by name.
    """
    return {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledConfig(FineTuningConfig):
  """Settings of tasks with a fixed set of labels."""

  class_weights: tuple[str, ...] = settings.setting(
    (),
    "The weight of each label in the training loss: a number for each label of "
    "label_map.json, comma-separated, or `balanced` for weights that are "
    "inversely proportional to the labels' frequencies. Evaluations do not use "
    "them. Default: the weights of the resumed run, else equal weights.",
    topic=settings.TRAINING,
  )
