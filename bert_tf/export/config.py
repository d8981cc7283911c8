"""Settings of models that are exported, served or loaded for predictions.

Does not import TensorFlow, so that a command can show its flags at once.
"""

import dataclasses
import functools

from bert_tf import settings
from bert_tf.tasks import registry
from bert_tf.tasks.squad import config as squad_config

_data = functools.partial(settings.setting, topic=settings.DATA)
_evaluation = functools.partial(settings.setting, topic=settings.EVALUATION)
_model = functools.partial(settings.setting, topic=settings.MODEL)
_output = functools.partial(settings.setting, topic=settings.OUTPUT)

# The vector of a text: the first is the default.
POOLINGS = ("mean", "cls", "max")

# Each function returns a field for a setting of one of these, by name. The
# field's default is None: the value in run.json.
_window, _decoding = (
  functools.partial(settings.saved_setting, config, note="SQuAD only. ")
  for config in (squad_config.WindowConfig, squad_config.DecodingConfig)
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
  """A checkpoint, and the settings for its inputs and answers.

  None for a setting stands for the value in the checkpoint's run.json, or else
  for the default that its help names.
  """

  init_checkpoint: str
  task: str | None = _model(
    None,
    "The task of the model: that of a head; encoder, with TF Hub's interface; "
    "or preprocessing, from texts to BERT's inputs. Default: the "
    "checkpoint's.",
    choices=registry.TASKS,
    main=True,
  )
  bert_config_file: str | None = None  # None for the one beside the checkpoint.
  vocab_file: str | None = None  # None for the one beside the checkpoint.
  do_lower_case: bool | None = _model(
    None,
    "Whether to lower-case texts. Default: the value in the model's run.json, "
    "else a guess from the vocabulary, else True.",
    fallback=True,
  )
  strip_accents: bool | None = _model(
    None,
    "Whether to strip accents. Default: the value in the model's run.json, "
    "else the same as do_lower_case.",
    fallback=None,
  )
  max_seq_length: int | None = _data(
    None,
    "Maximum word pieces of a text. Default: all positions for pretraining; "
    "for others the value in the model's run.json, else 384 for squad, the "
    "length in the files of sentence-transformers for an encoder and 128.",
    minimum=5,
    fallback=None,
    main=True,
  )
  pooling: str | None = _model(
    None,
    "encoder only. Vector of a text: from those of its word pieces. Default: "
    "as in the files of sentence-transformers, else mean.",
    choices=POOLINGS,
    fallback=None,
    main=True,
  )
  normalize: bool | None = _model(
    None,
    "encoder only. Whether to scale the vector of a text to length 1. Default: "
    "as in the files of sentence-transformers, else False.",
    fallback=None,
  )
  top_k: int | None = _evaluation(
    None,
    "Number of tokens for each [MASK], in pretraining only.",
    minimum=1,
    fallback=5,
    main=True,
  )
  doc_stride: int | None = _window("doc_stride")
  max_query_length: int | None = _window("max_query_length")
  version_2_with_negative: bool | None = _decoding("version_2_with_negative")
  n_best_size: int | None = _decoding("n_best_size")
  max_answer_length: int | None = _decoding("max_answer_length")
  null_score_diff_threshold: float | None = _decoding(
    "null_score_diff_threshold"
  )

  def __post_init__(self) -> None:
    settings.check(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig(ModelConfig):
  """A checkpoint, and the settings of the SavedModel to write."""

  export_dir: str = _output(
    help="Folder of the SavedModel, new or empty. TensorFlow Serving needs a "
    "version number, such as models/NAME/1.",
    writes="folder",
  )
  with_text: bool = _output(
    True,
    "Whether a model of the tasks classification and encoder also takes texts, "
    "with tensorflow-text's operations.",
    flag="text",
    main=True,
  )
  with_attention: bool = _output(
    False,
    "Whether a model with a head can return its attention for word-piece ids.",
    flag="attention",
    main=True,
  )
