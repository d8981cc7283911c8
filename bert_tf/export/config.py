"""Settings of models that are exported, served or loaded for predictions.

Does not import TensorFlow, so that a command can show its flags at once.
"""

import dataclasses
import functools

from bert_tf import model_folder, settings
from bert_tf.tasks import config as task_config
from bert_tf.tasks import registry
from bert_tf.tasks.squad import config as squad_config

# Returns a field for a setting of SQuAD by name. Its default is None: the value
# in run.json.
_squad = functools.partial(
  settings.saved_setting, squad_config.SquadSettings, note="SQuAD only. "
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFiles:
  """The files of a model, whose flags are in cli/model_flags.py."""

  init_checkpoint: str  # A model's folder or a checkpoint.
  bert_config_file: str | None = None  # None for the one beside the weights.
  vocab_file: str | None = None  # None for the one beside the weights.

  def read(self) -> "model_folder.ModelFolder":
    """Reads the files, which imports TensorFlow; see `model_folder.read`."""
    return model_folder.read(
      self.init_checkpoint, self.bert_config_file, self.vocab_file
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
  do_lower_case: bool | None = settings.saved_setting(
    task_config.FineTuningConfig, "do_lower_case"
  )
  strip_accents: bool | None = settings.saved_setting(
    task_config.FineTuningConfig, "strip_accents"
  )
  max_seq_length: int | None = settings.data(
    None,
    "The maximum length of a text in word pieces. Default: all positions for "
    "pretraining; else what the model's run.json says, else 384 for squad, for "
    "an encoder what sentence-transformers' files say, else 128.",
    minimum=5,
    fallback=None,
    main=True,
  )
  pooling: str | None = settings.model(
    None,
    "For an encoder, how to pool the vectors of word pieces into one. Default: "
    "what sentence-transformers' files say, else mean.",
    choices=task_config.POOLINGS,
    fallback=None,
    main=True,
  )
  normalize: bool | None = settings.model(
    None,
    "For an encoder, whether to scale the vector of a text to length 1. "
    "Default: what sentence-transformers' files say, else False.",
    fallback=None,
  )
  top_k: int | None = settings.evaluation(
    None,
    "For a pre-trained model, the number of predictions for each [MASK].",
    minimum=1,
    fallback=5,
    main=True,
  )
  doc_stride: int | None = _squad("doc_stride")
  max_query_length: int | None = _squad("max_query_length")
  version_2_with_negative: bool | None = _squad("version_2_with_negative")
  n_best_size: int | None = _squad("n_best_size")
  max_answer_length: int | None = _squad("max_answer_length")
  null_score_diff_threshold: float | None = _squad("null_score_diff_threshold")

  def __post_init__(self) -> None:
    settings.check(self)


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
