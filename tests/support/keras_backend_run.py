"""Outputs, losses and a training step of every model on Keras' backend.

python -m tests.support.keras_backend_run CHECKPOINTS RESULTS: the models start
from CHECKPOINTS/KIND.ckpt, for each KIND in MODELS. Missing checkpoints are
written with new weights. Writes RESULTS.npz and checkpoints RESULTS/KIND.ckpt.
"""

import os
import sys

import keras
import numpy as np
from keras import ops

from bert_tf import modeling, optimization
from bert_tf.checkpoint import checkpoints
from bert_tf.model import heads, losses
from bert_tf.training import restore, update

CONFIG = modeling.BertConfig(
  vocab_size=50,
  hidden_size=16,
  num_hidden_layers=2,
  num_attention_heads=2,
  intermediate_size=32,
  # No dropout, since the random numbers of backends differ.
  hidden_dropout_prob=0.0,
  attention_probs_dropout_prob=0.0,
  max_position_embeddings=12,
  type_vocab_size=2,
  initializer_range=0.2,
)
heads.CLASSIFIER_DROPOUT = 0.0

RNG = np.random.default_rng(0)
INPUTS = {
  "input_ids": RNG.integers(1, 50, (4, 8)),
  "input_mask": np.arange(8) < np.array([[8], [6], [3], [8]]),
  "segment_ids": RNG.integers(0, 2, (4, 8)),
}
CLASSIFIER = {
  "label_ids": np.array([0, 2, 1, 0]),
  "is_real_example": np.array([1, 1, 1, 0]),
}


def of_classes(logits, features):
  """The loss of examples, of which the last is not real."""
  each = losses.per_example_loss(
    logits, features["label_ids"], "classification"
  )
  return masked_mean(each, features["is_real_example"])


def of_words(logits, features):
  each = losses.cross_entropy(logits, features["label_ids"])
  return masked_mean(each, features["label_mask"])


def masked_mean(values, mask):
  mask = ops.cast(mask, "float32")
  return ops.sum(values * mask) / ops.sum(mask)


def of_pretraining(outputs, features):
  sums = losses.pretraining_loss(outputs, features)
  return sum(total / weight for total, weight in sums.values())


def of_spans(outputs, features):
  return ops.mean(losses.span_losses(outputs, features))


# The model, its loss, and its features in addition to INPUTS.
MODELS = {
  "pretraining": (
    lambda: heads.PretrainingModel(CONFIG),
    of_pretraining,
    {
      "masked_lm_positions": np.array([[1, 2], [3, 4], [1, 0], [6, 5]]),
      "masked_lm_ids": RNG.integers(1, 50, (4, 2)),
      "masked_lm_weights": np.array([[1, 1], [1, 1], [1, 0], [1, 1]], "f4"),
      "next_sentence_labels": np.array([[0], [1], [1], [0]]),
    },
  ),
  "classification": (
    lambda: heads.ClassifierModel(CONFIG, 3),
    of_classes,
    CLASSIFIER,
  ),
  "squad": (
    lambda: heads.SpanModel(CONFIG),
    of_spans,
    {
      "start_positions": np.array([0, 1, 2, 3]),
      "end_positions": np.array([0, 2, 2, 7]),
    },
  ),
  "ner": (
    lambda: heads.TokenModel(CONFIG, 5),
    of_words,
    {
      "label_ids": RNG.integers(0, 5, (4, 8)),
      "label_mask": RNG.integers(0, 2, (4, 8)),
    },
  ),
  "swag": (
    lambda: heads.MultipleChoiceModel(CONFIG),
    of_classes,
    CLASSIFIER,
  ),
}


def train_one_step(model, loss_fn, features):
  """Takes a step of Keras' own training loop; returns the optimizer."""
  optimizer = optimization.create_optimizer(1e-3, 10, 0)
  # A small scale keeps gradients below the clipping norm. Only TensorFlow has
  # sparse gradients, and their norm differs, as in the original.
  model.compute_loss = lambda x, y, y_pred, *_, **__: 0.02 * loss_fn(y_pred, x)
  model.compile(optimizer=optimizer, jit_compile=False)
  model.train_on_batch(features)
  return optimizer


def main(folder, results_folder):
  results = {}
  for kind, (make, loss_fn, features) in MODELS.items():
    model, path = make(), os.path.join(folder, f"{kind}.ckpt")
    if not os.path.exists(path + ".index"):
      weights = {v.path: v.numpy() for v in model.weights}
      checkpoints.write(path, weights)
    assert checkpoints.init_from_checkpoint(model, path) == []
    inputs = INPUTS
    if kind == "swag":
      inputs = {n: np.stack([v, v[::-1], v], 1) for n, v in INPUTS.items()}
      inputs["input_ids"][:, 2] += 1
      inputs["input_ids"] %= 50
    features = {**inputs, **features}
    features = {
      n: v if v.dtype == "f4" else v.astype("int32")
      for n, v in features.items()
    }
    outputs = model(features)
    for i, output in enumerate(keras.tree.flatten(outputs)):
      results[f"{kind}/output_{i}"] = keras.ops.convert_to_numpy(output)
    loss = loss_fn(outputs, features)
    results[f"{kind}/loss"] = keras.ops.convert_to_numpy(loss)
    made = update.Update(train_one_step(model, loss_fn, features))
    tensors = {
      name: keras.ops.convert_to_numpy(variable)
      for name, variable in restore.training_variables(model, made).items()
    }
    results |= {f"{kind}/{name}": value for name, value in tensors.items()}
    path = os.path.join(results_folder, f"{kind}.ckpt")
    checkpoints.write(path, tensors)
    assert restore.resume(path, model, made) == 1
  np.savez(results_folder + ".npz", **results)
  print(keras.backend.backend(), len(results))


if __name__ == "__main__":
  main(*sys.argv[1:])
