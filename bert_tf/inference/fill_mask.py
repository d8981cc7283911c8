"""Predicts the words behind [MASK] with a pre-trained model.

filler = fill_mask.MaskFiller(
  "uncased/bert_config.json", "uncased/vocab.txt", "uncased/bert_model.ckpt"
)
filler.fill(["The capital of France is [MASK]."])[0][0][0].token
"""

import dataclasses
from collections.abc import Sequence

from bert_tf import tokenization
from bert_tf.export import config as configs
from bert_tf.inference import predictor


@dataclasses.dataclass(frozen=True)
class Prediction:
  """One word piece that may stand behind a mask.

  Attributes:
    token: the word piece.
    probability: in [0, 1], over the whole vocabulary.
  """

  token: str
  probability: float


class MaskFiller:
  """A pre-trained model, loaded once, that fills masks.

  Args:
    bert_config_file: the model's sizes; None for those beside the checkpoint.
    vocab_file: the model's vocabulary; None for that beside the checkpoint.
    init_checkpoint: prefix of a checkpoint with the masked-LM head, folder of
      a run, or a SavedModel.
    do_lower_case: whether texts are lower-cased; None for what run.json says,
      else what the vocabulary shows.
    top_k: number of predictions for each mask; a SavedModel has its own.

  Raises:
    ValueError: if files are missing or do not fit one another.
  """

  def __init__(
    self,
    bert_config_file: str | None,
    vocab_file: str | None,
    init_checkpoint: str,
    do_lower_case: bool | None = None,
    top_k: int = 5,
  ) -> None:
    self._predictor = predictor.Predictor(
      configs.ModelConfig(
        init_checkpoint=init_checkpoint,
        task="pretraining",
        bert_config_file=bert_config_file,
        vocab_file=vocab_file,
        do_lower_case=do_lower_case,
        top_k=top_k,
      )
    )

  def fill(self, texts: Sequence[str]) -> list[list[list[Prediction]]]:
    """Returns, for each text and each of its masks, the best predictions.

    Args:
      texts: each with at least one "[MASK]".

    Raises:
      ValueError: if a text has no mask or is longer than the model's input.
    """
    for text in texts:
      if tokenization.MASK not in text:
        raise ValueError(
          f"no {tokenization.MASK} in {text!r}; write it where a word is asked."
        )
    return [
      [[Prediction(**found) for found in mask] for mask in answer["masks"]]
      for answer in self._predictor.predict(texts)
    ]
