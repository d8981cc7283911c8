"""Settings of question answering, without TensorFlow."""

import dataclasses
from typing import ClassVar

from bert_tf import settings
from bert_tf.tasks import config


@dataclasses.dataclass(frozen=True)
class WindowConfig:
  """Sizes of the windows of a context, in word pieces.

  A size that the user does not give is None until `settings.resolve`.
  """

  max_seq_length: int = settings.setting(
    None,
    "The maximum length of a window in word pieces: question and context.",
    minimum=1,
    original=True,
    fallback=384,
    topic=settings.DATA,
    main=True,
  )
  doc_stride: int = settings.setting(
    None,
    "The stride between the windows of a long context, in word pieces.",
    minimum=1,
    original=True,
    fallback=128,
    topic=settings.DATA,
  )
  max_query_length: int = settings.setting(
    None,
    "The maximum length of a question in word pieces.",
    minimum=1,
    original=True,
    fallback=64,
    topic=settings.DATA,
  )

  def __post_init__(self) -> None:
    """Raises ValueError unless a window has room for the stride."""
    if None in dataclasses.astuple(self):
      return
    window = self.max_seq_length - self.max_query_length - 3
    if not 0 < self.doc_stride <= window:
      raise ValueError(
        f"doc_stride {self.doc_stride} is not from 1 to {window}, the room of "
        f"max_seq_length {self.max_seq_length} beside a question of "
        f"max_query_length {self.max_query_length}."
      )


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
  """Settings for the choice of answers.

  version_2_with_negative is None until `settings.resolve` if the user does not
  give it.
  """

  n_best_size: int = settings.setting(
    20,
    "How many starts, ends and answers to consider and to write.",
    minimum=1,
    original=True,
    topic=settings.EVALUATION,
  )
  max_answer_length: int = settings.setting(
    30,
    "The maximum length of an answer in word pieces.",
    minimum=1,
    original=True,
    topic=settings.EVALUATION,
  )
  version_2_with_negative: bool = settings.setting(
    None,
    "Whether some questions have no answer, as in SQuAD 2.0.",
    original=True,
    fallback=False,
    topic=settings.DATA,
    main=True,
  )
  null_score_diff_threshold: float = settings.setting(
    0.0,
    'The prediction is "no answer" if its score exceeds the best answer\'s by '
    "more than this.",
    original=True,
    topic=settings.EVALUATION,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadConfig(WindowConfig, DecodingConfig, config.FineTuningConfig):
  """Settings of `run_squad.py`. Its inputs are windows of contexts."""

  task: ClassVar[str] = "squad"

  # The scores are those of the predictions, so there is neither --do_eval nor
  # --eval_batch_size.
  do_eval: bool = False
  do_predict: bool = settings.setting(
    False,
    "Whether to answer the questions of predict_file and to score the answers.",
    original=True,
    topic=settings.STEPS,
    main=True,
  )
  eval_batch_size: int = 8
  train_file: str | None = settings.setting(
    None,
    "The SQuAD JSON file to train on.",
    original=True,
    topic=settings.DATA,
    main=True,
  )
  predict_file: str | None = settings.setting(
    None,
    "The SQuAD JSON file whose questions to answer.",
    original=True,
    topic=settings.DATA,
    main=True,
  )
  verbose_logging: bool = settings.setting(
    False,
    "Whether to log every fault in the data.",
    original=True,
    topic=settings.DATA,
  )
  cut_padding: bool = settings.setting(
    False,
    "Whether to pad batches only to their longest window, which is faster. "
    "The original's softmax includes the padding, so scores differ slightly.",
    topic=settings.DEVICES,
  )

  def __post_init__(self) -> None:
    """Raises ValueError for values that a setting does not allow."""
    settings.check(self)  # WindowConfig checks sizes once they are resolved.
    object.__setattr__(self, "eval_batch_size", self.predict_batch_size)
