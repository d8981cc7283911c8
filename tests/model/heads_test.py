"""Variables, losses, dropout and initial values of the heads."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from bert_tf import modeling, task_registry
from bert_tf.model import heads, losses

# A float32 forward pass of one layer.
close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5)  # noqa: E731

KINDS = [
  task_registry.load(t.model) for t in task_registry.TASKS.values() if t.model
]


@pytest.mark.parametrize("kind", KINDS)
def test_heads_name_the_variables_of_their_models(kind):
  config = modeling.BertConfig(7, 4, 1, 2, 6, max_position_embeddings=5)
  model = heads.build_model(kind, config, num_labels=3)
  sizes = {"D": 4, "V": 7, "C": 3}
  named = {
    name: tuple(sizes.get(size, size) for size in shape)
    for head in kind.heads
    for name, shape in head.shapes.items()
  }
  result = {v.path: tuple(v.shape) for v in model.weights}
  assert named == {
    name: shape for name, shape in result.items() if name[:5] != "bert/"
  }
  assert heads.find_heads(result, kind.task) == kind.heads
  assert heads.find_model(kind.heads, kind.task) is kind


def test_without_positions_the_masked_lm_predicts_every_position():
  model = heads.PretrainingModel(modeling.BertConfig(7, 4, 1, 2, 6))
  ids = np.array([[2, 5, 6, 3], [2, 4, 3, 0]])
  every, pooled = model({"input_ids": ids})
  places = np.array([[2, 1], [0, 3]])
  some, same = model({"input_ids": ids, "masked_lm_positions": places})
  close(np.take_along_axis(np.array(every), places[..., None], 1), some)
  close(pooled, same)
  loss = keras.losses.SparseCategoricalCrossentropy(True, ignore_class=-1)
  model.compile("sgd", loss=[loss, None])
  labels = np.where(ids > 3, ids, -1)
  expected = -special.log_softmax(every, axis=-1)[ids > 3, labels[ids > 3]]
  result = model.evaluate({"input_ids": ids}, (labels,), verbose=0)
  close(result, expected.mean())
  with pytest.raises(ValueError, match="order of the outputs"):
    model.fit({"input_ids": ids}, {"labels": labels}, verbose=0)


LOGITS = np.array([[2.0, -1.0, 0.5], [-60.0, 60.0, 0.5]])
CHANCES = special.expit(LOGITS)


@pytest.mark.parametrize(
  ("problem_type", "logits", "label_ids", "expected", "hits", "probabilities"),
  [
    (
      "classification",
      [[1.0, 2.0, 0.0], [3.0, 2.0, 1.0], [0.0, 0.0, 1.0]],
      [[1], [1], [2]],
      [0.407606, 1.407606, 0.551445],  # -log softmax
      [1.0, 0.0, 1.0],
      special.softmax([[1, 2, 0], [3, 2, 1], [0, 0, 1]], axis=-1),
    ),
    (
      "regression",
      [[1.0], [2.5], [-1.0]],
      [[1.5], [2.5], [1.0]],
      [0.25, 0.0, 4.0],
      None,
      [[1.0], [2.5], [-1.0]],
    ),
    (  # The third label of the first example is wrong; the second is right.
      "multilabel",
      LOGITS,
      [[1, 0, 0], [0, 1, 1]],
      -np.log(np.abs(CHANCES - [[0, 1, 1], [1, 0, 0]])).mean(axis=1),
      [0.0, 1.0],
      CHANCES,
    ),
  ],
)
def test_each_type_of_problem_has_its_loss(
  problem_type, logits, label_ids, expected, hits, probabilities
):
  logits, label_ids = np.array(logits, np.float32), np.array(label_ids)
  close(losses.per_example_loss(logits, label_ids, problem_type), expected)
  close(losses.probabilities(logits, problem_type), probabilities)
  result = losses.per_example_hits(logits, label_ids, problem_type)
  assert hits is result is None or np.array(result).tolist() == hits


@pytest.mark.parametrize(
  ("kind", "size", "shape"),
  [(heads.ClassifierModel, 256, (256, 2)), (heads.TokenModel, 64, (16, 64))],
)
def test_dropout_drops_a_tenth_of_the_input_whatever_the_config_says(
  kind, size, shape
):
  config = modeling.BertConfig(
    *(50, size, 1, 1, 16),
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=64,
  )
  model = kind(config, num_labels=size)
  # With the identity as a head, the logits are its input after dropout.
  model.task_layer.output_weights.assign(np.eye(size))
  ids = {"input_ids": tf.ones(shape, tf.int32)}
  whole = model(ids).numpy()
  dropped = model(ids, training=True).numpy()
  # 65,536 draws: five standard deviations are 0.006.
  assert abs((dropped == 0.0).mean() - 0.1) < 0.006
  is_kept = dropped != 0.0
  np.testing.assert_allclose(dropped[is_kept], whole[is_kept] / 0.9, rtol=1e-5)


@pytest.mark.parametrize(
  ("make", "name", "deviation"),
  [
    (lambda c: heads.ClassifierModel(c, 3), "output_weights", 0.02),
    (heads.SpanModel, "cls/squad/output_weights", 0.02),
    (heads.PretrainingModel, "cls/seq_relationship/output_weights", 0.5),
  ],
)
def test_a_tasks_layer_starts_as_in_the_original(make, name, deviation):
  """The config's initializer_range applies only to pre-training's layers."""
  config = modeling.BertConfig(50, 512, 1, 2, 16, initializer_range=0.5)
  (value,) = (v.numpy() for v in make(config).weights if v.path == name)
  # Truncated at two deviations, which leaves 0.88 of the deviation.
  assert value.std() == pytest.approx(0.88 * deviation, rel=0.1)
