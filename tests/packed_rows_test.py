"""Several instances in a row are computed as if each were alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import heads, losses, modeling

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
# The lengths of the instances in each row.
ROWS = ([24], [9, 8, 7], [5, 14], [6, 5, 5, 5], [11])


def make_instances():
  """Random instances of these lengths: features without padding."""
  rng = np.random.default_rng(1)
  found = []
  for length in (n for row in ROWS for n in row):
    num_masked = rng.integers(1, 3)
    found.append(
      {
        "input_ids": rng.integers(5, 60, length),
        "segment_ids": np.sort(rng.integers(0, 2, length)),
        "masked_lm_positions": rng.permutation(length)[:num_masked],
        "masked_lm_ids": rng.integers(5, 60, num_masked),
        "next_sentence_labels": rng.integers(0, 2, 1),
      }
    )
  return found


def batch(rows, is_packed):
  """A batch of rows of instances."""
  sizes = {
    **dict.fromkeys(("input_ids", "segment_ids", "input_mask"), LENGTH),
    "masked_lm_positions": NUM_PREDICTIONS,
    "masked_lm_ids": NUM_PREDICTIONS,
    "masked_lm_weights": NUM_PREDICTIONS,
    "next_sentence_labels": MAX_INSTANCES if is_packed else 1,
    "cls_positions": MAX_INSTANCES,
  }
  found = {name: np.zeros((len(rows), n), int) for name, n in sizes.items()}
  for i, row in enumerate(rows):
    start = first_masked = 0
    for k, one in enumerate(row):
      end = start + len(one["input_ids"])
      last_masked = first_masked + len(one["masked_lm_ids"])
      masked = slice(first_masked, last_masked)
      found["input_ids"][i, start:end] = one["input_ids"]
      found["segment_ids"][i, start:end] = one["segment_ids"]
      found["input_mask"][i, start:end] = 1
      positions = start + one["masked_lm_positions"]
      found["masked_lm_positions"][i, masked] = positions
      found["masked_lm_ids"][i, masked] = one["masked_lm_ids"]
      found["masked_lm_weights"][i, masked] = 1
      found["next_sentence_labels"][i, k] = one["next_sentence_labels"][0]
      found["cls_positions"][i, k] = start
      start, first_masked = end, last_masked
  if not is_packed:
    del found["cls_positions"]
  features = {n: tf.constant(v, tf.int32) for n, v in found.items()}
  weights = tf.cast(features["masked_lm_weights"], tf.float32)
  return {**features, "masked_lm_weights": weights}


@pytest.fixture(scope="module")
def model():
  keras.utils.set_random_seed(1)
  model = heads.PretrainingModel(CONFIG)
  for variable in model.trainable_variables:
    # Biases and norms are not all alike.
    if len(variable.shape) == 1:
      noise = np.random.default_rng(2).normal(size=variable.shape)
      variable.assign_add(0.3 * noise)
  return model


@pytest.fixture(scope="module")
def both():
  """The packed batch and the one with an instance in each row."""
  instances = make_instances()
  ends = np.cumsum([len(row) for row in ROWS])
  rows = [instances[end - len(row) : end] for row, end in zip(ROWS, ends)]
  return batch(rows, True), batch([[one] for one in instances], False)


def losses_and_gradients(model, features, returns_sums, jit_compile=False):
  """The mean losses and metrics, and a dense gradient for each variable."""
  model.returns_sums = returns_sums

  @tf.function(jit_compile=jit_compile)
  def step():
    with tf.GradientTape() as tape:
      outputs = model(features, training=True)
      sums = losses.pretraining_loss(outputs, features)
      loss = tf.add_n([total / weight for total, weight in sums.values()])
    gradients = tape.gradient(loss, model.trainable_variables)
    metrics = losses.pretraining_metrics(outputs, features)
    return loss, metrics, [tf.convert_to_tensor(g) for g in gradients]

  loss, metrics, gradients = step()
  means = {name: float(total / n) for name, (total, n) in metrics.items()}
  return {"loss": float(loss), **means}, gradients


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("returns_sums", [False, True])
def test_losses_and_gradients_are_those_of_the_instances_alone(
  model, both, returns_sums, jit_compile
):
  (packed, packed_gradients), (alone, gradients) = (
    losses_and_gradients(model, features, returns_sums, jit_compile)
    for features in both
  )
  assert packed.pop("instances_per_row") == pytest.approx(11 / 5)
  assert packed.keys() == alone.keys()
  for name, value in alone.items():
    assert packed[name] == pytest.approx(value, abs=1e-5), name
  for variable, one, other in zip(
    model.trainable_variables, packed_gradients, gradients, strict=True
  ):
    # float32: sums of another order.
    np.testing.assert_allclose(one, other, atol=1e-5, err_msg=variable.path)
    # A bias of all keys alike leaves the softmax as it is.
    if not variable.path.endswith("key/bias"):
      assert np.abs(other).max() > 1e-4, variable.path


def test_each_instance_has_its_own_pooled_output(model, both):
  packed, alone = (model.bert(features) for features in both)
  is_input = (both[0]["cls_positions"] > 0).numpy()
  is_input[:, 0] = True
  assert packed.pooled_output.shape == (5, MAX_INSTANCES, 16)
  np.testing.assert_allclose(
    packed.pooled_output[is_input], alone.pooled_output, atol=1e-5
  )


def test_an_instance_does_not_see_the_others_in_its_row(model, both):
  features = dict(both[0])
  ids = features["input_ids"].numpy()
  ids[1, 9:17] = ids[1, 9:17][::-1]  # The second of three.
  before = model.bert(features).sequence_output.numpy()
  features["input_ids"] = tf.constant(ids)
  after = model.bert(features).sequence_output.numpy()
  others = np.r_[0:9, 17:24]
  np.testing.assert_array_equal(before[1, others], after[1, others])
  assert np.abs(before[1, 9:17] - after[1, 9:17]).max() > 1e-3


def test_sizes_need_not_be_known_when_a_row_is_traced(model, both):
  features = {n: both[0][n] for n in ("input_ids", "input_mask", "segment_ids")}
  features["cls_positions"] = both[0]["cls_positions"]
  signature = {n: tf.TensorSpec([None, None], tf.int32) for n in features}
  traced = tf.function(model.bert, input_signature=[signature])
  np.testing.assert_allclose(
    traced(features).pooled_output,
    model.bert(features).pooled_output,
    atol=1e-6,
  )
