import keras
import numpy as np
import pytest

from bert_tf import modeling, optimization
from bert_tf.model import heads

CONFIG = modeling.BertConfig(
  vocab_size=30,
  hidden_size=8,
  num_hidden_layers=1,
  num_attention_heads=2,
  intermediate_size=16,
  max_position_embeddings=12,
  type_vocab_size=2,
  unknown={"directionality": "bidi"},
)
IDS = np.array([[1, 2, 3], [4, 5, 0]])
FEATURES = {
  "input_ids": IDS,
  "input_mask": np.sign(IDS),
  "segment_ids": np.array([[0, 1, 1], [0, 0, 0]]),
}
CHOICES = {name: value[None] for name, value in FEATURES.items()}
POSITIONS = {**FEATURES, "masked_lm_positions": np.array([[1, 2], [0, 1]])}

MODELS = {
  "bert": (lambda: modeling.BertModel(CONFIG, True), FEATURES),
  "pretraining": (lambda: heads.PretrainingModel(CONFIG), POSITIONS),
  "classification": (lambda: heads.ClassifierModel(CONFIG, 3), FEATURES),
  "ner": (lambda: heads.TokenModel(CONFIG, 3), FEATURES),
  "squad": (lambda: heads.SpanModel(CONFIG), FEATURES),
  "swag": (lambda: heads.MultipleChoiceModel(CONFIG), CHOICES),
}


def assert_equal(outputs, others):
  arrays, other_arrays = map(keras.tree.flatten, (outputs, others))
  assert len(arrays) == len(other_arrays)
  for array, other in zip(arrays, other_arrays):
    np.testing.assert_array_equal(np.asarray(array), np.asarray(other))


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_the_same_after_saving_and_after_cloning(kind, tmp_path):
  make, features = MODELS[kind]
  model = make()
  expected = model(features)
  model.save(tmp_path / "model.keras")
  loaded = keras.saving.load_model(tmp_path / "model.keras")
  assert type(loaded) is type(model)
  assert loaded.get_config() == model.get_config()
  assert [v.path for v in loaded.weights] == [v.path for v in model.weights]
  assert_equal(loaded(features), expected)
  clone = keras.models.clone_model(model)
  clone.set_weights(model.get_weights())
  assert_equal(clone(features), expected)


def test_a_loaded_model_trains_on_with_its_optimizer_and_frozen_layers(
  tmp_path,
):
  model = heads.ClassifierModel(CONFIG, 3)
  model.bert.embeddings.trainable = False
  model.compile(
    optimization.create_optimizer(1e-2, 8, 1),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
  )
  model.fit(FEATURES, np.array([0, 2]), batch_size=1, verbose=0)
  model.save(tmp_path / "model.keras")
  loaded = keras.saving.load_model(tmp_path / "model.keras")
  assert loaded.optimizer.get_config() == model.optimizer.get_config()
  assert int(loaded.optimizer.iterations) == 2
  paths = [v.path for v in model.trainable_variables]
  assert [v.path for v in loaded.trainable_variables] == paths
  assert not any(path.startswith("bert/embeddings/") for path in paths)
  for one in (model, loaded):
    one.seed_generator.state.assign([7, 0])
    one.fit(FEATURES, np.array([0, 2]), verbose=0, shuffle=False)
  assert_equal(loaded.get_weights(), model.get_weights())


@pytest.mark.parametrize(
  ("dtype", "variables", "outputs"),
  [
    ("mixed_float16", "float32", "float16"),
    ("float64", "float64", "float64"),
  ],
)
def test_every_layer_has_the_dtype_of_the_model(
  dtype, variables, outputs, tmp_path
):
  for kind in ("classification", "bert", "pretraining", "squad"):
    model = type(MODELS[kind][0]())
    arguments = {"num_labels": 3} if kind == "classification" else {}
    model = model(CONFIG, dtype=dtype, **arguments)
    result = keras.tree.flatten(model(MODELS[kind][1]))
    # Logits are as wide as the variables; the encoder's outputs are not.
    dtypes = {keras.backend.standardize_dtype(x.dtype) for x in result}
    assert dtypes == {outputs if kind == "bert" else variables}
    assert {v.dtype for v in model.weights} == {variables}
    assert {layer.compute_dtype for layer in model._flatten_layers()} == {
      outputs
    }
  model.save(tmp_path / "model.keras")
  loaded = keras.saving.load_model(tmp_path / "model.keras")
  assert loaded.dtype_policy.name == dtype
