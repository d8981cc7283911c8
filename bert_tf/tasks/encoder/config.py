"""Settings of `bert-tf vectors`, without TensorFlow."""

import dataclasses
from typing import ClassVar

from bert_tf import settings
from bert_tf.tasks.config import EncoderSettings, FineTuningConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorsConfig(EncoderSettings, FineTuningConfig):
  """Settings of `bert-tf vectors`."""

  task: ClassVar[str] = "encoder"

  data_file: str = settings.data(
    help="A file of text pairs (.csv, .tsv, .jsonl or .parquet). The texts of "
    "a pair belong together, such as a question and its answer, unless "
    "score_column says how similar they are.",
    reads="file",
    main=True,
  )
  dev_file: str | None = settings.data(
    None,
    "A file of pairs to evaluate on. Default: a part of data_file.",
    reads="file",
  )
  eval_fraction: float = settings.data(
    0.1,
    "The fraction of the first texts of data_file to evaluate on without a "
    "dev_file. It depends on the texts alone, so it is the same in every run.",
    minimum=0.0,
    maximum=0.9,
    main=True,
  )
  text_a_column: str = settings.data(
    "text",
    "The column of the first text: its name, or its number from 0.",
    main=True,
  )
  text_b_column: str = settings.data(
    "text_b", "The column of the second text.", main=True
  )
  negative_column: str | None = settings.data(
    None,
    "The column of a text that does not belong to the first, although it looks "
    "like it (a hard negative).",
  )
  score_column: str | None = settings.data(
    None,
    "The column of a number that says how similar both texts are. The cosine "
    "of the vectors is then trained to be this number.",
    main=True,
  )
  max_score: float = settings.data(
    1.0,
    "The score of texts with the same meaning, such as 5 in STS-B. Scores are "
    "divided by it.",
    minimum=0.0,
  )
  similarity_scale: float = settings.training(
    20.0,
    "Without scores, the factor of the cosines in the softmax over the batch.",
    minimum=0.0,
  )
  is_symmetric: bool = settings.training(
    False,
    "Without scores, whether the second text of a pair is also to find the "
    "first one.",
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.score_column and self.negative_column:
      raise ValueError("Give either `score_column` or `negative_column`.")
    if self.train.gradient_accumulation_steps > 1 and not self.score_column:
      raise ValueError(
        "Without `score_column`, the texts of a batch are compared with each "
        "other, so it cannot be computed in parts. Leave out "
        "`gradient_accumulation_steps`; `recompute` saves memory as well."
      )

  def idle_settings(self) -> dict[str, str]:
    """Settings without effect, and what they do not apply to."""
    idle = {"max_score": "pairs without `score_column`"}
    if self.score_column:
      names = ("similarity_scale", "is_symmetric")
      idle = dict.fromkeys(names, "`score_column`")
    return idle | ({"eval_fraction": "`dev_file`"} if self.dev_file else {})
