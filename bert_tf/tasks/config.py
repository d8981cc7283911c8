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
    "Whether to lower-case the text: true for uncased models, false for cased "
    "models. Default: the value in the model's run.json, else a guess from the "
    "vocabulary, else True.",
    original=True,
    fallback=True,
    topic=settings.MODEL,
  )
  max_seq_length: int | None = settings.setting(
    None,
    "Maximum word pieces of an input, with [CLS] and [SEP].",
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
    "Inputs in an evaluation batch.",
    minimum=1,
    original=True,
    topic=settings.EVALUATION,
  )
  predict_batch_size: int = settings.setting(
    8,
    "Inputs in a prediction batch.",
    minimum=1,
    original=True,
    topic=settings.EVALUATION,
  )
  num_train_epochs: float = settings.setting(
    3.0,
    "Number of passes over the training file; may be a fraction.",
    minimum=0.0,
    original=True,
    topic=settings.TRAINING,
    main=True,
  )
  warmup_proportion: float = settings.setting(
    0.1,
    "Share of the steps during which the learning rate rises.",
    minimum=0.0,
    maximum=1.0,
    original=True,
    topic=settings.TRAINING,
  )
  strip_accents: bool | None = settings.setting(
    None,
    "Whether to strip accents. Default: the value in the model's run.json, "
    "else the same as do_lower_case.",
    fallback=None,
    topic=settings.MODEL,
  )
  group_by_length: bool = settings.setting(
    False,
    "Whether training batches hold examples of similar length, which saves "
    "padding but mixes labels less.",
    topic=settings.DEVICES,
  )
  num_run_examples: int = settings.setting(
    3,
    "Number of dev examples to store in run.json, so that users of the model "
    "can try it. Exports contain them too.",
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
    "The weight of each label in the training loss: `balanced` for weights "
    "that are inversely proportional to the labels' frequencies, or a number "
    "for each label of label_map.json, separated by commas. Default: the "
    "weights of the resumed run, else equal weights. Evaluations do not use "
    "them.",
    topic=settings.TRAINING,
  )
