"""Settings of question answering, without TensorFlow."""

import dataclasses
import functools
from typing import Any, ClassVar, TypeVar

from bert_tf import settings
from bert_tf.tasks import config

Settings = TypeVar("Settings", bound="SquadSettings")
Config = TypeVar("Config", bound="SquadConfig")

# A flag of the release of 2018.
_original = functools.partial(
  settings.setting, original=True, topic=settings.data
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadSettings(config.TaskSettings):
  """Sizes of the windows of a context, and how an answer is chosen.

  Sizes are in word pieces. A setting that the user does not give is None until
  it is resolved.
  """

  max_seq_length: int | None = _original(
    None,
    "The maximum length of a window in word pieces: question and context.",
    minimum=1,
    fallback=384,
    main=True,
  )
  doc_stride: int | None = _original(
    None,
    "The stride between the windows of a long context, in word pieces.",
    minimum=1,
    fallback=128,
  )
  max_query_length: int | None = _original(
    None,
    "The maximum length of a question in word pieces.",
    minimum=1,
    fallback=64,
  )
  n_best_size: int = _original(
    20,
    "How many starts, ends and answers to consider and to write.",
    minimum=1,
    topic=settings.evaluation,
  )
  max_answer_length: int = _original(
    30,
    "The maximum length of an answer in word pieces.",
    minimum=1,
    topic=settings.evaluation,
  )
  version_2_with_negative: bool | None = _original(
    None,
    "Whether some questions have no answer, as in SQuAD 2.0.",
    fallback=False,
    main=True,
  )
  null_score_diff_threshold: float = _original(
    0.0,
    'The prediction is "no answer" if its score exceeds the best answer\'s by '
    "more than this.",
    topic=settings.evaluation,
  )

  def resolved(
    self: Settings, folder: str, positions: int, labels: Any = None
  ) -> Settings:
    """Lowers the default of doc_stride to the room beside a question."""
    made = super().resolved(folder, positions)
    if self.doc_stride is None:
      assert made.max_seq_length and made.max_query_length and made.doc_stride
      room = made.max_seq_length - made.max_query_length - 3
      stride = max(1, min(made.doc_stride, room))
      made = dataclasses.replace(made, doc_stride=stride)
    return made


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadConfig(SquadSettings, config.FineTuningConfig):
  """Settings of `run_squad.py`. Its inputs are windows of contexts."""

  task: ClassVar[str] = "squad"

  # The scores are those of the predictions, so there is neither --do_eval nor
  # --eval_batch_size.
  do_eval: bool = False
  do_predict: bool = _original(
    False,
    "Whether to answer the questions of predict_file and to score the answers.",
    topic=settings.steps,
    main=True,
  )
  eval_batch_size: int = 8
  train_file: str | None = _original(
    None, "The SQuAD JSON file to train on.", main=True
  )
  predict_file: str | None = _original(
    None, "The SQuAD JSON file whose questions to answer.", main=True
  )
  verbose_logging: bool = _original(
    False, "Whether to log every fault in the data."
  )
  cut_padding: bool = settings.devices(
    False,
    "Whether to pad batches only to their longest window, which is faster. "
    "The original's softmax includes the padding, so scores differ slightly.",
  )

  def __post_init__(self) -> None:
    settings.check(self)
    object.__setattr__(self, "eval_batch_size", self.predict_batch_size)

  def resolved(
    self: Config, folder: str, positions: int, labels: Any = None
  ) -> Config:
    """Raises ValueError if the windows do not overlap or have no room."""
    made = super().resolved(folder, positions)
    assert made.max_seq_length and made.max_query_length and made.doc_stride
    room = made.max_seq_length - made.max_query_length - 3
    if not 0 < made.doc_stride <= room:
      raise ValueError(
        f"doc_stride {made.doc_stride} must be from 1 to {room}, the room that "
        f"max_seq_length {made.max_seq_length} leaves beside a question of "
        f"max_query_length {made.max_query_length}."
      )
    return made
