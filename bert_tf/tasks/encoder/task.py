"""Vectors of texts, computed by BERT without a head, and their training.

Texts that belong together get similar vectors: among the texts of a batch, a
text is to find its own partner (in-batch negatives: Henderson et al. 2017,
arXiv 1705.00652; Reimers and Gurevych 2019, arXiv 1908.10084). With a score
for each pair, the cosine of its vectors is to be the score.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf.files import tables
from bert_tf.model import heads, losses
from bert_tf.model.losses import cross_entropy
from bert_tf.model.tensor import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.classification.metrics import METRICS
from bert_tf.tasks.classification.sources import read_number
from bert_tf.tasks.config import EncoderSettings
from bert_tf.tasks.rows import Answer, Results, Row, hold_out_texts

# A pair and a hard negative.
PAIR_FIELDS = ("text", "text_b", "negative")


class EncoderTask(base.Task[EncoderSettings]):
  """Computes a vector of a text: the pooled last layer.

  An answer has `embedding`, D numbers, and `num_tokens`, the word pieces with
  [CLS] and [SEP].

  A row to train or evaluate on has `text`, `text_b`, and possibly `negative`, a
  text that does not belong to the first, or `label`, the similarity of both
  texts from -1 to 1. Its answer has the `similarity` and the `embeddings`.
  """

  name = "encoder"
  outputs = ("sequence_output",)
  has_loss = False  # It depends on what else is in a batch.
  loss_name = "vector_loss"

  @property
  def model(self) -> type[heads.HeadModel]:
    """The class of the model to train."""
    return heads.VectorModel

  @property
  def metrics(self) -> tuple[str, ...]:
    """Names of the results."""
    if self.config.score_column:
      return ("spearman", "pearson")
    return ("mrr", "recall_at_1", "recall_at_10")

  @property
  def files(self) -> Mapping[str, base.SplitFile]:
    """The file of each split."""
    config = self.config
    held_out = config.data_file if config.eval_fraction else None
    dev = base.SplitFile(config.dev_file or held_out, "dev_file")
    train = base.SplitFile(config.data_file, "data_file")
    return {"train": train, "dev": dev, "test": dev}

  def read(self, split: str) -> Sequence[Row]:
    """Reads the pairs of a split."""
    config, path = self.config, self.files[split].path or ""
    file_format = path.rpartition(".")[2]
    names = [
      f"{name}_column" for name in ("text_a", "text_b", "negative", "score")
    ]
    columns = tables.parse_columns(
      file_format, [getattr(config, name) for name in names]
    )
    *texts, score = columns
    named = {c: n for c, n in zip(columns, names) if c is not None}

    def convert(line: int, row: tables.Row) -> Row:
      pair: Row = {"id": f"{split}-{line}"}
      for field, column in zip(PAIR_FIELDS, texts):
        if column is not None:
          pair[field] = tables.get_text(row, column)
      if score is None:
        return pair
      return self.add_label(pair, tables.get_cell(row, score), split)

    table = tables.Table(path, file_format, [*named], named)
    rows = list(tables.read(table, convert))
    if not config.dev_file:
      held_out = {*hold_out_texts(rows, config.eval_fraction)}
      is_dev = split != "train"
      rows = [row for i, row in enumerate(rows) if (i in held_out) == is_dev]
    if len(rows) < 2:
      raise ValueError(f"{path} has {len(rows)} pairs for {split}; give more.")
    return rows

  def add_label(self, row: Row, label: Any, split: str) -> Row:
    """Adds the similarity of both texts; None if they belong together."""
    if label is None:
      return row
    largest = self.config.max_score
    return {**row, "label": read_number(label, -largest, largest) / largest}

  def infer(self, rows: Sequence[Row], source: str) -> "EncoderTask":
    """Returns the task for pairs with scores if these rows in memory are so."""
    if self.config.score_column or rows[0].get("label") is None:
      return self
    config = dataclasses.replace(self.config, score_column="label")
    return dataclasses.replace(self, config=config)

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields the sequence of each text, or those of each pair."""
    for row in rows:
      names = [name for name in PAIR_FIELDS if name in row]
      ids = [self.tokenize(row[name]) for name in names]
      yield base.Inputs(
        [self.pack(each) for each in ids],
        is_one_record=len(names) > 1,
        is_cut=any(map(self.is_cut, ids)),
      )

  def targets(self, row: Row, inputs: base.Inputs) -> Iterable[base.Features]:
    """Yields the score of a pair, if it has one."""
    label = row.get("label")
    scores = {"label_scores": np.array([label], np.float32)}
    yield {} if label is None else scores

  def compute_losses(
    self, outputs: heads.VectorOutput, features: losses.Features
  ) -> tuple[Tensor, None]:
    """Returns the loss of each pair, float32 [B]."""
    hidden, mask = outputs.sequence_output, features["input_mask"]
    vectors = heads.pool_vectors(hidden, mask, self.settings.pooling or "mean")
    vectors = ops.normalize(vectors, axis=-1, epsilon=1e-12)
    if "label_scores" in features:
      cosines = ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1)
      return ops.square(cosines - features["label_scores"][:, 0]), None
    context = tf.distribute.get_replica_context()
    if context and context.num_replicas_in_sync > 1:
      raise ValueError(
        "Without `score_column`, the texts of a whole batch are compared with "
        "each other, which one device has to do. Set `distribution=one`."
      )
    ids = features["input_ids"]  # [B, C, F]
    first_ids, texts, partners = ids[:, 0], vectors[:, 0], vectors[:, 1]
    # All second texts of the batch, and then all negatives.
    candidates, candidate_ids = (
      ops.concatenate([values[:, i] for i in range(1, values.shape[1])])
      for values in (vectors, ids)
    )
    values = self._match(texts, candidates, candidate_ids)
    if self.config.is_symmetric:
      values = (values + self._match(partners, texts, first_ids)) / 2
    return values, None

  def _match(self, texts: Tensor, candidates: Tensor, ids: Tensor) -> Tensor:
    """Returns -log of the probability that texts find their candidates.

    The candidate of a text, [B, D], has its index among all, [N, D]. Copies of
    it, which have the same ids, [N, F], do not count.
    """
    cosines = ops.matmul(texts, ops.transpose(candidates))
    labels = ops.arange(ops.shape(texts)[0])
    own_ids = ops.take(ids, labels, axis=0)
    is_copy = ops.all(ops.equal(own_ids[:, None], ids[None]), axis=-1)
    is_own = ops.equal(labels[:, None], ops.arange(ops.shape(ids)[0])[None])
    is_other_copy = ops.logical_and(is_copy, ops.logical_not(is_own))
    logits = cosines * self.config.similarity_scale
    return cross_entropy(ops.where(is_other_copy, -1e9, logits), labels)

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the vector, of length 1 if the model's setting says so."""
    lengths = [len(sequence.input_ids) for sequence in inputs.sequences]
    hidden = [output["sequence_output"] for output in outputs]
    if not inputs.is_one_record:
      vector = self.vector(hidden[0][: lengths[0]])
      return {"embedding": vector.tolist(), "num_tokens": lengths[0]}
    vectors = [
      self.vector(record[0, :length], normalize=True)
      for record, length in zip(hidden, lengths)
    ]
    similarity = float(vectors[0] @ vectors[1])
    return {"similarity": similarity, "embeddings": np.stack(vectors)}

  def vector(
    self, vectors: np.ndarray, normalize: bool | None = None
  ) -> np.ndarray:
    """Pools the vectors of a text's word pieces, [F, D]; returns [D].

    `normalize` replaces the model's setting unless it is None.
    """
    vector = pool_vectors(vectors, self.settings.pooling or "mean")
    if self.settings.normalize if normalize is None else normalize:
      vector = vector / np.maximum(np.linalg.norm(vector), 1e-6)
    return vector

  def score(self, rows: Sequence[Row], answers: Sequence[Answer]) -> Results:
    """Returns the correlations with the scores, or how well texts are found."""
    labels = [row.get("label") for row in rows]
    if None not in labels:
      cosines = [answer["similarity"] for answer in answers]
      names = ("spearman", "pearson")
      return {name: float(METRICS[name](labels, cosines)) for name in names}
    vectors = np.stack([answer["embeddings"][:2] for answer in answers])
    ranks = find_ranks(vectors[:, 0], vectors[:, 1])
    return {
      "mrr": float(np.mean(1 / ranks)),
      "recall_at_1": float(np.mean(ranks <= 1)),
      "recall_at_10": float(np.mean(ranks <= 10)),
    }


def pool_vectors(vectors: np.ndarray, pooling: str) -> np.ndarray:
  """Returns one vector for those of F word pieces, float32 [..., F, D].

  `pooling` is "cls", "mean" or "max"; "none" returns the vectors.
  """
  if pooling == "cls":
    return vectors[..., 0, :]
  if pooling == "mean":
    return vectors.mean(axis=-2)
  return vectors.max(axis=-2) if pooling == "max" else vectors


def find_ranks(texts: np.ndarray, partners: np.ndarray) -> np.ndarray:
  """Returns the rank of each text's partner among all partners, from 1.

  The vectors are float [N, D], of length 1. A partner ranks below the others
  that are more similar to the text; equal ones, such as copies, do not count.
  """
  ranks = []
  for start in range(0, len(texts), 1024):  # All at once may be too large.
    cosines = texts[start : start + 1024] @ partners.T
    own = np.diagonal(cosines, start)[:, None]
    # Equal texts of different batches may differ by rounding.
    ranks.append(1 + np.sum(cosines > own + 1e-6, axis=1))
  return np.concatenate(ranks)
