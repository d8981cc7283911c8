"""Random pre-training instances, packed into rows or with a row each."""

import numpy as np
import tensorflow as tf

from bert_tf import modeling
from bert_tf.model import losses

LENGTH, MAX_INSTANCES, NUM_PREDICTIONS = 24, 4, 8
CONFIG = modeling.BertConfig(
  vocab_size=60,
  hidden_size=16,
  num_hidden_layers=2,
  num_attention_heads=2,
  intermediate_size=32,
  max_position_embeddings=40,
  type_vocab_size=2,
  hidden_dropout_prob=0.0,
  attention_probs_dropout_prob=0.0,
  initializer_range=0.3,
)
# The lengths of the instances in each packed row.
ROWS = ([24], [9, 8, 7], [5, 14], [6, 5, 5, 5], [11])


def make_instances():
  """Returns instances with the lengths in ROWS: features without padding."""
  rng = np.random.default_rng(1)
  result = []
  for length in (n for row in ROWS for n in row):
    num_masked = rng.integers(1, 3)
    result.append(
      {
        "input_ids": rng.integers(5, 60, length),
        "segment_ids": np.sort(rng.integers(0, 2, length)),
        "masked_lm_positions": rng.permutation(length)[:num_masked],
        "masked_lm_ids": rng.integers(5, 60, num_masked),
        "next_sentence_labels": rng.integers(0, 2, 1),
      }
    )
  return result


def batch(rows, is_packed):
  """Returns a batch from rows of instances, padded to LENGTH."""
  sizes = {
    **dict.fromkeys(("input_ids", "segment_ids", "input_mask"), LENGTH),
    "masked_lm_positions": NUM_PREDICTIONS,
    "masked_lm_ids": NUM_PREDICTIONS,
    "masked_lm_weights": NUM_PREDICTIONS,
    "next_sentence_labels": MAX_INSTANCES if is_packed else 1,
    "cls_positions": MAX_INSTANCES,
  }
  if not is_packed:
    del sizes["cls_positions"]
  records = []
  for row in rows:
    starts = np.cumsum([0, *(len(each["input_ids"]) for each in row[:-1])])
    record = {n: np.concatenate([each[n] for each in row]) for n in row[0]}
    record["masked_lm_positions"] = np.concatenate(
      [start + each["masked_lm_positions"] for start, each in zip(starts, row)]
    )
    record["input_mask"] = np.ones_like(record["input_ids"])
    record["masked_lm_weights"] = np.ones_like(record["masked_lm_ids"])
    record["cls_positions"] = starts
    records.append(record)
  return {
    name: tf.constant(
      [np.pad(record[name], (0, n - len(record[name]))) for record in records],
      tf.float32 if name == "masked_lm_weights" else tf.int32,
    )
    for name, n in sizes.items()
  }


def losses_and_gradients(model, features, is_fused, jit_compile=False):
  """Returns loss and metrics by name, and a dense gradient per variable.

  If `is_fused`, computes them with `loss_sums`, otherwise from the logits.
  """

  @tf.function(jit_compile=jit_compile)
  def step():
    with tf.GradientTape() as tape:
      if is_fused:
        sums = model.loss_sums(features, training=True)
      else:
        outputs = model(features, training=True)
        sums = losses.pretraining_sums(outputs, features)
      means = losses.loss_from_sums(sums, features)
      loss = tf.add_n([total / weight for total, weight in means.values()])
    gradients = tape.gradient(loss, model.trainable_variables)
    metrics = losses.metrics_from_sums(sums, features)
    return loss, metrics, [tf.convert_to_tensor(g) for g in gradients]

  loss, metrics, gradients = step()
  means = {name: float(total / n) for name, (total, n) in metrics.items()}
  return {"loss": float(loss), **means}, gradients
