"""The losses and metrics of each head, pure functions of its outputs.

Each is returned as (sum, weight): the mean over whatever the batch was split
into is then the total of the sums over the total of the weights. The weights
of a loss are a function of the features alone (`*_weights`), so that they are
known before the model is run.
"""

from collections.abc import Mapping

from keras import ops

from bert_tf.heads import PretrainingOutput, PretrainingSums, SpanOutput
from bert_tf.modeling import Tensor

Sums = dict[str, tuple[Tensor, Tensor]]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
  """Returns -log softmax(logits)[label], float32 [...], of float [..., C]."""
  log_probs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
  picked = ops.take_along_axis(log_probs, labels[..., None], axis=-1)
  return -ops.squeeze(picked, axis=-1)


def pretraining_weights(features: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """Returns the weights of `pretraining_loss`: masked words and pairs."""
  weights = ops.cast(features["masked_lm_weights"], "float32")
  return {
    # The original's guard against a batch without a masked word.
    "masked_lm_loss": ops.sum(weights) + 1e-5,
    "next_sentence_loss": ops.sum(_pair_weights(features)),
  }


def pretraining_loss(
  outputs: PretrainingOutput | PretrainingSums, features: Mapping[str, Tensor]
) -> Sums:
  """Returns `masked_lm_loss` and `next_sentence_loss` as (sum, weight).

  The features have `masked_lm_ids`, int [B, P]; `masked_lm_weights`, float [B,
  P], 0 for padding; `next_sentence_labels`, int [B, 1], or [B, K] beside
  `cls_positions` of rows that hold several inputs, 0 for a pair that is
  consecutive.
  """
  next_sentence = cross_entropy(*_next_sentence(outputs, features))
  totals = pretraining_weights(features)
  return {
    "masked_lm_loss": (
      _masked_lm_sums(outputs, features)[0],
      totals["masked_lm_loss"],
    ),
    "next_sentence_loss": (
      ops.sum(next_sentence * _pair_weights(features)),
      totals["next_sentence_loss"],
    ),
  }


def pretraining_metrics(
  outputs: PretrainingOutput | PretrainingSums, features: Mapping[str, Tensor]
) -> Sums:
  """Returns losses and accuracies of both heads as (sum, weight).

  Unlike the loss that is trained, the losses here are plain means: of the
  real masked words, and of the pairs. Of rows that hold several inputs there is
  `instances_per_row`, too.
  """
  weights = ops.cast(features["masked_lm_weights"], "float32")
  losses = pretraining_loss(outputs, features)
  hits = _hits(*_next_sentence(outputs, features)) * _pair_weights(features)
  masked_lm_weight = ops.sum(weights)
  next_sentence_sum, pairs = losses["next_sentence_loss"]
  metrics = {
    "masked_lm_accuracy": (
      _masked_lm_sums(outputs, features)[1],
      masked_lm_weight,
    ),
    "masked_lm_loss": (losses["masked_lm_loss"][0], masked_lm_weight),
    "next_sentence_accuracy": (ops.sum(hits), pairs),
    "next_sentence_loss": (next_sentence_sum, pairs),
  }
  if "cls_positions" in features:
    num_rows = _num_rows(features["cls_positions"][:, 0])
    metrics["instances_per_row"] = pairs, num_rows
  return metrics


def _next_sentence(
  outputs: PretrainingOutput | PretrainingSums, features: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor]:
  """Returns logits, float [pairs, 2], and labels, int [pairs]."""
  return (
    ops.reshape(outputs.next_sentence_logits, (-1, 2)),
    ops.reshape(features["next_sentence_labels"], (-1,)),
  )


def _pair_weights(features: Mapping[str, Tensor]) -> Tensor:
  """Returns float32 [pairs], 0 for the place of an input in a row without."""
  labels = ops.reshape(features["next_sentence_labels"], (-1,))
  if "cls_positions" not in features:
    return ops.ones_like(labels, dtype="float32")
  positions = features["cls_positions"]
  is_first = ops.arange(positions.shape[1]) == 0
  is_input = ops.logical_or(positions > 0, is_first)
  return ops.reshape(ops.cast(is_input, "float32"), (-1,))


def _masked_lm_sums(
  outputs: PretrainingOutput | PretrainingSums, features: Mapping[str, Tensor]
) -> Tensor:
  """Returns the weighted sums of losses and of hits, float32 [2]."""
  if isinstance(outputs, PretrainingSums):
    return outputs.masked_lm_sums
  weights = ops.cast(features["masked_lm_weights"], "float32")
  logits, ids = outputs.masked_lm_logits, features["masked_lm_ids"]
  both = ops.stack([cross_entropy(logits, ids), _hits(logits, ids)])
  return ops.sum(both * weights, axis=(1, 2))


def span_weights(features: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """Returns the weight of `span_loss`: windows."""
  return {"span_loss": _num_rows(features["start_positions"])}


def span_loss(outputs: SpanOutput, features: Mapping[str, Tensor]) -> Sums:
  """Returns the mean of the start's and the end's loss as (sum, weight).

  The features have `start_positions` and `end_positions`, int [B].
  """
  start = cross_entropy(outputs.start_logits, features["start_positions"])
  end = cross_entropy(outputs.end_logits, features["end_positions"])
  losses = (start + end) / 2.0
  return {"span_loss": (ops.sum(losses), span_weights(features)["span_loss"])}


def per_example_loss(
  logits: Tensor, label_ids: Tensor, problem_type: str
) -> Tensor:
  """Returns a classifier's loss of each example, float32 [B].

  Args:
    logits: float [B, C].
    label_ids: int [B] or [B, 1], a class; float [B] or [B, 1], the number, in
      a regression; int [B, C], 1 for a label that applies, in multilabel.
    problem_type: one of run_info.PROBLEM_TYPES: cross entropy, squared error,
      or the mean over labels of the binary cross entropy.
  """
  logits = ops.cast(logits, "float32")
  if problem_type == "regression":
    numbers = ops.reshape(ops.cast(label_ids, "float32"), (-1,))
    return ops.square(logits[:, 0] - numbers)
  if problem_type == "multilabel":
    applies = ops.cast(label_ids, "float32")
    # -log sigmoid(x) is softplus(-x), and -log(1 - sigmoid(x)) softplus(x).
    losses = ops.softplus(logits) - applies * logits
    return ops.mean(losses, axis=-1)
  return cross_entropy(logits, ops.reshape(label_ids, (-1,)))


def classifier_weights(features: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """Returns the weight of `classifier_loss`: real examples."""
  return {"classifier_loss": ops.sum(_real_examples(features))}


def classifier_loss(
  logits: Tensor, features: Mapping[str, Tensor], problem_type: str
) -> Sums:
  """Returns the loss of the real examples as (sum, weight).

  The logits are float [B, C]; the features have `label_ids`, see
  `per_example_loss`, and `is_real_example`, int [B] or [B, 1], 0 for an example
  that fills the batch up.
  """
  losses = per_example_loss(logits, features["label_ids"], problem_type)
  weights = _real_examples(features)
  return {"classifier_loss": (ops.sum(losses * weights), ops.sum(weights))}


def classifier_metrics(
  logits: Tensor, features: Mapping[str, Tensor], problem_type: str
) -> Sums:
  """Returns `example_loss` and, but for a regression, `accuracy`.

  In multilabel an example is right when all its labels are.
  """
  weights = _real_examples(features)
  label_ids = features["label_ids"]
  losses = per_example_loss(logits, label_ids, problem_type)
  metrics = {"example_loss": (ops.sum(losses * weights), ops.sum(weights))}
  if problem_type == "regression":
    return metrics
  if problem_type == "multilabel":
    right = ops.equal(logits > 0, label_ids > 0)
    hits = ops.cast(ops.all(right, axis=-1), "float32")
  else:
    hits = _hits(logits, ops.reshape(label_ids, (-1,)))
  metrics["accuracy"] = (ops.sum(hits * weights), ops.sum(weights))
  return metrics


def probabilities(logits: Tensor, problem_type: str) -> Tensor:
  """Returns float32 [B, C]: softmax, sigmoid, or a regression's numbers."""
  logits = ops.cast(logits, "float32")
  if problem_type == "regression":
    return logits
  if problem_type == "multilabel":
    return ops.sigmoid(logits)
  return ops.softmax(logits, axis=-1)


def token_weights(features: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """Returns the weight of `token_loss`: positions that have a label."""
  return {"token_loss": ops.sum(ops.cast(features["label_mask"], "float32"))}


def token_loss(logits: Tensor, features: Mapping[str, Tensor]) -> Sums:
  """Returns the cross entropy of the labelled positions as (sum, weight).

  The logits are float [B, F, C]; the features have `label_ids`, int [B, F], and
  `label_mask`, int [B, F], 1 at the positions that have a label.
  """
  losses = cross_entropy(logits, features["label_ids"])
  weights = ops.cast(features["label_mask"], "float32")
  total = token_weights(features)["token_loss"]
  return {"token_loss": (ops.sum(losses * weights), total)}


def token_metrics(logits: Tensor, features: Mapping[str, Tensor]) -> Sums:
  """Returns `token_loss` and `accuracy`; see `token_loss` for the arguments."""
  weights = ops.cast(features["label_mask"], "float32")
  hits = ops.sum(_hits(logits, features["label_ids"]) * weights)
  metrics = token_loss(logits, features)
  return {**metrics, "accuracy": (hits, ops.sum(weights))}


def _num_rows(labels: Tensor) -> Tensor:
  """Returns the number of examples, float32 [], from one number of each."""
  return ops.sum(ops.ones_like(labels, dtype="float32"))


def _real_examples(features: Mapping[str, Tensor]) -> Tensor:
  """Returns float32 [B], 0 for an example that fills the batch up."""
  return ops.reshape(ops.cast(features["is_real_example"], "float32"), (-1,))


def _hits(logits: Tensor, labels: Tensor) -> Tensor:
  """Returns float32, 1 where the label has the largest logit."""
  predicted = ops.argmax(logits, axis=-1)
  return ops.cast(
    ops.equal(predicted, ops.cast(labels, predicted.dtype)), "float32"
  )
