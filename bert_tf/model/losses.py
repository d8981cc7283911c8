"""The losses and metrics of each task: pure functions of tensors.

Each is a pair (sum, weight). The mean over a batch is the total of the sums
over the total of the weights, however the batch is split. The weights of a
loss (`*_weights`) depend on the features only, so they are known before the
model is run.
"""

from collections.abc import Mapping
from typing import NamedTuple

from keras import ops

from bert_tf.model.tensor import Tensor

Sums = dict[str, tuple[Tensor, Tensor]]
Features = Mapping[str, Tensor]
Logits = tuple[Tensor, Tensor]


class PretrainingSums(NamedTuple):
  """For each head, the weighted sums of losses and of hits, float32 [2].

  A hit is a label that has the largest logit.
  """

  masked_lm: Tensor
  next_sentence: Tensor


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
  """Returns -log softmax(logits)[label], float32 [...], of float [..., C]."""
  log_probs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
  picked = ops.take_along_axis(log_probs, labels[..., None], axis=-1)
  return -ops.squeeze(picked, axis=-1)


def pretraining_weights(features: Features) -> dict[str, Tensor]:
  """Returns the numbers of masked words and of sentence pairs, float32 []."""
  return {
    # The original's guard against a batch without a masked word.
    "masked_lm_loss": _sum_of(features["masked_lm_weights"]) + 1e-5,
    "next_sentence_loss": ops.sum(_pair_weights(features)),
  }


def next_sentence_sums(logits: Tensor, features: Features) -> Tensor:
  """Returns the weighted sums of losses and of hits, float32 [2].

  The logits are float [B, 2], or [B, K, 2] for packed sequences. The features
  have `next_sentence_labels`, int [B, 1] or [B, K]: 1 for a random sentence.
  """
  labels = ops.reshape(features["next_sentence_labels"], (-1,))
  logits = ops.reshape(logits, (-1, 2))
  return _weighted_sums(logits, labels, _pair_weights(features))


def pretraining_sums(outputs: Logits, features: Features) -> PretrainingSums:
  """Returns the weighted sums of losses and of hits of both heads.

  The outputs are the logits of the masked LM, float [B, P, V], and of
  `next_sentence_sums`. The features have `masked_lm_ids`, int [B, P],
  `masked_lm_weights`, float [B, P], 0 for padding, and those of the latter.
  """
  masked_lm_logits, next_sentence_logits = outputs
  weights = ops.cast(features["masked_lm_weights"], "float32")
  return PretrainingSums(
    _weighted_sums(masked_lm_logits, features["masked_lm_ids"], weights),
    next_sentence_sums(next_sentence_logits, features),
  )


def pretraining_loss(outputs: Logits, features: Features) -> Sums:
  """Returns `masked_lm_loss` and `next_sentence_loss` as (sum, weight).

  The loss of pre-training is the sum of both means (Devlin et al. 2019,
  appendix A.2). See `pretraining_sums` for the arguments.
  """
  return loss_from_sums(pretraining_sums(outputs, features), features)


def loss_from_sums(sums: PretrainingSums, features: Features) -> Sums:
  """Returns `pretraining_loss` of the sums of a batch."""
  totals = sums.masked_lm[0], sums.next_sentence[0]
  weights = pretraining_weights(features)
  return {n: (total, w) for (n, w), total in zip(weights.items(), totals)}


def metrics_from_sums(sums: PretrainingSums, features: Features) -> Sums:
  """Returns the losses and accuracies of both heads as (sum, weight).

  Unlike `pretraining_loss`, divides by the exact number of masked words. For
  packed sequences, also returns the mean `instances_per_row`.
  """
  num_masked = _sum_of(features["masked_lm_weights"])
  num_pairs = ops.sum(_pair_weights(features))
  metrics = {
    "masked_lm_accuracy": (sums.masked_lm[1], num_masked),
    "masked_lm_loss": (sums.masked_lm[0], num_masked),
    "next_sentence_accuracy": (sums.next_sentence[1], num_pairs),
    "next_sentence_loss": (sums.next_sentence[0], num_pairs),
  }
  if "cls_positions" in features:
    rows = ops.ones_like(features["cls_positions"][:, 0], dtype="float32")
    metrics["instances_per_row"] = num_pairs, ops.sum(rows)
  return metrics


