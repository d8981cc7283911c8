"""Mixed precision: supported devices and loss scaling."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling, names, optimization
from bert_tf.checkpoint import checkpoint_names
from bert_tf.model import heads, losses
from bert_tf.model.layers import mixed_precision
from bert_tf.training import update
from tests.support import scale_run, short_products


def set_gpu(monkeypatch, capability):
  devices = {"GPU": [tf.config.PhysicalDevice("GPU:0", "GPU")]}
  monkeypatch.setattr(
    tf.config, "list_physical_devices", lambda kind: devices.get(kind, [])
  )
  details = {"compute_capability": capability, "device_name": "Tesla"}
  monkeypatch.setattr(
    tf.config.experimental, "get_device_details", lambda device: details
  )


@pytest.mark.parametrize(
  ("capability", "taken"),
  [
    (None, {"float32", "tf32", "bfloat16", "float16"}),  # The CPU.
    ((6, 1), {"float32"}),
    ((7, 0), {"float32", "float16"}),
    ((8, 0), {"float32", "tf32", "bfloat16", "float16"}),
  ],
)
def test_a_device_accepts_the_types_that_it_supports(
  monkeypatch, capability, taken
):
  if capability:
    set_gpu(monkeypatch, capability)
  refused = set()
  for name in names.PRECISIONS:
    try:
      mixed_precision.check_devices(name)
    except ValueError:
      refused.add(name)
  assert set(names.PRECISIONS) - refused == taken


def test_a_tpu_has_no_float16(monkeypatch):
  monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind])
  with pytest.raises(ValueError, match="set `precision=bfloat16`"):
    mixed_precision.check_devices("float16")


@pytest.mark.parametrize("name", short_products.NAMES)
def test_only_products_are_computed_in_16_bits(name):
  config = modeling.BertConfig.from_dict(scale_run.CONFIG)
  features = next(scale_run.batches(0))
  with mixed_precision.policy_scope(name):
    model = heads.PretrainingModel(config)
  assert keras.config.dtype_policy().name == "float32"
  with tf.GradientTape() as tape:
    outputs = model(features)
    sums = losses.pretraining_loss(outputs, features)
    loss = sum(total / weight for total, weight in sums.values())
  assert {variable.dtype for variable in model.weights} == {"float32"}
  assert outputs.masked_lm_logits.dtype == "float32"
  assert model.bert(features).pooled_output.dtype == name
  assert loss.dtype == "float32"
  gradients = tape.gradient(loss, model.trainable_variables)
  assert {gradient.dtype.name for gradient in gradients} == {"float32"}
  # Casting whole tables would make it dense, and the norm another.
  assert not isinstance(gradients[0], tf.IndexedSlices)  # Tied to the output.
  with mixed_precision.policy_scope(name):
    classifier = heads.ClassifierModel(config, 2)
  with tf.GradientTape() as tape:
    logits = tf.cast(classifier(features), tf.float32)
    loss = tf.reduce_sum(logits)
  table = classifier.bert.embeddings.word_embeddings
  assert isinstance(tape.gradient(loss, table.value), tf.IndexedSlices)


OPTIMIZERS = {
  "adamw": lambda: optimization.create_optimizer(0.1, 10, 0),
  "nadam": lambda: keras.optimizers.Nadam(0.1, global_clipnorm=1.0),
}


def make_update(variables, loss_scale=None, name="adamw"):
  optimizer = OPTIMIZERS[name]()
  optimizer.build(variables)
  return update.Update(optimizer, loss_scale)


def apply(made, gradients, variables):
  made.apply(optimization.to_dense(gradients), variables)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_scaled_gradient_gives_the_step_of_the_plain_one(name):
  plain, scaled = (keras.Variable([1.0, 2.0], name="kernel") for _ in "ab")
  scale = mixed_precision.LossScale()
  gradient = tf.constant([0.3, -0.4])
  apply(make_update([plain], None, name), [gradient], [plain])
  factor = scale.scale.numpy()
  apply(make_update([scaled], scale, name), [gradient * factor], [scaled])
  np.testing.assert_allclose(scaled.numpy(), plain.numpy(), rtol=1e-6)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_overflow_changes_only_the_loss_scale(bad, name):
  variables = [keras.Variable([1.0, 2.0], name=n) for n in ("a", "b")]
  loss_scale = mixed_precision.LossScale()
  made = make_update(variables, loss_scale, name)
  state = made.variables()
  changed = [v for n, v in state.items() if checkpoint_names.is_slot(n)]
  changed += variables
  apply(made, [tf.constant([0.1, 0.2])] * 2, variables)
  before = [v.numpy() for v in changed]
  assert before[-1][0] != 1.0
  scale = loss_scale.scale.numpy()
  apply(made, [tf.constant([bad, 1.0]), tf.constant([0.1, 0.2])], variables)
  for variable, value in zip(changed, before, strict=True):
    np.testing.assert_array_equal(variable.numpy(), value)
  assert loss_scale.scale.numpy() == scale / 2
  assert loss_scale.good_steps.numpy() == 0
  assert made.optimizer.iterations.numpy() == 2


def test_the_scale_doubles_after_enough_good_steps(monkeypatch):
  monkeypatch.setattr(mixed_precision, "_STEPS_UNTIL_DOUBLED", 3)
  scale = mixed_precision.LossScale()
  first = scale.scale.numpy()
  result = []
  for is_finite in (True, True, False, True, True, True, True):
    scale.update(tf.constant(is_finite))
    result.append(float(scale.scale.numpy() / first))
  assert result == [1, 1, 0.5, 0.5, 0.5, 1, 1]
