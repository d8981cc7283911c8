"""Vectors of texts, computed by BERT without a head, and their training.

Texts that belong together get similar vectors: among the texts of a batch, a
text is to find its own partner (in-batch negatives: Henderson et al. 2017,
arXiv 1705.00652; Reimers and Gurevych 2019, arXiv 1908.10084). With a score
for each pair, the cosine of its vectors is to be the score.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf.files import json_files, tables
from bert_tf.model import heads, losses
from bert_tf.model.losses import cross_entropy
from bert_tf.model.tensor import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.config import EncoderSettings
from bert_tf.tasks.rows import Answer, Results, Row
from bert_tf.training import results

# Logits of texts that are no negatives of another one.
_EXCLUDED = -1e9
# Number of texts that are compared with all others at a time.
_BLOCK_SIZE = 1024


class EncoderTask(base.Task[EncoderSettings]):
  """Computes a vector of a text: the pooled last layer.

  An answer has `embedding`, D numbers, and `num_tokens`, the word pieces with
  [CLS] and [SEP].

  A row to train or evaluate on has `text`, `text_b`, and possibly `negative`, a
  text that does not belong to the first, or `label`, the similarity of both
  texts from -1 to 1. Its answer has the `similarity` and the `vectors`.
  """

  name = "encoder"
  outputs = ("sequence_output",)
  has_loss = False  # It depends on what else is in a batch.
  loss_name = "vector_loss"
  reuses_records = True

  @classmethod
  def create(cls, setup: base.Setup[Any], **fields: Any) -> "EncoderTask":
    """Returns the task of a run; ValueError for batches in parts."""
    config = setup.config
    num_parts = config.train.gradient_accumulation_steps
    if num_parts > 1 and not config.score_column:
      raise ValueError(
        "Without `score_column`, the texts of a batch are compared with each "
        "other, so it cannot be computed in parts. Leave out "
        "`gradient_accumulation_steps`; `recompute` saves memory as well."
      )
    return super().create(setup, **fields)

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
    dev = base.SplitFile(held_out, "eval_fraction")
    if config.dev_file:
      dev = base.SplitFile(config.dev_file, "dev_file")
    return {
      "train": base.SplitFile(config.data_file, "data_file"),
      "dev": dev,
      "test": base.SplitFile(config.test_file, "test_file"),
    }

  def read(self, split: str) -> Sequence[Row]:
    """Reads the pairs of a split."""
    config, path = self.config, self.files[split].path or ""
    file_format = path.rpartition(".")[2]
    settings = [
      f"{name}_column" for name in ("text_a", "text_b", "negative", "score")
    ]
    columns = tables.parse_columns(
      file_format, [getattr(config, name) for name in settings]
    )
    score = columns[-1]
    named = {c: n for c, n in zip(columns, settings) if c is not None}

    def convert(line: int, row: tables.Row) -> Row:
      pair: Row = {"id": f"{split}-{line}"}
      for field, column in zip(("text", "text_b", "negative"), columns):
        if column is not None:
          pair[field] = tables.get_text(row, column)
      if score is not None:
        pair["label"] = self._read_score(tables.get_cell(row, score))
      return pair

    table = tables.Table(path, file_format, [*named], named)
    rows = list(tables.read(table, convert))
    if not config.dev_file and split != "test":
      is_dev, fraction = split == "dev", config.eval_fraction
      rows = [row for row in rows if _is_held_out(row, fraction) == is_dev]
    if len(rows) < 2:
      raise ValueError(f"{path} has {len(rows)} pairs for {split}; give more.")
    return rows

  def _read_score(self, value: Any) -> float:
    largest = self.config.max_score if self.config else 1.0
    try:
      score = float(value) / largest
    except (TypeError, ValueError, ZeroDivisionError):
      raise tables.BadRowError(f"the score {value!r} is not a number") from None
    if not -1 <= score <= 1:
      raise tables.BadRowError(
        f"the score {value} is above `max_score`, which is {largest:g}"
      )
    return score

  def add_label(self, row: Row, label: Any, split: str) -> Row:
    """Adds the similarity of both texts; None if they belong together."""
    if label is None:
      return row
    return {**row, "label": self._read_score(label)}

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields the sequence of each text, or those of each pair."""
    for row in rows:
      names = [n for n in ("text", "text_b", "negative") if n in row]
      ids = [self.tokenize(row[name]) for name in names]
      yield base.Inputs(
        [self.pack(each) for each in ids],
        is_one_record=len(names) > 1,
        is_cut=any(map(self.is_cut, ids)),
      )

  def targets(self, row: Row, inputs: base.Inputs) -> Iterable[base.Features]:
    """Yields the score of a pair, if it has one."""
    label = row.get("label")
    yield (
      {} if label is None else {"label_scores": np.array([label], np.float32)}
    )

  def compute_losses(
    self, outputs: heads.VectorOutput, features: losses.Features
  ) -> tuple[Tensor, None]:
    """Returns the loss of each pair, float32 [B]."""
    vectors = self._unit_vectors(outputs.sequence_output, features)
    if "label_scores" in features:
      cosines = ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1)
      return ops.square(cosines - features["label_scores"][:, 0]), None
    return self._contrastive_losses(vectors, features["input_ids"]), None

  def _unit_vectors(self, hidden: Tensor, features: losses.Features) -> Tensor:
    """Pools [B, C, F, D] as `pool_vectors`; returns [B, C, D] of length 1."""
    hidden = ops.cast(hidden, "float32")
    vectors = pool_tensors(
      hidden, features["input_mask"], self.settings.pooling
    )
    return ops.normalize(vectors, axis=-1, epsilon=1e-12)

  def _contrastive_losses(self, vectors: Tensor, input_ids: Tensor) -> Tensor:
    """Returns the losses of in-batch negatives, float32 [B], of [B, C, D].

    The candidates of each text are all second texts and negatives of the batch,
    but for other copies of its own second text.
    """
    context = tf.distribute.get_replica_context()
    if context and context.num_replicas_in_sync > 1:
      raise ValueError(
        "pairs without `score_column` are compared within the whole batch, so "
        "they train on one device; set `num_gpus=1`."
      )
    num_pairs = ops.shape(vectors)[0]
    texts, partners = vectors[:, 0], vectors[:, 1]
    candidates, ids = partners, input_ids[:, 1]
    if vectors.shape[1] > 2:
      candidates = ops.concatenate([partners, vectors[:, 2]])
      ids = ops.concatenate([ids, input_ids[:, 2]])
    labels = ops.arange(num_pairs)

    def compute(texts: Tensor, candidates: Tensor, is_copy: Tensor) -> Tensor:
      logits = ops.matmul(texts, ops.transpose(candidates))
      logits = logits * self.config.similarity_scale
      num_candidates = ops.shape(logits)[1]
      is_own = ops.equal(labels[:, None], ops.arange(num_candidates)[None])
      is_other_copy = ops.logical_and(is_copy, ops.logical_not(is_own))
      logits = ops.where(is_other_copy, _EXCLUDED, logits)
      return cross_entropy(logits, labels)

    values = compute(texts, candidates, _are_equal(input_ids[:, 1], ids))
    if self.config.is_symmetric:
      first_ids = input_ids[:, 0]
      others = compute(partners, texts, _are_equal(first_ids, first_ids))
      values = (values + others) / 2
    return values

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the vector, of length 1 if the model's setting says so."""
    lengths = [len(sequence.input_ids) for sequence in inputs.sequences]
    hidden = [output["sequence_output"] for output in outputs]
    if not inputs.is_one_record:
      vector = self.vector(hidden[0][: lengths[0]])
      return {"embedding": vector.tolist(), "num_tokens": lengths[0]}
    vectors = np.stack(
      [
        self.vector(record[0, :length], normalize=True)
        for record, length in zip(hidden, lengths)
      ]
    )
    return {"similarity": float(vectors[0] @ vectors[1]), "vectors": vectors}

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
    if all(row.get("label") is not None for row in rows):
      import scipy.stats  # Takes a second, which predictions need not wait for.

      labels = [row["label"] for row in rows]
      found = [answer["similarity"] for answer in answers]
      return {
        "spearman": float(scipy.stats.spearmanr(found, labels)[0]),
        "pearson": float(scipy.stats.pearsonr(found, labels)[0]),
      }
    vectors = np.stack([answer["vectors"][:2] for answer in answers])
    ranks = find_ranks(vectors[:, 0], vectors[:, 1])
    return {
      "mrr": float(np.mean(1 / ranks)),
      "recall_at_1": float(np.mean(ranks <= 1)),
      "recall_at_10": float(np.mean(ranks <= 10)),
    }

  def write_predictions(
    self, output_dir: str, rows: Sequence[Row], answers: Iterable[Answer]
  ) -> Results:
    """Writes predictions.jsonl with the similarity of each pair."""
    found = list(answers)
    lines = (
      {**row, "similarity": answer["similarity"]}
      for row, answer in zip(rows, found)
    )
    path = os.path.join(output_dir, "predictions.jsonl")
    results.write_lines(path, map(json_files.encode, lines))
    return self.score(rows, found)