def _weighted_sums(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
  losses = ops.sum(cross_entropy(logits, labels) * weights)
  return ops.stack([losses, ops.sum(hits(logits, labels) * weights)])


def _pair_weights(features: Features) -> Tensor:
  """Returns 1 for each sentence pair, 0 for unused slots, float32 [B * K]."""
  labels = ops.reshape(features["next_sentence_labels"], (-1,))
  if "cls_positions" not in features:
    return ops.ones_like(labels, dtype="float32")
  # Unused slots hold 0, which is also the first pair's real [CLS] position.
  positions = features["cls_positions"]
  is_first = ops.arange(positions.shape[1]) == 0
  is_input = ops.logical_or(positions > 0, is_first)
  return ops.reshape(ops.cast(is_input, "float32"), (-1,))


def span_losses(outputs: Logits, features: Features) -> Tensor:
  """Returns the mean of the start and the end loss of windows, float32 [B].

  Args:
    outputs: the logits of the start and of the end, each float [B, F].
    features: `start_positions` and `end_positions`, int [B].
  """
  start_logits, end_logits = outputs
  start = cross_entropy(start_logits, features["start_positions"])
  end = cross_entropy(end_logits, features["end_positions"])
  return (start + end) / 2.0


def per_example_loss(
  logits: Tensor, label_ids: Tensor, problem_type: str
) -> Tensor:
  """Returns a classifier's loss of each example, float32 [B].

  Args:
    logits: float [B, C].
    label_ids: classification: the class, int [B] or [B, 1]. Regression: the
      number, float [B] or [B, 1]. Multilabel: 1 if a label applies, int [B, C].
      Ranking: the relevance from 0 to 1, float [B, 1].
    problem_type: one of run_info.PROBLEM_TYPES: cross entropy, squared error,
      or for the last two the mean of the binary cross entropies.
  """
  logits = ops.cast(logits, "float32")
  if problem_type == "regression":
    numbers = ops.reshape(ops.cast(label_ids, "float32"), (-1,))
    return ops.square(logits[:, 0] - numbers)
  if problem_type in ("multilabel", "ranking"):
    applies = ops.reshape(ops.cast(label_ids, "float32"), ops.shape(logits))
    # -log sigmoid(x) is softplus(-x), and -log(1 - sigmoid(x)) softplus(x).
    return ops.mean(ops.softplus(logits) - applies * logits, axis=-1)
  return cross_entropy(logits, ops.reshape(label_ids, (-1,)))


def distillation_loss(
  logits: Tensor, teacher_logits: Tensor, temperature: float, problem_type: str
) -> Tensor:
  """Returns the loss of each example against a teacher, float32 [B].

  It is the cross entropy with the teacher's probabilities, in which the logits
  of both models, float [B, C], are divided by the temperature T, times T^2, so
  that its gradients do not depend on T (Hinton et al. 2015, arXiv 1503.02531).
  For regression this is the squared difference of both numbers.
  """
  targets = probabilities(teacher_logits / temperature, problem_type)
  logits = ops.cast(logits, "float32") / temperature
  if problem_type == "classification":
    values = -ops.sum(targets * ops.log_softmax(logits, axis=-1), axis=-1)
  else:
    values = per_example_loss(logits, targets, problem_type)
  return temperature**2 * values


def per_example_hits(
  logits: Tensor, label_ids: Tensor, problem_type: str
) -> Tensor | None:
  """Returns 1 for each example that is right, else 0, float32 [B].

  In multilabel, an example is right only if all its labels are. A regression
  and a ranking have None. See `per_example_loss` for the arguments.
  """
  if problem_type in ("regression", "ranking"):
    return None
  if problem_type == "multilabel":
    right = ops.equal(logits > 0, label_ids > 0)
    return ops.cast(ops.all(right, axis=-1), "float32")
  return hits(logits, ops.reshape(label_ids, (-1,)))


def probabilities(logits: Tensor, problem_type: str | None = None) -> Tensor:
  """Returns float32 [B, C]: softmax, sigmoid, or the logits as they are.

  The latter are the numbers of a regression. Multilabel and ranking have the
  sigmoid.
  """
  logits = ops.cast(logits, "float32")
  if problem_type == "regression":
    return logits
  if problem_type in ("multilabel", "ranking"):
    return ops.sigmoid(logits)
  return ops.softmax(logits, axis=-1)


def _sum_of(values: Tensor) -> Tensor:
  return ops.sum(ops.cast(values, "float32"))


def hits(logits: Tensor, labels: Tensor) -> Tensor:
  """Returns 1 where the label has the largest logit, else 0, float32 [...]."""
  predicted = ops.argmax(logits, axis=-1)
  is_hit = ops.equal(predicted, ops.cast(labels, predicted.dtype))
  return ops.cast(is_hit, "float32")
