"""Settings of models that are opened for predictions, features and scores.

Does not import TensorFlow, so that a command can show its flags at once.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from bert_tf import settings, task_registry
from bert_tf.tasks.config import (
  EncoderSettings,
  MaskedLmSettings,
  ModelFileSettings,
  TaskSettings,
)
from bert_tf.tasks.squad.config import SquadSettings

if TYPE_CHECKING:
  from bert_tf.checkpoint.model_folder import ModelFolder

# Return a field for a setting of a task by name. Its default is None: what the
# model's files say.
_shared, _encoder, _masked_lm, _squad = (
  functools.partial(settings.saved_setting, settings_class, note=note)
  for settings_class, note in (
    (TaskSettings, ""),
    (EncoderSettings, "For an encoder. "),
    (MaskedLmSettings, "For a pre-trained model. "),
    (SquadSettings, "SQuAD only. "),
  )
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFiles(ModelFileSettings):
  """A model and its files."""

  # A model's folder or a checkpoint. cli/model_flags.py makes its flags.
  init_checkpoint: str

  def open(self, **given: Any) -> "ModelFolder":
    """Opens the model with these settings; see `ModelFolder.open`."""
    from bert_tf.checkpoint.model_folder import ModelFolder  # Needs TensorFlow.

    return ModelFolder.open(
      self.init_checkpoint,
      bert_config_file=self.bert_config_file,
      vocab_file=self.vocab_file,
      **given,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(ModelFiles):
  """A checkpoint, and the settings for its inputs and answers.

  None for a setting stands for the value in the checkpoint's run.json, or else
  for the default that its help names.
  """

  task: str | None = settings.model(
    None,
    "The task of the model. encoder has TF Hub's interface and no head. "
    "Default: the checkpoint's.",
    choices=task_registry.TASKS,
    main=True,
  )
  do_lower_case: bool | None = _shared("do_lower_case")
  strip_accents: bool | None = _shared("strip_accents")
  max_seq_length: int | None = settings.data(
    None,
    "The maximum length of a text in word pieces. Default: all positions for "
    "pretraining; else what the model's run.json says, else 384 for squad, for "
    "an encoder what sentence-transformers' files say, else 128.",
    minimum=5,
    fallback=None,
    main=True,
  )
  pooling: str | None = _encoder("pooling", main=True)
  normalize: bool | None = _encoder("normalize")
  top_k: int | None = _masked_lm("top_k", main=True)
  doc_stride: int | None = _squad("doc_stride")
  max_query_length: int | None = _squad("max_query_length")
  version_2_with_negative: bool | None = _squad("version_2_with_negative")
  n_best_size: int | None = _squad("n_best_size")
  max_answer_length: int | None = _squad("max_answer_length")
  null_score_diff_threshold: float | None = _squad("null_score_diff_threshold")

  def __post_init__(self) -> None:
    settings.check(self)

  def open(self, **given: Any) -> "ModelFolder":
    """Opens the model with the settings of this config."""
    names = {*ModelConfig.__dataclass_fields__}
    names -= {*ModelFiles.__dataclass_fields__}
    return super().open(**{n: getattr(self, n) for n in names}, **given)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtractionConfig(ModelFiles):
  """The model and the features of `bert-tf extract-features`.

  The fields beside the files are arguments of FeatureExtractor.
  """

  layers: tuple[int, ...] = settings.model(
    (-1, -2, -3, -4),
    "The encoder layers, comma-separated; 0 is the first and -1 the last.",
    original=True,
    main=True,
  )
  do_lower_case: bool | None = settings.model(
    None,
    "Whether to lower-case texts. Default: what the model's run.json says, "
    "else what the vocabulary shows, else True.",
    original=True,
    fallback=True,
  )
  max_seq_length: int = settings.data(
    128,
    "The maximum length of a text or pair in word pieces.",
    original=True,
    minimum=3,  # [CLS] and two [SEP].
    main=True,
  )
  batch_size: int = settings.devices(
    32, "The number of texts in a batch.", original=True, minimum=1, main=True
  )
  use_one_hot_embeddings: bool = settings.devices(
    False,
    "Whether to look up word embeddings by a matmul, for TPUs.",
    original=True,
  )
  pooling: str = settings.output(
    "none",
    "Which vectors each layer gives: none, of all tokens; cls, of [CLS]; mean "
    "or max, over all tokens with [CLS] and [SEP].",
    choices=("none", "cls", "mean", "max"),
    main=True,
  )

  def __post_init__(self) -> None:
    settings.check(self)
    if not self.layers:
      raise ValueError("layers is empty; give one or more, such as -1.")
