"""Settings of models that are exported, served or loaded for predictions.

Does not import TensorFlow, so that a command can show its flags at once.
"""

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from bert_tf import settings
from bert_tf.tasks import config as task_config
from bert_tf.tasks import registry
from bert_tf.tasks.squad import config as squad_config

if TYPE_CHECKING:
  from bert_tf.model_folder.folder import ModelFolder

# Return a field for a setting of a task by name. Its default is None: what the
# model's files say.
_shared, _encoder, _masked_lm, _squad = (
  functools.partial(settings.saved_setting, kind, note=note)
  for kind, note in (
    (task_config.TaskSettings, ""),
    (task_config.EncoderSettings, "For an encoder. "),
    (task_config.MaskedLmSettings, "For a pre-trained model. "),
    (squad_config.SquadSettings, "SQuAD only. "),
  )
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFiles:
  """The files of a model, whose flags are in cli/model_flags.py."""

  init_checkpoint: str  # A model's folder or a checkpoint.
  bert_config_file: str | None = None  # None for the one beside the weights.
  vocab_file: str | None = None  # None for the one beside the weights.

  def open(self, **given: Any) -> "ModelFolder":
    """Opens the model with these settings; see `ModelFolder.open`."""
    from bert_tf.model_folder.folder import ModelFolder  # Needs TensorFlow.

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
    "The task of the model. encoder has TF Hub's interface and no head, and "
    "preprocessing turns texts into BERT's inputs. Default: the checkpoint's.",
    choices=registry.TASKS,
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
class ExportConfig(ModelConfig):
  """A checkpoint, and the settings of the SavedModel to write."""

  export_dir: str = settings.output(
    help="The new or empty folder for the SavedModel. TensorFlow Serving needs "
    "a version number at its end, such as models/NAME/1.",
    writes="folder",
  )
  with_text: bool = settings.output(
    True,
    "Whether a classifier or an encoder takes texts as well as ids, by "
    "operations of tensorflow-text.",
    flag="text",
    main=True,
  )
  with_attention: bool = settings.output(
    False,
    "Whether a model with a head can return its attention.",
    flag="attention",
    main=True,
  )
