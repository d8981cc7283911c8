"""Vectors of texts, computed by BERT without a head."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert_tf.tasks import base
from bert_tf.tasks.config import EncoderSettings
from bert_tf.tasks.rows import Answer, Row


class EncoderTask(base.Task[EncoderSettings]):
  """Computes a vector of a text: the pooled last layer.

  An answer has `embedding`, D numbers, and `num_tokens`, the word pieces with
  [CLS] and [SEP].
  """

  name = "encoder"
  outputs = ("sequence_output",)

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields the sequence of each text."""
    for row in rows:
      yield base.Inputs(
        [self.pack(self.tokenizer.tokenize_to_ids(row["text"]))]
      )

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the vector, of length 1 if the model's setting says so."""
    [sequence], [output] = inputs.sequences, outputs
    num_tokens = len(sequence.input_ids)
    vector = self.vector(output["sequence_output"][:num_tokens])
    return {"embedding": vector.tolist(), "num_tokens": num_tokens}

  def vector(
    self, vectors: np.ndarray, normalize: bool | None = None
  ) -> np.ndarray:
    """Pools the vectors of a text's word pieces, [F, D]; returns [D].

    `normalize` replaces the model's setting unless it is None.
    """
    vector = pool(vectors, self.settings.pooling or "mean")
    if self.settings.normalize if normalize is None else normalize:
      vector = vector / np.maximum(np.linalg.norm(vector), 1e-6)
    return vector


def pool(vectors: np.ndarray, pooling: str) -> np.ndarray:
  """Returns one vector for those of F word pieces, float32 [..., F, D].

  `pooling` is "cls", "mean" or "max"; "none" returns the vectors.
  """
  if pooling == "cls":
    return vectors[..., 0, :]
  if pooling == "mean":
    return vectors.mean(axis=-2)
  return vectors.max(axis=-2) if pooling == "max" else vectors