def pool_vectors(vectors: np.ndarray, pooling: str) -> np.ndarray:
  """Returns one vector for those of F word pieces, float32 [..., F, D].

  `pooling` is "cls", "mean" or "max"; "none" returns the vectors.
  """
  if pooling == "cls":
    return vectors[..., 0, :]
  if pooling == "mean":
    return vectors.mean(axis=-2)
  return vectors.max(axis=-2) if pooling == "max" else vectors


def pool_tensors(hidden: Tensor, input_mask: Tensor, pooling: str) -> Tensor:
  """Returns what `pool_vectors` does of [..., F, D], without padding."""
  if pooling == "cls":
    return hidden[..., 0, :]
  mask = ops.cast(input_mask, hidden.dtype)[..., None]
  if pooling == "max":
    return ops.max(hidden + (1 - mask) * _EXCLUDED, axis=-2)
  # A record that only fills up a batch has no word pieces.
  num_pieces = ops.maximum(ops.sum(mask, axis=-2), 1)
  return ops.sum(hidden * mask, axis=-2) / num_pieces


def find_ranks(texts: np.ndarray, partners: np.ndarray) -> np.ndarray:
  """Returns the rank of each text's partner among all partners, from 1.

  The vectors are float [N, D], of length 1. A partner ranks below the others
  that are more similar to the text; equal ones, such as copies, do not count.
  """
  ranks = []
  for start in range(0, len(texts), _BLOCK_SIZE):
    cosines = texts[start : start + _BLOCK_SIZE] @ partners.T
    own = np.diagonal(cosines, start)[:, None]
    # Equal texts of different batches may differ by rounding.
    ranks.append(1 + np.sum(cosines > own + 1e-6, axis=1))
  return np.concatenate(ranks)


def _are_equal(ids: Tensor, other_ids: Tensor) -> Tensor:
  """Returns which sequences are equal, [N, M], of int [N, F] and [M, F]."""
  return ops.all(ops.equal(ids[:, None], other_ids[None]), axis=-1)


def _is_held_out(row: Row, fraction: float) -> bool:
  """Returns whether a pair is not trained on, by its first text alone."""
  digest = hashlib.sha256(row["text"].encode()).digest()
  return int.from_bytes(digest[:4], "big") < fraction * 2**32
